"""Hypothesis strategies: small random schemas, well-typed queries, streams with ties, and batch boundaries.

Everything is tiny (values 0 to 2, few types, at most nine events), so that many examples have matches and the reference
matcher is quick. Differences only in the sign of a floating zero are avoided: a divisor or a power's base is an
attribute or a constant, never a minimum or a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from reference.matcher import Event, Value

from fastcep.events import Schema
from fastcep.plan.translate import FEW_VALUES
from fastcep.query import ast
from fastcep.query.patterns import PatternVariable, pattern_variables
from strategies.patterns import PERIODIC, Draw, most_events, nested_patterns, pair_patterns, patterns
from strategies.running import COMPARISONS, so_far
from strategies.streams import DTYPES, SMALL, rarely, schemas, streams
from strategies.texts import null_condition, text, text_condition, time_condition


@dataclass(frozen=True)
class Case:
    """One example: a query, its stream, and the sizes of batches (the last size repeats)."""

    query: ast.Query
    text: str
    events: list[Event]
    batch_sizes: list[int]

    def __repr__(self) -> str:
        from support.harness import describe

        return f"Case({describe(self.query, self.events)}\nbatch sizes: {self.batch_sizes})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print every node


# --------------------------------------------------------------------- windows


def windows() -> st.SearchStrategy[ast.Window]:
    """Draw a window by time, by count, or unbounded."""
    counts = st.sampled_from([5, 3, 8, 4, 2, 1])
    return st.one_of(time_windows(), time_windows(), counts.map(ast.CountWindow), st.just(ast.Unbounded()))


def time_windows() -> st.SearchStrategy[ast.Window]:
    """Draw windows in nanoseconds, like the times of the streams."""
    return st.sampled_from([5, 3, 8, 20, 1, 0]).map(ast.TimeWindow)


# ------------------------------------------------------------------ expressions


@dataclass
class Expressions:
    """Draws well-typed expressions over a pattern's variables. ``relative`` allows ``x[i]``."""

    draw: Draw
    schema: Schema
    variables: tuple[PatternVariable, ...]
    relative: bool = True

    def pick(self, *options: Any) -> Any:
        """Draw one of the options; shrinks to the first."""
        return self.draw(st.sampled_from(options))

    @property
    def positive(self) -> tuple[PatternVariable, ...]:
        """Return the variables that a match binds."""
        return tuple(variable for variable in self.variables if not variable.negated)

    def dtypes(self, variable: PatternVariable) -> dict[str, str]:
        """Return the dtypes of the attributes that all types of a variable share."""
        first, *others = (dict(self.schema.attributes(name)) for name in variable.declaration.types)
        return {key: dtype for key, dtype in first.items() if all(key in other for other in others)}

    def reference(self, *dtypes: str) -> ast.Expr | None:
        """Draw an attribute of one of the dtypes, or None if no variable has one."""
        choices = [(m, key) for m in self.positive for key, dtype in self.dtypes(m).items() if dtype in dtypes]
        if not choices:
            return None
        variable, key = self.pick(*choices)
        return self.attribute(variable, key)

    def attribute(self, variable: PatternVariable, key: str) -> ast.Attribute:
        """Draw ``x.key`` or ``g.x.key``, with an index if x or g is repeated."""
        own, inner = place(variable)
        if not variable.repeated:
            return ast.Attribute(own, key, inner=inner)
        if variable.negated:
            return ast.Attribute(own, key, ast.Index("relative", 0), inner)
        indices = [ast.Index("first"), ast.Index("last"), *(ast.Index("position", k) for k in SMALL)]
        indices += [ast.Index("last", -1), ast.Index("last", -2)]
        if self.relative:
            indices = [ast.Index("relative", k) for k in (0, 0, 1, -1, -2)] + indices
        return ast.Attribute(own, key, self.pick(*indices), inner)

    def aggregate(self) -> ast.Expr | None:
        """Draw an aggregate of a repeated variable, or None if there is none."""
        repeated = [variable for variable in self.positive if variable.repeated]
        if not repeated:
            return None
        variable = self.pick(*repeated)
        own, inner = place(variable)
        function = self.pick("COUNT", "SUM", "MAX", "MIN", "AVG", "STDDEV")
        if function == "COUNT":
            key = self.pick(None, None, *self.dtypes(variable))
            return ast.Aggregate(function, own, key, None if key is None else inner)
        dtypes = ("int64", "float64") if function == "SUM" else ("int64", "float64", "timestamp")
        keys = [key for key, dtype in self.dtypes(variable).items() if dtype in dtypes]
        return ast.Aggregate(function, own, self.pick(*keys, "seq"), inner)

    def constant(self) -> ast.Literal:
        """Draw a small number."""
        return ast.Literal(self.pick(1, 0, 2, -1, 3, 0.5, 1.0, -0.5, 2.0))

    def leaf(self) -> ast.Expr:
        """Draw a numeric attribute (``k`` always exists)."""
        found = self.reference("int64", "int64", "float64", "timestamp")
        assert found is not None
        return found

    def leaf_int(self) -> ast.Expr:
        """Draw an integer attribute."""
        found = self.reference("int64")
        assert found is not None
        return found

    def type_of_one(self) -> ast.Expr:
        """Draw the type of an event."""
        return self.attribute(self.pick(*self.positive), "type")

    def number(self, depth: int) -> ast.Expr:
        """Draw a numeric expression that mentions a variable."""
        kind = self.pick(
            "leaf", "leaf", "aggregate", "aggregate", "+", "-", "*", "//", "%", "/", "^", "call", "negative", "seq"
        )
        if kind == "seq":
            return self.attribute(self.pick(*self.positive), self.pick("seq", "time"))
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
        """Draw a call of a scalar function."""
        function = self.pick("abs", "floor", "min", "max", "avg", "sqrt", "log", "exp")
        arguments = [self.number(depth - 1)]
        if function in ("min", "max", "avg"):
            arguments += [self.leaf() if self.pick(True, False) else self.constant()]
        return ast.Call(function, tuple(arguments))

    def condition(self, depth: int = 2) -> ast.Expr:
        """Draw a condition of any kind."""
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
            "null or case",
            "text",
            "calendar",
        ]
        kind = self.pick(*kinds, *(["or", "not", "and or"] if depth > 0 else []), *(["so far"] if depth == 2 else []))
        if kind == "or":
            return ast.Binary("OR", self.condition(depth - 1), self.condition(depth - 1))
        if kind == "and or":
            both = ast.Binary("AND", self.condition(0), self.condition(0))
            return ast.Binary("OR", both, self.condition(depth - 1))
        if kind == "not":
            return ast.Unary("NOT", self.condition(depth - 1))
        return (so_far(self) if kind == "so far" else None) or self.simple(kind)

    def simple(self, kind: str) -> ast.Expr:
        """Draw a condition without AND, OR and NOT."""
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
            if self.pick(False, True):
                later = self.reference("timestamp") or later
            duration = ast.DurationLiteral(self.pick(1, 0, 2, 5))
            return ast.Binary(comparison, ast.Binary("-", later, earlier), duration)
        if kind == "count":
            counted = self.aggregate()
            if counted is not None:
                return ast.Binary(comparison, counted, ast.Literal(self.pick(1, 2, 0, 3)))
        if kind == "null or case":
            return null_condition(self)
        if kind == "text":
            return text_condition(self)
        if kind == "calendar":
            return time_condition(self)
        if kind == "null":
            return ast.Binary(comparison, self.leaf(), ast.Literal(None))
        return self.words(kind, comparison) or ast.Binary(comparison, self.leaf(), self.constant())

    def words(self, kind: str, comparison: str) -> ast.Expr | None:
        """Draw a condition on strings, truth values or types, or None if there is no such attribute."""
        equality = "=" if comparison in ("=", "<=", ">=") else "!="
        if kind == "type":
            left: ast.Expr | None = self.attribute(self.pick(*self.positive), "type")
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
        """Draw the same attribute of two variables, the later one first (of one variable if there is only one)."""
        if len(self.positive) == 1:
            return self.attribute(self.positive[0], key), self.attribute(self.positive[0], key)
        later = self.draw(st.integers(1, len(self.positive) - 1))
        earlier = self.draw(st.integers(0, later - 1))
        return self.attribute(self.positive[later], key), self.attribute(self.positive[earlier], key)

    def forbidden(self, variable: PatternVariable, depth: int = 1) -> ast.Expr:
        """Draw a condition on a negated variable: alone, or with variables that the match binds."""
        kind = self.pick(
            "filter", "equality", "equality", "shifted", "general", "time", "in", *["or", "not"][: 2 * depth]
        )
        if kind == "or":
            other = self.forbidden(variable, 0) if self.pick(False, True) else self.condition(0)
            return ast.Binary("OR", self.forbidden(variable, 0), other)
        if kind == "not":
            return ast.Unary("NOT", self.forbidden(variable, 0))
        keys = [key for key, dtype in self.dtypes(variable).items() if dtype in ("int64", "float64")]
        comparison = self.pick(*COMPARISONS)
        value = self.attribute(variable, self.pick(*keys))
        if kind == "equality":
            return ast.Binary("=", self.attribute(variable, "k"), self.attribute(self.pick(*self.positive), "k"))
        if kind == "shifted":
            shifted = ast.Binary("+", self.attribute(variable, "k"), ast.Literal(self.pick(1, 0, -1)))
            return ast.Binary("=", shifted, self.attribute(self.pick(*self.positive), "k"))
        if kind == "general":
            return ast.Binary(comparison, self.number(1), value)
        if kind == "time":
            ends = self.attribute(variable, "time"), self.attribute(self.pick(*self.positive), "time")
            return ast.Binary(comparison, ast.Binary("-", *ends), ast.DurationLiteral(self.pick(1, 0, 2)))
        if kind == "in":
            return ast.Membership(value, self.literals(1, 0, 2, -1, None), self.pick(False, True))
        return ast.Binary(comparison, value, self.constant())

    def literals(self, *values: Value) -> tuple[ast.Literal, ...]:
        """Draw one to three of the values, and rarely many others, so that they form a hash set."""
        chosen = self.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique_by=repr))
        if self.pick(*[False] * 4, True) and not isinstance(values[0], bool):
            texts = isinstance(values[0], str)
            chosen += [f"other {number}" if texts else 100 + number for number in range(FEW_VALUES)]
        return tuple(map(ast.Literal, chosen))

    def shared(self) -> list[str]:
        """Return the attributes that every variable has."""
        return [key for key in DTYPES if all(key in self.dtypes(variable) for variable in self.variables)]


def place(variable: PatternVariable) -> tuple[str, str | None]:
    """Return the name of a variable in a query: its own, or the group's and its own."""
    own = variable.declaration.name
    return (own, None) if variable.group is None else (variable.group.name, own)


# ---------------------------------------------------------------------- queries


@st.composite
def queries(
    draw: Draw,
    schema: Schema,
    window: st.SearchStrategy[ast.Window] | None = None,
    pattern: Callable[[Schema, ast.Window], st.SearchStrategy[ast.Pattern]] | None = None,
) -> ast.Query:
    """Draw a query's tree: mostly none to two conjuncts, sometimes a partition, equal attributes and RETURN.

    Its pattern is plain or nested unless ``pattern`` makes it.
    """
    within = draw(windows() if window is None else window)
    if pattern is None:
        shape = draw(nested_patterns(schema, within) if draw(st.booleans()) else patterns(schema))
    else:
        shape = draw(pattern(schema, within))
    make = Expressions(draw, schema, pattern_variables(shape))
    parts = [make.condition() for _ in range(make.pick(0, 1, 1, 1, 2, 2, 3))]
    for variable in make.variables:
        if variable.negated:
            parts += [make.forbidden(variable) for _ in range(make.pick(0, 1, 1, 2))]
    if draw(rarely()):
        parts.append(ast.SameAttributes((make.pick(*make.shared()),)))
    where: ast.Expr | None = None
    for part in parts:
        where = part if where is None else ast.Binary("AND", where, part)
    partition: tuple[str, ...] = ()
    if make.pick(False, False, False, False, True):
        partition = tuple(draw(st.lists(st.sampled_from(make.shared()), min_size=1, max_size=2, unique=True)))
    plain = Expressions(draw, schema, make.variables, relative=False)
    items = tuple(ast.ReturnItem(returned(plain), f"r{number}") for number in range(make.pick(0, 0, 0, 1, 2)))
    return ast.Query("query", shape, within, where, partition, items, schema=schema)


def returned(make: Expressions) -> ast.Expr:
    """Draw an expression for RETURN."""
    repeated = [variable for variable in make.positive if variable.repeated]
    kind = make.pick("number", "number", "any", "list", "text")
    if kind == "list" and repeated:
        variable = make.pick(*repeated)
        own, inner = place(variable)
        return ast.AttributeList(own, make.pick(*make.dtypes(variable), "seq", "time", "type"), inner)
    if kind == "text":
        return text(make, 2)
    if kind == "any":
        found = make.reference("string", "bool", "float64", "timestamp")
        if found is not None:
            return found
    return make.number(2)


# ------------------------------------------------------------------------ cases


@st.composite
def cases(draw: Draw, window: st.SearchStrategy[ast.Window] | None = None) -> Case:
    """Draw a query, parsed from its text, with a stream and batch sizes; half of the patterns are plain sequences."""
    schema = draw(schemas())
    return draw(with_stream(draw(queries(schema, window))))


@st.composite
def operator_cases(draw: Draw, outer: str, inner: str) -> Case:
    """Draw the same for a pattern in which ``inner`` is a direct part of ``outer`` (see `patterns.refusal`)."""
    schema = draw(schemas())
    window = time_windows() if PERIODIC in (outer, inner) else windows()
    query = draw(queries(schema, window, lambda schema, within: pair_patterns(schema, within, outer, inner)))
    return draw(with_stream(query))


@st.composite
def with_stream(draw: Draw, query: ast.Query) -> Case:
    """Draw a case for a query; the engine gets its text, parsed again."""
    from fastcep.query import parse, to_text

    events = draw(streams(query.schema, most_events(query.pattern)))
    sizes = draw(st.lists(st.integers(0, 4), max_size=4))
    text = to_text(query)
    return Case(parse(text, query.schema), text, events, [*sizes, draw(st.integers(1, 9))])
