"""Hypothesis strategies: small random schemas, well-typed queries, streams with ties, and batch boundaries.

Everything is kept tiny (values 0 to 2, few types, at most nine events) so that many examples have matches and the
reference matcher is quick. What only differs by the sign of a floating zero is not generated: a divisor or a power's
base is an attribute or a constant, never a minimum or a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from naive import Event, Value

from fastcep.events import Schema
from fastcep.query import ast

Draw = Callable[..., Any]

DTYPES = {"k": "int64", "v": "int64", "f": "float64", "s": "string", "b": "bool"}
COMPARISONS = ("=", "<=", ">=", "<", ">", "!=")
SMALL = [0, 1, 2]
VALUES: dict[str, list[Value]] = {
    "int64": [*SMALL, *SMALL, *SMALL, -1, 3, 2**53 + 1, 2**62, -(2**63)],
    "float64": [0.0, 1.0, 2.0, 0.5, 1.0, 0.0, -1.5, -0.0, float("nan"), float("inf"), 2.0**53],
    "string": ["x", "y", "x", "y", "z", ""],
    "bool": [False, True],
}


@dataclass(frozen=True)
class Case:
    """One example: a query, its stream and where the stream is cut (the last size repeats)."""

    query: ast.Query
    text: str
    events: list[Event]
    batch_sizes: list[int]

    def __repr__(self) -> str:
        from harness import describe

        return f"Case({describe(self.query, self.events)}\nbatch sizes: {self.batch_sizes})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print every node


# ---------------------------------------------------------------------- schemas


@st.composite
def schemas(draw: Draw) -> Schema:
    """One to three types; ``k`` is in all, other attributes in some; sometimes own columns, codes or a sequence."""
    names = ["A", "B", "C"][: draw(st.sampled_from([2, 1, 3]))]
    types = {
        name: {key: dtype for key, dtype in DTYPES.items() if key == "k" or draw(st.sampled_from([False, True, True]))}
        for name in names
    }
    options: dict[str, Any] = {"type": "type" if len(names) > 1 or draw(st.booleans()) else None}
    if draw(rarely()):
        options["sources"] = {name: {key: f"{name}.{key}" for key in types[name]} for name in names}
    if options["type"] is not None and draw(rarely()):
        options["codes"] = {name: 7 * number - 3 for number, name in enumerate(names)}
    if draw(rarely()):
        options["sequence"] = "number"
    return Schema(types, time="ts", **options)


def rarely() -> st.SearchStrategy[bool]:
    """True once in eight; shrinks to False."""
    return st.sampled_from([False] * 7 + [True])


# --------------------------------------------------------------------- patterns


@st.composite
def patterns(draw: Draw, schema: Schema, most: int = 4) -> ast.Sequence:
    """One to ``most`` members in order, of single types or unions, at most three of them repeated."""
    members = []
    repeated = 0
    for variable in "abcd"[: draw(st.integers(1, most))]:
        types = tuple(draw(st.lists(st.sampled_from(schema.type_names), min_size=1, max_size=2, unique=True)))
        kind = draw(st.sampled_from(["one", "one", "one", "?", "+", "+", "*", "{}"] if repeated < 3 else ["one", "?"]))
        minimum, maximum = 1, None
        if kind == "one":
            maximum = 1
        elif kind == "?":
            minimum, maximum = 0, 1
        elif kind == "*":
            minimum = 0
        elif kind == "{}":
            minimum = draw(st.integers(0, 2))
            maximum = draw(st.sampled_from([None, max(minimum, 1), minimum + 1, minimum + 2]))
        starred = kind in "+*{}"
        repeated += starred
        members.append(ast.Member(types, variable, minimum, maximum, starred))
    return ast.Sequence(tuple(members))


def windows() -> st.SearchStrategy[ast.Window]:
    """Time, count and no bound."""
    counts = st.sampled_from([5, 3, 8, 4, 2, 1])
    return st.one_of(time_windows(), counts.map(ast.CountWindow), st.just(ast.Unbounded()))


def time_windows() -> st.SearchStrategy[ast.Window]:
    """Windows in nanoseconds, as the streams' times are."""
    return st.sampled_from([5, 3, 8, 20, 1, 0]).map(ast.TimeWindow)


# ------------------------------------------------------------------ expressions


@dataclass
class Expressions:
    """Draws well-typed expressions over a pattern's variables. ``relative`` allows ``x[i]``."""

    draw: Draw
    schema: Schema
    members: tuple[ast.Member, ...]
    relative: bool = True

    def pick(self, *options: Any) -> Any:
        """One of the options; shrinks to the first."""
        return self.draw(st.sampled_from(options))

    def dtypes(self, member: ast.Member) -> dict[str, str]:
        """Attributes that all types of a member share."""
        first, *others = (dict(self.schema.attributes(name)) for name in member.types)
        return {key: dtype for key, dtype in first.items() if all(key in other for other in others)}

    def reference(self, *dtypes: str) -> ast.Expr | None:
        """An attribute of one of the dtypes, or None if no variable has one."""
        choices = [(m, key) for m in self.members for key, dtype in self.dtypes(m).items() if dtype in dtypes]
        if not choices:
            return None
        member, key = self.pick(*choices)
        return self.attribute(member, key)

    def attribute(self, member: ast.Member, key: str) -> ast.Attribute:
        """``x.key``, with an index if x is repeated."""
        if not member.repeated:
            return ast.Attribute(member.variable, key)
        indices = [ast.Index("first"), ast.Index("last"), *(ast.Index("position", k) for k in SMALL)]
        if self.relative:
            indices = [ast.Index("relative", k) for k in (0, 0, 1, -1)] + indices
        return ast.Attribute(member.variable, key, self.pick(*indices))

    def aggregate(self) -> ast.Expr | None:
        """An aggregate of a repeated variable, or None if there is none."""
        repeated = [member for member in self.members if member.repeated]
        if not repeated:
            return None
        member = self.pick(*repeated)
        function = self.pick("COUNT", "SUM", "MAX", "MIN", "AVG", "STDDEV")
        if function == "COUNT":
            return ast.Aggregate(function, member.variable, self.pick(None, None, *self.dtypes(member)))
        keys = [key for key, dtype in self.dtypes(member).items() if dtype in ("int64", "float64")]
        return ast.Aggregate(function, member.variable, self.pick(*keys, "seq"))

    def constant(self) -> ast.Literal:
        """A small number."""
        return ast.Literal(self.pick(1, 0, 2, -1, 3, 0.5, 1.0, -0.5, 2.0))

    def leaf(self) -> ast.Expr:
        """An attribute that is a number (``k`` is always there)."""
        found = self.reference("int64", "int64", "float64")
        assert found is not None
        return found

    def number(self, depth: int) -> ast.Expr:
        """A numeric expression that mentions a variable."""
        kind = self.pick(
            "leaf", "leaf", "aggregate", "aggregate", "+", "-", "*", "//", "%", "/", "^", "call", "negative", "seq"
        )
        if kind == "seq":
            member = self.pick(*self.members)
            return self.attribute(member, self.pick("seq", "time"))
        if kind == "aggregate":
            return self.aggregate() or self.leaf()
        if kind == "leaf" or depth <= 0:
            return self.leaf()
        if kind in ("+", "-", "*"):
            other = self.number(depth - 1) if self.pick(True, False) else self.constant()
            return ast.Binary(kind, self.number(depth - 1), other)
        if kind in ("//", "%", "/"):
            return ast.Binary(kind, self.number(depth - 1), self.leaf() if self.pick(True, False) else self.constant())
        if kind == "^":
            return ast.Binary("^", self.leaf(), ast.Literal(self.pick(2, 1, 0, -1, 0.5, 3)))
        if kind == "negative":
            return ast.Unary("-", self.leaf())
        return self.call(depth)

    def call(self, depth: int) -> ast.Expr:
        """A scalar function."""
        function = self.pick("abs", "floor", "min", "max", "avg", "sqrt", "log", "exp")
        arguments = [self.number(depth - 1)]
        if function in ("min", "max", "avg"):
            arguments += [self.leaf() if self.pick(True, False) else self.constant()]
        return ast.Call(function, tuple(arguments))

    def condition(self, depth: int = 2) -> ast.Expr:
        """A condition of any kind."""
        kinds = [
            "threshold",
            "equality",
            "equality",
            "shifted",
            "string",
            "in",
            "between",
            "general",
            "bool",
            "type",
            "time",
            "count",
            "null",
        ]
        kind = self.pick(*kinds, *(["or", "not", "and or"] if depth > 0 else []))
        if kind == "or":
            return ast.Binary("OR", self.condition(depth - 1), self.condition(depth - 1))
        if kind == "and or":
            both = ast.Binary("AND", self.condition(0), self.condition(0))
            return ast.Binary("OR", both, self.condition(depth - 1))
        if kind == "not":
            return ast.Unary("NOT", self.condition(depth - 1))
        return self.simple(kind)

    def simple(self, kind: str) -> ast.Expr:
        """A condition without AND, OR and NOT."""
        comparison = self.pick(*COMPARISONS)
        if kind == "equality":
            return ast.Binary("=", *self.two("k"))
        if kind == "shifted":
            left, right = self.two("k")
            return ast.Binary("=", ast.Binary("+", left, ast.Literal(self.pick(1, 0, -1))), right)
        if kind == "in":
            return ast.Membership(self.number(1), self.literals(1, 0, 2, -1, 1.0, 0.5, None), self.pick(False, True))
        if kind == "between":
            low, high = ast.Literal(self.pick(0, 1, -1, 0.5)), self.pick(ast.Literal(2), ast.Literal(1.5), self.leaf())
            return ast.Between(self.number(1), low, high)
        if kind == "general":
            return ast.Binary(comparison, self.number(2), self.number(1))
        if kind == "time":
            later, earlier = self.two("time")
            duration = ast.DurationLiteral(self.pick(1, 0, 2, 5))
            return ast.Binary(comparison, ast.Binary("-", later, earlier), duration)
        if kind == "count":
            counted = self.aggregate()
            if counted is not None:
                return ast.Binary(comparison, counted, ast.Literal(self.pick(1, 2, 0, 3)))
        if kind == "null":
            return ast.Binary(comparison, self.leaf(), ast.Literal(None))
        return self.words(kind, comparison) or ast.Binary(comparison, self.leaf(), self.constant())

    def words(self, kind: str, comparison: str) -> ast.Expr | None:
        """A condition on strings, truth values or types, or None if there is no such attribute."""
        equality = "=" if comparison in ("=", "<=", ">=") else "!="
        if kind == "type":
            left: ast.Expr | None = self.attribute(self.pick(*self.members), "type")
            literals = self.literals(*self.schema.type_names)
        elif kind == "string":
            left, literals = self.reference("string"), self.literals("x", "y", "", "w", None)
        elif kind == "bool":
            left, literals = self.reference("bool"), self.literals(True, False)
        else:
            return None
        if left is None:
            return None
        form = self.pick("literal", "pair", "in", "bare" if kind == "bool" else "literal")
        if form == "bare":
            return left
        if form == "in":
            return ast.Membership(left, literals, self.pick(False, True))
        if form == "pair":
            right = self.reference("bool" if kind == "bool" else "string")
            return ast.Binary(equality, left, right or literals[0])
        return ast.Binary(equality, left, literals[0])

    def two(self, key: str) -> tuple[ast.Expr, ast.Expr]:
        """The same attribute of two variables, the later one first (of one variable if there is one only)."""
        if len(self.members) == 1:
            return self.attribute(self.members[0], key), self.attribute(self.members[0], key)
        later = self.draw(st.integers(1, len(self.members) - 1))
        earlier = self.draw(st.integers(0, later - 1))
        return self.attribute(self.members[later], key), self.attribute(self.members[earlier], key)

    def literals(self, *values: Value) -> tuple[ast.Literal, ...]:
        """One to three of the values."""
        chosen = self.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique_by=repr))
        return tuple(map(ast.Literal, chosen))

    def shared(self) -> list[str]:
        """Attributes that every member has."""
        return [key for key in DTYPES if all(key in self.dtypes(member) for member in self.members)]


# ---------------------------------------------------------------------- queries


@st.composite
def queries(
    draw: Draw, schema: Schema, window: st.SearchStrategy[ast.Window] | None = None, most: int = 4
) -> ast.Query:
    """A query's tree: mostly none to two conjuncts, sometimes a partition, equal attributes and RETURN."""
    pattern = draw(patterns(schema, most))
    make = Expressions(draw, schema, pattern.members)
    parts = [make.condition() for _ in range(make.pick(0, 1, 1, 1, 2, 2, 3))]
    if draw(rarely()):
        parts.append(ast.SameAttributes((make.pick(*make.shared()),)))
    where: ast.Expr | None = None
    for part in parts:
        where = part if where is None else ast.Binary("AND", where, part)
    partition: tuple[str, ...] = ()
    if make.pick(False, False, False, False, True):
        partition = tuple(draw(st.lists(st.sampled_from(make.shared()), min_size=1, max_size=2, unique=True)))
    plain = Expressions(draw, schema, pattern.members, relative=False)
    items = tuple(ast.ReturnItem(returned(plain), f"r{number}") for number in range(make.pick(0, 0, 0, 1, 2)))
    return ast.Query(
        "query", pattern, draw(windows() if window is None else window), where, partition, items, schema=schema
    )


def returned(make: Expressions) -> ast.Expr:
    """An expression for RETURN."""
    repeated = [member for member in make.members if member.repeated]
    kind = make.pick("number", "number", "any", "list")
    if kind == "list" and repeated:
        member = make.pick(*repeated)
        return ast.AttributeList(member.variable, make.pick(*make.dtypes(member), "seq", "time", "type"))
    if kind == "any":
        found = make.reference("string", "bool", "float64")
        if found is not None:
            return found
    return make.number(2)


# ---------------------------------------------------------------------- streams


@st.composite
def streams(draw: Draw, schema: Schema, most: int = 9) -> list[Event]:
    """Up to ``most`` events in order, many at the same time; one value in eight or so is null."""
    events: list[Event] = []
    count = draw(st.integers(draw(st.sampled_from([0, *[min(4, most)] * 7])), most))
    time, seq = draw(st.sampled_from([0, 0, 5, -3])), -1
    for _ in range(count):
        name = draw(st.sampled_from(schema.type_names))
        time += draw(st.sampled_from([0, 0, 1, 1, 0, 2, 5]))
        seq += 1 if schema.sequence is None else draw(st.sampled_from([1, 1, 2, 5]))
        values = {key: draw(values_of(dtype)) for key, dtype in schema.attributes(name).items()}
        events.append(Event(name, time, seq, values))
    return events


def values_of(dtype: str) -> st.SearchStrategy[Value]:
    """A value of a dtype, or null."""
    return st.sampled_from(VALUES[dtype][:3] * 3 + VALUES[dtype] + [None, None])


@st.composite
def cases(draw: Draw, window: st.SearchStrategy[ast.Window] | None = None) -> Case:
    """A query, as its text reads back, with a stream and its cuts."""
    from fastcep.query import parse, to_text

    schema = draw(schemas())
    query = draw(queries(schema, window))
    repeated = sum(member.repeated for member in query.pattern.members)
    events = draw(streams(schema, {0: 9, 1: 9, 2: 8}.get(repeated, 6)))
    sizes = draw(st.lists(st.integers(0, 4), max_size=4))
    text = to_text(query)
    return Case(parse(text, schema), text, events, [*sizes, draw(st.integers(1, 9))])
