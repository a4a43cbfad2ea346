"""Canonical text: what it looks like, and that it parses to the same query."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.events import Schema
from fastcep.query import Document, Query, ast, document_text, expression_text, parse, parse_document, to_text
from fastcep.query.check import check
from fastcep.query.printer import KEYWORDS, name_text

# ------------------------------------------------------------------ any checked query

NAMES = st.one_of(
    st.sampled_from(["a", "b", "end", "and", "type", "first", "NOT", "x y", 'say "so"', "été", "true", "query", "p_1"]),
    st.text(min_size=1, max_size=5),
).filter(lambda name: name not in ("i", "query", "window_id", "detected_at"))
ATTRIBUTES = NAMES.filter(lambda name: name not in Schema.BUILTINS)
STRINGS = st.text(max_size=4) | st.sampled_from(["it's", "", "--", "\n"])
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats(allow_nan=False)
DTYPES = ("int64", "float64", "bool", "string")


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Two or three types that share an attribute of each dtype."""
    names = draw(st.lists(NAMES, min_size=2, max_size=3, unique=True))
    shared = dict(zip(draw(st.lists(ATTRIBUTES, min_size=4, max_size=4, unique=True)), DTYPES, strict=True))
    return Schema({name: dict(shared) for name in names}, type="type")


@st.composite
def members(draw: st.DrawFn, schema: Schema) -> tuple[ast.Member, ...]:
    found = []
    for variable in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        types = tuple(draw(st.lists(st.sampled_from(schema.type_names), min_size=1, unique=True)))
        if draw(st.booleans()):
            minimum = draw(st.integers(0, 3))
            maximum = draw(st.none() | st.integers(max(minimum, 1), 5))
            found.append(ast.Member(types, variable, minimum, maximum, True))
        else:
            found.append(ast.Member(types, variable, draw(st.integers(0, 1)), 1))
    return tuple(found)


INDEXES = st.sampled_from(["first", "last", "position", "relative"])
NUMBERS = INTS | FLOATS | st.none()
ARITHMETIC = ["+", "-", "*", "/", "//", "%", "^"]
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
DURATIONS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 10**9, 60 * 10**9])


class Expressions:
    """Draws well typed expressions over the variables of a pattern (plain recursion: fast to draw from)."""

    def __init__(self, draw: st.DrawFn, schema: Schema, pattern: tuple[ast.Member, ...], relative: bool) -> None:
        self.draw = draw
        attributes = schema.attributes(schema.type_names[0])
        self.shared = list(attributes)
        self.names = {dtype: [name for name in attributes if attributes[name] == dtype] for dtype in DTYPES}
        self.names["int64"] += ["time", "seq"]
        self.names["string"] += ["type"]
        self.members = pattern
        self.repeated = [member.variable for member in pattern if member.repeated]
        self.relative = relative

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def attribute(self, *dtypes: str) -> ast.Expr:
        member = self.draw(st.sampled_from(self.members))
        name = self.pick(*(name for dtype in dtypes for name in self.names[dtype]))
        if not member.repeated:
            return ast.Attribute(member.variable, name)
        kind = self.draw(INDEXES)
        if kind == "position" or (kind == "relative" and not self.relative):
            return ast.Attribute(member.variable, name, ast.Index("position", self.draw(st.integers(0, 4))))
        offset = self.draw(st.integers(-2, 2)) if kind == "relative" else 0
        return ast.Attribute(member.variable, name, ast.Index(kind, offset))

    def aggregate(self) -> ast.Expr:
        variable = self.pick(*self.repeated)
        name = self.pick(*self.names["int64"], *self.names["float64"])
        if self.draw(st.booleans()):
            return ast.Aggregate("COUNT", variable, name if self.draw(st.booleans()) else None)
        return ast.Aggregate(self.pick("AVG", "SUM", "MIN", "MAX", "STDDEV"), variable, name)

    def number(self, depth: int = 3) -> ast.Expr:
        forms = ["literal", "duration", "attribute"] + ["aggregate"] * bool(self.repeated)
        match self.pick(*forms, *(["minus", "binary", "binary", "call"] * bool(depth))):
            case "literal":
                return ast.Literal(self.draw(NUMBERS))
            case "duration":
                return ast.DurationLiteral(self.draw(DURATIONS))
            case "attribute":
                return self.attribute("int64", "float64")
            case "aggregate":
                return self.aggregate()
            case "minus":
                return ast.Unary("-", self.number(depth - 1))
            case "binary":
                return ast.Binary(self.pick(*ARITHMETIC), self.number(depth - 1), self.number(depth - 1))
        function = self.pick("abs", "sqrt", "exp", "log", "floor", "min", "max", "avg")
        arguments = 2 if function in ("max", "avg") else 1
        return ast.Call(function, tuple(self.number(depth - 1) for _ in range(arguments)))

    def string(self) -> ast.Expr:
        return self.attribute("string") if self.draw(st.booleans()) else ast.Literal(self.draw(STRINGS | st.none()))

    def literals(self, values: st.SearchStrategy[int | float | str | None]) -> tuple[ast.Literal, ...]:
        return tuple(map(ast.Literal, self.draw(st.lists(values, min_size=1, max_size=3))))

    def condition(self, depth: int = 2) -> ast.Expr:
        forms = ["compare", "compare", "strings", "in", "words", "between", "literal", "flag"]
        match self.pick(*forms, *(["not", "join", "join"] * bool(depth))):
            case "compare":
                return ast.Binary(self.pick(*COMPARISONS), self.number(), self.number(1))
            case "strings":
                return ast.Binary(self.pick("=", "!="), self.string(), self.string())
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
        return self.condition() if self.draw(st.integers(0, 3)) else ast.SameAttributes(self.keys())

    def output(self) -> ast.Expr:
        if self.repeated and self.draw(st.booleans()):
            return ast.AttributeList(self.pick(*self.repeated), self.pick(*self.shared))
        return self.number() if self.draw(st.booleans()) else self.condition()


WINDOWS = st.one_of(
    st.builds(ast.TimeWindow, st.integers(0, 2**63 - 1)),
    st.builds(ast.CountWindow, st.integers(1, 2**63 - 1)),
    st.just(ast.Unbounded()),
)


@st.composite
def queries(draw: st.DrawFn, schema: Schema | None = None) -> Query:
    """Any query that the checks accept, as the builder could make it."""
    schema = schema or draw(schemas())
    pattern = draw(members(schema))
    inner, outer = Expressions(draw, schema, pattern, True), Expressions(draw, schema, pattern, False)
    where: ast.Expr | None = None
    for _ in range(draw(st.integers(0, 3))):
        conjunct = inner.conjunct()
        where = conjunct if where is None else ast.Binary("AND", where, conjunct)
    taken = {member.variable for member in pattern} | {"query", "window_id", "detected_at"}
    returns: list[ast.ReturnItem] = []
    for _ in range(draw(st.integers(0, 2))):
        expression = outer.output()
        name = draw(st.just(expression_text(expression)) | NAMES)
        if name not in taken:
            taken.add(name)
            returns.append(ast.ReturnItem(expression, name))
    partition = inner.keys() if draw(st.booleans()) else ()
    query = Query(draw(NAMES), ast.Sequence(pattern), draw(WINDOWS), where, partition, tuple(returns), schema=schema)
    return check(query)


@given(queries())
def test_round_trip(query: Query) -> None:
    text = to_text(query)
    again = parse(text, query.schema)
    assert again == query
    assert to_text(again) == text


@given(st.data())
def test_round_trip_of_documents(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    found = data.draw(st.lists(queries(schema), min_size=1, max_size=2, unique_by=lambda query: query.name))
    document = Document(schema, tuple(found))
    again = parse_document(document_text(document))
    assert again.schema == schema
    assert again == document


@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(sorted(KEYWORDS) + list("()[]{},.+-*'\"?|=<1a")), max_size=20).map(" ".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    from fastcep.errors import ParseError

    schema = Schema({"A": {"V": "int64"}})
    for whole in (text, f"PATTERN SEQ(A a) WHERE a.V = {text} WITHIN 1ms"):
        try:
            query = parse(whole, schema)
        except ParseError as error:
            assert error.line is not None and error.column is not None
            assert error.line >= 1 and error.column >= 1
        else:
            assert parse(to_text(query), schema) == query


# ------------------------------------------------------------------------ its look


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("((a.V+1))*2 = 3", "(a.V + 1) * 2 = 3"),
        ("a.V-(1-2)=0", "a.V - (1 - 2) = 0"),
        ("-(-1) = a.V", "-(-1) = a.V"),
        ("-(-a.V) = 1", "-(-a.V) = 1"),
        ("(a.V ^ 2) ^ 3 = 2 ^ (3 ^ a.V)", "(a.V ^ 2) ^ 3 = 2 ^ 3 ^ a.V"),
        ("(-a.V)^2 = -a.V^2", "(-a.V) ^ 2 = -a.V ^ 2"),
        ("not (a.V=1 or a.V=2) or (a.V=3 and a.V=4)", "NOT (a.V = 1 OR a.V = 2) OR a.V = 3 AND a.V = 4"),
        ("a.time < 3600 s", "a.time < 1h"),
        ("a.name = 'it''s'", "a.name = 'it''s'"),
        ("(a.V = 1) = true", "(a.V = 1) = TRUE"),
        ("a.V between (1) and 1+1", "a.V BETWEEN 1 AND 1 + 1"),
    ],
)
def test_canonical_conditions(written: str, canonical: str, schema: Schema) -> None:
    where = parse(f"PATTERN SEQ(A a) WHERE {written} WITHIN 1ms", schema).where
    assert where is not None
    assert expression_text(where) == canonical


def test_canonical_query(schema: Schema) -> None:
    query = parse(
        "pattern seq(A{1,} a[], (B|A){0,} b[], B{2,3} c[], B? d) where a[i+1].V=a[i].V and [ID] and (a[0].V=1 "
        "or d.V=2) within 60s partition by ID return d.V as v, count(b[])",
        schema,
        name="q1",
    )
    assert to_text(query) == (
        "QUERY q1\n"
        "PATTERN SEQ(A+ a[], (B|A)* b[], B{2,3} c[], B? d)\n"
        "WHERE a[i+1].V = a[i].V\n"
        "  AND [ID]\n"
        "  AND (a[0].V = 1 OR d.V = 2)\n"
        "WITHIN 1min\n"
        "PARTITION BY ID\n"
        "RETURN d.V AS v, COUNT(b[])\n"
    )


def test_keywords_are_those_of_the_grammar() -> None:
    grammar = resources.files("fastcep.query").joinpath("grammar.lark").read_text(encoding="utf-8")
    assert frozenset(re.findall(r"/(\w+)\\b/i", grammar)) == KEYWORDS


def test_names() -> None:
    assert [name_text(name) for name in ("a_1", "1a", "End", "in", "")] == ["a_1", '"1a"', "End", '"in"', '""']
    assert name_text("in", anywhere=True) == "in"
