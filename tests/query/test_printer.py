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


class Expressions:
    """Strategies for well typed expressions over the variables of a pattern."""

    def __init__(self, schema: Schema, pattern: tuple[ast.Member, ...], relative: bool) -> None:
        attributes = schema.attributes(schema.type_names[0])
        self.names = {dtype: [name for name in attributes if attributes[name] == dtype] for dtype in DTYPES}
        self.names["int64"] += ["time", "seq"]
        self.names["string"] += ["type"]
        self.single = [member.variable for member in pattern if not member.repeated]
        self.repeated = [member.variable for member in pattern if member.repeated]
        kinds = [st.just(ast.Index("first")), st.just(ast.Index("last"))]
        kinds.append(st.builds(ast.Index, st.just("position"), st.integers(0, 4)))
        if relative:
            kinds.append(st.builds(ast.Index, st.just("relative"), st.integers(-2, 2)))
        self.indexes = st.one_of(kinds)

    def attribute(self, *dtypes: str) -> st.SearchStrategy[ast.Expr]:
        names = st.sampled_from([name for dtype in dtypes for name in self.names[dtype]])
        choices = []
        if self.single:
            choices.append(st.builds(ast.Attribute, st.sampled_from(self.single), names))
        if self.repeated:
            choices.append(st.builds(ast.Attribute, st.sampled_from(self.repeated), names, self.indexes))
        return st.one_of(choices)

    def numbers(self) -> st.SearchStrategy[ast.Expr]:
        leaves: list[st.SearchStrategy[ast.Expr]] = [
            st.builds(ast.Literal, INTS | FLOATS | st.none()),
            st.builds(ast.DurationLiteral, st.integers(0, 2**63 - 1) | st.sampled_from([0, 10**9, 60 * 10**9])),
            self.attribute("int64", "float64"),
        ]
        if self.repeated:
            names = st.sampled_from(self.names["int64"] + self.names["float64"])
            functions = st.sampled_from(["AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV"])
            leaves.append(st.builds(ast.Aggregate, functions, st.sampled_from(self.repeated), names))
            leaves.append(st.builds(ast.Aggregate, st.just("COUNT"), st.sampled_from(self.repeated)))
        unary = st.sampled_from(["abs", "sqrt", "exp", "log", "floor", "min"])
        many = st.sampled_from(["min", "max", "avg"])
        return st.recursive(
            st.one_of(leaves),
            lambda inner: st.one_of(
                st.builds(ast.Unary, st.just("-"), inner),
                st.builds(ast.Binary, st.sampled_from(["+", "-", "*", "/", "//", "%", "^"]), inner, inner),
                st.builds(ast.Call, unary, st.tuples(inner)),
                st.builds(ast.Call, many, st.tuples(inner, inner)),
            ),
            max_leaves=6,
        )

    def conditions(self) -> st.SearchStrategy[ast.Expr]:
        number = self.numbers()
        text = st.one_of(st.builds(ast.Literal, STRINGS | st.none()), self.attribute("string"))
        constants = st.lists(st.builds(ast.Literal, INTS | FLOATS | st.none()), min_size=1, max_size=3).map(tuple)
        words = st.lists(st.builds(ast.Literal, STRINGS), min_size=1, max_size=3).map(tuple)
        simple = st.one_of(
            st.builds(ast.Binary, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), number, number),
            st.builds(ast.Binary, st.sampled_from(["=", "!="]), text, text),
            st.builds(ast.Membership, number, constants, st.booleans()),
            st.builds(ast.Membership, text, words, st.booleans()),
            st.builds(ast.Between, number, number, number),
            st.builds(ast.Literal, st.booleans() | st.none()),
            self.attribute("bool"),
        )
        return st.recursive(
            simple,
            lambda inner: st.one_of(
                st.builds(ast.Unary, st.just("NOT"), inner),
                st.builds(ast.Binary, st.sampled_from(["AND", "OR", "=", "!="]), inner, inner),
            ),
            max_leaves=6,
        )


@st.composite
def queries(draw: st.DrawFn, schema: Schema | None = None) -> Query:
    """Any query that the checks accept, as the builder could make it."""
    schema = schema or draw(schemas())
    pattern = draw(members(schema))
    shared = list(schema.attributes(schema.type_names[0]))
    keys = st.lists(st.sampled_from(shared), min_size=1, max_size=2, unique=True).map(tuple)
    conjuncts = draw(
        st.lists(Expressions(schema, pattern, True).conditions() | st.builds(ast.SameAttributes, keys), max_size=3)
    )
    where = None
    for conjunct in conjuncts:
        where = conjunct if where is None else ast.Binary("AND", where, conjunct)
    output = Expressions(schema, pattern, False)
    taken = {member.variable for member in pattern} | {"query", "window_id", "detected_at"}
    returns: list[ast.ReturnItem] = []
    choices = [output.numbers(), output.conditions()]
    if output.repeated:
        choices.append(st.builds(ast.AttributeList, st.sampled_from(output.repeated), st.sampled_from(shared)))
    for expression in draw(st.lists(st.one_of(choices), max_size=2)):
        name = draw(st.just(expression_text(expression)) | NAMES)
        if name not in taken:
            taken.add(name)
            returns.append(ast.ReturnItem(expression, name))
    window = draw(
        st.builds(ast.TimeWindow, st.integers(0, 2**63 - 1))
        | st.builds(ast.CountWindow, st.integers(1, 2**63 - 1))
        | st.just(ast.Unbounded())
    )
    partition = draw(st.just(()) | keys)
    return check(
        Query(
            draw(NAMES), ast.Sequence(pattern), window, where, partition, tuple(returns), schema=schema,
        )
    )  # fmt: skip


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
