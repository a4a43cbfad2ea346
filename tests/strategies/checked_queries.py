"""Hypothesis strategies: schemas with any names, and queries with every operator that the checks accept."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from fastcep.events import Schema
from fastcep.query import Query, ast, expression_text
from fastcep.query.checks.query import check
from fastcep.query.patterns import groups_of, pattern_variables, positive_variables, trailing_negation
from fastcep.query.source import Problem

__all__ = ["queries", "schemas"]

NAMES = st.one_of(
    st.sampled_from(["a", "b", "end", "and", "type", "first", "NOT", "x y", 'say "so"', "été", "true", "query", "p_1"]),
    st.text(min_size=1, max_size=5),
).filter(lambda name: name not in ("i", "query", "window_id", "detected_at"))
ATTRIBUTES = NAMES.filter(lambda name: name not in Schema.BUILTINS)
STRINGS = st.text(max_size=4) | st.sampled_from(["it's", "", "--", "\n"])
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats(allow_nan=False)
DTYPES = ("int64", "float64", "bool", "string", "timestamp")


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw two or three types that share an attribute of each dtype."""
    names = draw(st.lists(NAMES, min_size=2, max_size=3, unique=True))
    shared = dict(zip(draw(st.lists(ATTRIBUTES, min_size=5, max_size=5, unique=True)), DTYPES, strict=True))
    return Schema({name: dict(shared) for name in names}, type="type")


class Patterns:
    """Draws patterns that the checks accept, with every operator in every valid place."""

    def __init__(self, draw: st.DrawFn, schema: Schema, names: list[str]) -> None:
        self.draw = draw
        self.schema = schema
        self.names = names

    def types(self) -> tuple[str, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(self.schema.type_names), min_size=1, unique=True)))

    def bounds(self) -> tuple[int, int | None]:
        minimum = self.draw(st.integers(0, 3))
        return minimum, self.draw(st.none() | st.integers(max(minimum, 1), 5))

    def loose(self, maximum: int | None) -> bool:
        """Draw whether a repeated part is CONSECUTIVE."""
        return maximum != 1 and self.draw(st.booleans())

    def sequence(self, *parts: ast.Pattern) -> ast.Sequence:
        places = [place for place, part in enumerate(parts) if not isinstance(part, ast.Negation)]
        return ast.Sequence(parts, tuple(place for place in places if self.draw(st.integers(0, 3)) == 0))

    def variable(self, several: bool = True) -> ast.Variable:
        if several and self.draw(st.booleans()):
            minimum, maximum = self.bounds()
            return ast.Variable(self.types(), self.names.pop(), minimum, maximum, True, self.loose(maximum))
        return ast.Variable(self.types(), self.names.pop(), self.draw(st.integers(0, 1)), 1)

    def plain(self) -> ast.Variable:
        return ast.Variable(self.types(), self.names.pop())

    def sure(self, several: bool, depth: int) -> ast.Pattern:
        """Draw a part that binds at least one event."""
        if not depth or self.draw(st.booleans()):
            return self.plain()
        return ast.Conjunction((self.plain(), self.part(several, depth - 1)))

    def part(self, several: bool, depth: int = 2) -> ast.Pattern:
        if not depth:
            return self.variable(several)
        kind = self.draw(
            st.sampled_from(["variable", "variable", "AND", "OR", "SEQ", "NEG", "ANY", "ANY[]", "group", "AP"])
        )
        match kind:
            case "AND":
                return ast.Conjunction((self.part(several, depth - 1), self.variable(several)))
            case "OR":
                return ast.Disjunction((self.part(several, depth - 1), self.variable(several)))
            case "SEQ":
                return self.sequence(self.variable(several), self.part(several, depth - 1))
            case "NEG":
                negation = ast.Negation(self.types(), self.names.pop())
                return self.sequence(self.sure(several, depth - 1), negation, self.variable(several), self.plain())
            case "ANY":
                return ast.AnyOf(self.draw(st.integers(1, 2)), (self.plain(), self.plain()))
            case "AP":
                return ast.Aperiodic(self.sure(several, depth - 1), self.plain(), self.plain())
            case "ANY[]" if several:
                count = self.draw(st.integers(1, 4))
                distinct = self.draw(
                    st.none() | st.sampled_from(list(self.schema.attributes(self.schema.type_names[0])))
                )
                return ast.AnyOf(count, (ast.Variable(self.types(), self.names.pop(), count, count, True),), distinct)
            case "group" if several:
                inner = self.sequence(self.part(False, depth - 1), self.plain())
                if self.draw(st.booleans()):
                    return ast.Group(inner, self.names.pop(), 0, 1, False)
                minimum, maximum = self.bounds()
                return ast.Group(inner, self.names.pop(), minimum, maximum, True, self.loose(maximum))
        return self.variable(several)

    def whole(self) -> ast.Pattern:
        match self.draw(st.sampled_from(["SEQ", "SEQ", "part", "PERIODIC", "edge", "silence"])):
            case "silence":
                silence = ast.Negation(self.types(), self.names.pop(), self.draw(st.integers(1, 2**63 - 1)))
                beside = [silence, ast.Disjunction((self.plain(), silence)), ast.Conjunction((silence, self.plain()))]
                return self.sequence(self.plain(), self.draw(st.sampled_from(beside)), self.plain())
            case "part":
                part = self.part(True)
                return ast.Sequence((part,)) if isinstance(part, ast.Variable | ast.Group) else part
            case "PERIODIC":
                return ast.Periodic(self.sure(True, 2), self.draw(st.integers(2**45, 2**60)), self.plain())
            case "edge":
                negations = [ast.Negation(self.types(), self.names.pop()) for _ in range(2)]
                return self.sequence(negations[0], self.part(True), negations[1])
        return self.sequence(*(self.part(True) for _ in range(self.draw(st.integers(1, 2)))))


INDEXES = st.sampled_from(["first", "last", "position", "relative"])
NUMBERS = INTS | FLOATS | st.none()
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "^"]
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
DURATIONS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 10**9, 60 * 10**9])


class Expressions:
    """Draws well-typed expressions over the variables of a pattern, by plain recursion, which is fast."""

    def __init__(self, draw: st.DrawFn, schema: Schema, pattern: ast.Pattern, relative: bool) -> None:
        self.draw = draw
        attributes = schema.attributes(schema.type_names[0])
        self.shared = list(attributes)
        self.names = {dtype: [name for name in attributes if attributes[name] == dtype] for dtype in DTYPES}
        self.names["int64"] += ["seq"]
        self.names["timestamp"] += ["time"]
        self.names["string"] += ["type"]
        self.positive = positive_variables(pattern)
        self.negated = [variable for variable in pattern_variables(pattern) if variable.negated]
        self.variables = list(self.positive)
        self.repeated = [variable.key for variable in self.positive if variable.repeated]
        self.groups = [group.name for group in groups_of(pattern) if group.repeated]
        self.relative = relative

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def attribute(self, *dtypes: str) -> ast.Expr:
        variable = self.draw(st.sampled_from(self.variables))
        own, inner = variable.key
        name = self.pick(*(name for dtype in dtypes for name in self.names[dtype]))
        if not variable.repeated:
            return ast.Attribute(own, name, None, inner)
        if variable.negated:
            return ast.Attribute(own, name, ast.Index("relative"), inner)
        kind = self.draw(INDEXES)
        if kind == "position" or (kind == "relative" and not self.relative):
            return ast.Attribute(own, name, ast.Index("position", self.draw(st.integers(0, 4))), inner)
        offset = self.draw(st.integers(-2, 2)) if kind == "relative" else 0
        if kind == "last":
            offset = self.draw(st.sampled_from([0, -1, -2, -7]))
        return ast.Attribute(own, name, ast.Index(kind, offset), inner)

    def aggregate(self) -> ast.Expr:
        if self.groups and self.draw(st.booleans()):
            return ast.Aggregate("COUNT", self.pick(*self.groups))
        variable, inner = self.draw(st.sampled_from(self.repeated))
        name = self.pick(*self.names["int64"], *self.names["float64"], *self.names["timestamp"])
        if self.draw(st.booleans()):
            return ast.Aggregate("COUNT", variable, name if inner or self.draw(st.booleans()) else None, inner)
        return ast.Aggregate(self.function_of(name), variable, name, inner)

    def function_of(self, name: str) -> str:
        """Draw an aggregate of numbers; times have no sum."""
        return self.pick("AVG", *(["SUM"] if name not in self.names["timestamp"] else []), "MIN", "MAX", "STDDEV")

    def number(self, depth: int = 3) -> ast.Expr:
        forms = ["literal", "duration", "timestamp", "hour", "attribute"] + ["aggregate"] * bool(self.repeated)
        match self.pick(*forms, *(["minus", "binary", "binary", "call"] * bool(depth))):
            case "literal":
                return ast.Literal(self.draw(NUMBERS))
            case "timestamp":
                return ast.TimestampLiteral(self.draw(st.integers(-(2**63), 2**63 - 1)))
            case "hour":
                zone = (ast.Literal("Asia/Kathmandu"),) * self.pick(0, 1)
                moment = self.attribute("int64", "timestamp")
                return ast.Call(self.pick("hour", "minute", "dayofweek", "date"), (moment, *zone))
            case "duration":
                return ast.DurationLiteral(self.draw(DURATIONS))
            case "attribute":
                return self.attribute("int64", "float64", "timestamp")
            case "aggregate":
                return self.aggregate()
            case "minus":
                return ast.Unary("-", self.number(depth - 1))
            case "binary":
                return ast.Binary(self.pick(*ARITHMETIC), self.number(depth - 1), self.number(depth - 1))
        function = self.pick("abs", "sqrt", "exp", "log", "floor", "min", "max", "avg", "coalesce", "case", "length")
        if function == "length":
            return ast.Call(function, (self.string(depth - 1),))
        if function == "case":
            branches = [self.condition(0), self.number(depth - 1)] * self.pick(1, 2)
            return ast.Call(function, (*branches, *([self.number(0)] * self.pick(0, 1))))
        arguments = 2 if function in ("max", "avg", "coalesce") else 1
        return ast.Call(function, tuple(self.number(depth - 1) for _ in range(arguments)))

    def string(self, depth: int = 1) -> ast.Expr:
        if depth > 0:
            match self.pick("leaf", "leaf", "lower", "substr"):
                case "lower":
                    return ast.Call("lower", (self.string(depth - 1),))
                case "substr":
                    return ast.Call("substr", (self.string(depth - 1), ast.Literal(2), ast.Literal(-1)))
        return self.attribute("string") if self.draw(st.booleans()) else ast.Literal(self.draw(STRINGS | st.none()))

    def literals(self, values: st.SearchStrategy[int | float | str | None]) -> tuple[ast.Literal, ...]:
        return tuple(map(ast.Literal, self.draw(st.lists(values, min_size=1, max_size=3))))

    def condition(self, depth: int = 2) -> ast.Expr:
        forms = [
            "compare", "compare", "strings", "in", "words", "between", "literal", "flag", "null", "like", "part",
            "choice",
        ]  # fmt: skip

        match self.pick(*forms, *(["not", "join", "join"] * bool(depth))):
            case "compare":
                return ast.Binary(self.pick(*COMPARISONS), self.number(), self.number(1))
            case "strings":
                return ast.Binary(self.pick(*COMPARISONS), self.string(), self.string())
            case "null":
                return ast.Call("is null", (self.pick(self.number(1), self.string(), self.attribute("bool")),))
            case "like":
                pattern = ast.Literal(self.draw(STRINGS).rstrip("!"))
                return ast.Call("like", (self.string(), pattern, *([ast.Literal("!")] * self.pick(0, 1))))
            case "part":
                return ast.Call(self.pick("starts_with", "ends_with", "contains"), (self.string(), self.string()))
            case "choice":
                return ast.Call("case", (self.condition(0), self.condition(0), ast.Literal(True)))
            case "in":
                return ast.Membership(self.number(1), self.literals(NUMBERS), self.draw(st.booleans()))
            case "words":
                return ast.Membership(self.string(), self.literals(STRINGS), self.draw(st.booleans()))
            case "between":
                return ast.Between(self.number(1), self.number(1), self.number(1))
            case "literal":
                return ast.Literal(self.draw(st.booleans() | st.none()))
            case "flag":
                return self.attribute("bool")
            case "not":
                return ast.Unary("NOT", self.condition(depth - 1))
        operator = self.pick("AND", "OR", "=", "!=")
        return ast.Binary(operator, self.condition(depth - 1), self.condition(depth - 1))

    def keys(self) -> tuple[str, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(self.shared), min_size=1, max_size=2, unique=True)))

    def conjunct(self) -> ast.Expr:
        # At most one negated variable in a condition.
        spare = [self.draw(st.sampled_from(self.negated))] if self.negated else []
        self.variables = [*self.positive, *spare]
        loops = [own for own, inner in self.repeated if inner is None]
        if loops and self.draw(st.booleans()):
            return self.running(self.pick(*loops))
        return self.condition() if self.draw(st.integers(0, 3)) else ast.SameAttributes(self.keys())

    def running(self, own: str) -> ast.Expr:
        """Draw a condition with running aggregates of a variable."""
        name = self.pick(*self.names["int64"], *self.names["timestamp"])
        index = ast.Index("relative", self.draw(st.integers(-1, 0)))
        counted = ast.Aggregate("COUNT", own, self.draw(st.none() | st.just(name)), None, index)
        total = ast.Aggregate(self.function_of(name), own, name, None, index)
        element = ast.Attribute(own, name, ast.Index("relative", self.draw(st.integers(-2, 2))))
        left = ast.Binary(self.pick(*ARITHMETIC), total, self.draw(st.sampled_from([element, counted])))
        return ast.Binary(self.pick(*COMPARISONS), left, ast.Literal(self.draw(INTS)))

    def output(self) -> ast.Expr:
        if self.repeated and self.draw(st.booleans()):
            own, inner = self.draw(st.sampled_from(self.repeated))
            return ast.AttributeList(own, self.pick(*self.shared), inner)
        return self.number() if self.draw(st.booleans()) else self.condition()


WEIGHTS = st.sampled_from([1.0, 2.0, 0.5]) | st.floats(0, exclude_min=True, allow_infinity=False)
WINDOWS = st.one_of(
    st.builds(ast.TimeWindow, st.integers(0, 2**63 - 1)),
    st.builds(ast.CountWindow, st.integers(1, 2**63 - 1)),
    st.just(ast.Unbounded()),
)


@st.composite
def explicit_windows(draw: st.DrawFn, schema: Schema, names: list[str]) -> ast.ExplicitWindow:
    """Draw an explicit window, with two of the names if events open and close it."""
    extents = st.builds(ast.Bound, events=st.integers(1, 2**63 - 1)) | st.builds(
        ast.Bound, nanoseconds=st.integers(1, 2**63 - 1)
    )
    ends: list[ast.Bound] = []
    variables: list[ast.Variable] = []
    for _ in range(2):
        if draw(st.booleans()):
            ends.append(draw(extents))
            continue
        types = tuple(draw(st.lists(st.sampled_from(schema.type_names), min_size=1, unique=True)))
        variables.append(ast.Variable(types, names.pop()))
        where: ast.Expr | None = None
        for _ in range(draw(st.integers(0, 2))):
            condition = Expressions(draw, schema, ast.Sequence(tuple(variables)), False).condition()
            where = condition if where is None else ast.Binary("AND", where, condition)
        ends.append(ast.Bound(types=types, variable=variables[-1].name, where=where))
    return ast.ExplicitWindow(*ends)


def policies(draw: st.DrawFn, query: Query) -> Query:
    """Return the query with additional clauses that the checks accept."""
    strategies = [name for name in ast.STRATEGIES if query.partition or name != "partition_contiguity"]
    query = replace(query, strategy=draw(st.sampled_from(strategies)), weight=draw(WEIGHTS))
    if isinstance(query.window, ast.ExplicitWindow):
        query = replace(query, limit=draw(st.none() | st.integers(1, 2**63 - 1)))
    if isinstance(query.pattern, ast.Periodic) or trailing_negation(query.pattern):
        return query
    selections = [name for name in ast.SELECTIONS if not query.returns or name != "cumulative"]
    if query.strategy == "skip_till_any":
        selections.remove("longest")
    select = draw(st.sampled_from(selections))
    consume = "zero" if select == "longest" else draw(st.sampled_from(ast.CONSUMPTIONS))
    after_match, skip_to = draw(st.sampled_from(ast.AFTER_MATCH)), None
    query = replace(query, select=select, consume=consume)
    if after_match in ("skip to first", "skip to last"):
        names = [item.name for item in (*positive_variables(query.pattern), *groups_of(query.pattern))]
        targets = [name for name in names if is_accepted(replace(query, after_match=after_match, skip_to=name))]
        if not targets:
            return query
        skip_to = draw(st.sampled_from(targets))
    return replace(query, after_match=after_match, skip_to=skip_to)


def is_accepted(query: Query) -> bool:
    """Return whether a query passes the checks."""
    try:
        check(query)
    except Problem:
        return False
    return True


@st.composite
def queries(draw: st.DrawFn, schema: Schema | None = None) -> Query:
    """Draw a query that the checks accept."""
    schema = schema or draw(schemas())
    odd = draw(st.lists(NAMES, max_size=4, unique=True))
    free = [f"v{number}_" for number in range(40)] + odd
    pattern = Patterns(draw, schema, free).whole()
    names = [variable.name for variable in pattern_variables(pattern)]
    assume(len(names) == len(set(names)))
    inner, outer = Expressions(draw, schema, pattern, True), Expressions(draw, schema, pattern, False)
    where: ast.Expr | None = None
    for _ in range(draw(st.integers(0, 3))):
        conjunct = inner.conjunct()
        where = conjunct if where is None else ast.Binary("AND", where, conjunct)
    taken = set(names) | {"query", "window_id", "detected_at"}
    returns: list[ast.ReturnItem] = []
    for _ in range(draw(st.integers(0, 2))):
        expression = outer.output()
        name = draw(st.just(expression_text(expression)) | NAMES)
        if name not in taken:
            taken.add(name)
            returns.append(ast.ReturnItem(expression, name))
    partition = inner.keys() if draw(st.booleans()) else ()
    timed = isinstance(pattern, ast.Periodic) or any(variable.negated for variable in pattern_variables(pattern))
    window: ast.Window = ast.TimeWindow(draw(st.integers(0, 2**63 - 1))) if timed else draw(WINDOWS)
    if not isinstance(pattern, ast.Periodic) and draw(st.booleans()):
        window = draw(explicit_windows(schema, free))
    query = Query(draw(NAMES), pattern, window, where, partition, tuple(returns), schema=schema)
    return check(policies(draw, query))
