"""Text to AST: operators, names, clauses."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from fastcep.errors import ParseError
from fastcep.events import Schema
from fastcep.query import Query, ast, parse
from fastcep.query.ast import (
    Aggregate,
    Attribute,
    Between,
    Binary,
    Call,
    CountWindow,
    DurationLiteral,
    Index,
    Literal,
    Membership,
    SameAttributes,
    TimeWindow,
    Unary,
    Unbounded,
    Variable,
)

V, ID, X, FLAG = (Attribute("a", name) for name in ("V", "ID", "x", "flag"))


def condition(text: str, schema: Schema) -> ast.Expr:
    query = parse(f"PATTERN SEQ(A a, B+ b[], (A|B)? c) WHERE {text} WITHIN 1ms", schema)
    assert query.where is not None
    return query.where


def value(text: str, schema: Schema) -> ast.Expr:
    return parse(f"PATTERN SEQ(A a, B+ b[], (A|B)? c) WITHIN 1ms RETURN {text} AS out", schema).returns[0].expression


def test_whole_query(schema: Schema) -> None:
    query = parse(
        "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 8ms PARTITION BY ID STRATEGY skip_till_any SELECT each "
        "CONSUME zero AFTER MATCH NO SKIP RETURN a.V + b.V AS total, a.x",
        schema,
        name="q1",
    )
    assert query == Query(
        "q1",
        ast.Sequence((Variable(("A",), "a"), Variable(("B",), "b"))),
        TimeWindow(8_000_000),
        Binary("=", ID, Attribute("b", "ID")),
        ("ID",),
        (ast.ReturnItem(Binary("+", V, Attribute("b", "V")), "total"), ast.ReturnItem(X, "a.x")),
        schema=schema,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A a", Variable(("A",), "a")),
        ("A? a", Variable(("A",), "a", 0, 1)),
        ("A+ a[]", Variable(("A",), "a", 1, None, True)),
        ("A* a[]", Variable(("A",), "a", 0, None, True)),
        ("A{2,5} a[]", Variable(("A",), "a", 2, 5, True)),
        ("A{2,} a[]", Variable(("A",), "a", 2, None, True)),
        ("A{0,3} a[]", Variable(("A",), "a", 0, 3, True)),
        ("A{,3} a[]", Variable(("A",), "a", 0, 3, True)),
        ("A{3} a[]", Variable(("A",), "a", 3, 3, True)),
        ("A{3,3} a[]", Variable(("A",), "a", 3, 3, True)),
        ("A { 1 } a[]", Variable(("A",), "a", 1, 1, True)),
        ("(A|B) a", Variable(("A", "B"), "a")),
        ("(A | C)+ a[]", Variable(("A", "C"), "a", 1, None, True)),
        ("(B|A)? a", Variable(("B", "A"), "a", 0, 1)),
        ('"A" "any"', Variable(("A",), "any")),
        ("A event", Variable(("A",), "event")),
        ("A and", Variable(("A",), "and")),
        ("A first", Variable(("A",), "first")),
    ],
)
def test_variables(text: str, expected: Variable, schema: Schema) -> None:
    assert parse(f"PATTERN SEQ({text}) WITHIN 1ms", schema).pattern.patterns == (expected,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8ms", TimeWindow(8_000_000)),
        ("5 min", TimeWindow(300 * 10**9)),
        ("1H", TimeWindow(3600 * 10**9)),
        ("0s", TimeWindow(0)),
        ("10 EVENTS", CountWindow(10)),
        ("UNBOUNDED", Unbounded()),
    ],
)
def test_windows(text: str, expected: ast.Window, schema: Schema) -> None:
    assert parse(f"PATTERN SEQ(A a) WITHIN {text}", schema).window == expected


ONE, TWO, THREE = Literal(1), Literal(2), Literal(3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", Binary("+", ONE, Binary("*", TWO, THREE))),
        ("(1 + 2) * 3", Binary("*", Binary("+", ONE, TWO), THREE)),
        ("1 - 2 - 3", Binary("-", Binary("-", ONE, TWO), THREE)),
        ("1 // 2 % 3", Binary("%", Binary("//", ONE, TWO), THREE)),
        ("2 ^ 3 ^ 1", Binary("^", TWO, Binary("^", THREE, ONE))),
        ("-2^2", Unary("-", Binary("^", TWO, TWO))),
        ("2^-1", Binary("^", TWO, Literal(-1))),
        ("(-2)^2", Binary("^", Literal(-2), TWO)),
        ("-a.V * 2", Binary("*", Unary("-", V), TWO)),
        ("-(2)", Unary("-", TWO)),
        ("-9223372036854775808", Literal(-(2**63))),
        ("1.5e3", Literal(1500.0)),
        ("5min", DurationLiteral(300 * 10**9)),
        ("a.time - 2 s", Binary("-", Attribute("a", "time"), DurationLiteral(2 * 10**9))),
        ("'it''s'", Literal("it's")),
        ("NULL", Literal(None)),
        ("true", Literal(True)),
        ("MAX(a.V, 3)", Call("max", (V, THREE))),
        ("max(b[].V)", Aggregate("MAX", "b", "V")),
        ("count(b[])", Aggregate("COUNT", "b")),
        ("StdDev(b[].x)", Aggregate("STDDEV", "b", "x")),
        ("b[first].V + b[2].V", Binary("+", *(Attribute("b", "V", k) for k in (Index("first"), Index("position", 2))))),
        ("b[].V", ast.AttributeList("b", "V")),
        ("1 -- a comment", ONE),
    ],
)
def test_values(text: str, expected: ast.Expr, schema: Schema) -> None:
    assert value(text + "\n", schema) == expected


P, Q, R = (Binary("=", V, number) for number in (ONE, TWO, THREE))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.V=1 OR a.V=2 AND a.V=3", Binary("OR", P, Binary("AND", Q, R))),
        ("(a.V=1 OR a.V=2) AND a.V=3", Binary("AND", Binary("OR", P, Q), R)),
        ("NOT a.V=1 AND a.V=2", Binary("AND", Unary("NOT", P), Q)),
        ("not not a.flag", Unary("NOT", Unary("NOT", FLAG))),
        ("a.V BETWEEN 1 AND 2 AND a.V=3", Binary("AND", Between(V, ONE, TWO), R)),
        ("a.V + 1 IN {1, -2, 1s}", Membership(Binary("+", V, ONE), (ONE, Literal(-2), Literal(10**9)))),
        ("a.name NOT IN {'x'}", Membership(Attribute("a", "name"), (Literal("x"),), True)),
        ("a.V=1 AND [ID, name]", Binary("AND", P, SameAttributes(("ID", "name")))),
        (
            "b[i+1].V > b[i-2].V",
            Binary(">", *(Attribute("b", "V", Index("relative", offset)) for offset in (1, -2))),
        ),
        ("b[i].type = 'A'", Binary("=", Attribute("b", "type", Index("relative")), Literal("A"))),
        ("(a.V=1) = TRUE", Binary("=", P, Literal(True))),
        ("a.x != 1", Binary("!=", X, ONE)),
    ],
)
def test_conditions(text: str, expected: ast.Expr, schema: Schema) -> None:
    assert condition(text, schema) == expected


def test_keywords_are_case_insensitive_and_names_are_not(schema: Schema) -> None:
    query = parse("pattern seq(BikeTrip a, BikeTrip A) where a.end = A.start and [end] within 1h return a.end", schema)
    assert query.pattern.patterns[1].name == "A"
    assert query.returns[0].name == "a.end"


def test_default_names_are_canonical_text(schema: Schema) -> None:
    query = parse("PATTERN SEQ(A a, B+ b[]) WITHIN 1ms RETURN ( a.V+1 )*2, sum(b[].V), b[] . V", schema)
    assert [item.name for item in query.returns] == ["(a.V + 1) * 2", "SUM(b[].V)", "b[].V"]


def test_name_of_a_query(schema: Schema) -> None:
    text = "PATTERN SEQ(A a) WITHIN 1ms"
    assert parse(text, schema).name == "query"
    assert parse(f"QUERY mine {text}", schema).name == "mine"
    assert parse(f"QUERY mine {text}", schema, name="other").name == "other"


def test_spans_and_text(schema: Schema) -> None:
    text = "PATTERN SEQ(A a)\nWHERE a.V = 1\nWITHIN 1ms"
    query = parse(text, schema)
    assert query.text == text
    assert isinstance(query.where, Binary)
    span = query.where.left.span
    assert span is not None
    assert (text[span.start : span.end], span.line, span.column) == ("a.V", 2, 7)


def test_query_is_immutable_and_pickles(schema: Schema) -> None:
    query = parse("PATTERN SEQ(A a) WHERE a.V = 1 WITHIN 1ms", schema)
    assert pickle.loads(pickle.dumps(query)) == query
    assert hash(query) == hash(parse("PATTERN SEQ(A a) WHERE a.V=1 WITHIN 1 ms", schema))
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.name = "x"  # type: ignore[misc]


def test_too_deep_is_an_error(schema: Schema) -> None:
    with pytest.raises(ParseError, match="nested deeper than 100 levels"):
        parse(f"PATTERN SEQ(A a) WHERE {'(' * 3000}a.V{')' * 3000} = 1 WITHIN 1ms", schema)


def test_without_schema_the_text_declares_it() -> None:
    text = "EVENT A (V int64) QUERY q PATTERN SEQ(A a) WITHIN 1ms"
    assert parse(text).name == "q"
    assert parse(text, name="r").name == "r"
    with pytest.raises(ParseError, match="holds 2 queries"):
        parse(f"{text} QUERY r PATTERN SEQ(A a) WITHIN 1ms")
