"""Canonical text: its format, and that it parses to the same query."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies.checked_queries import queries, schemas

from fastcep.events import Schema
from fastcep.query import Document, Query, document_text, expression_text, parse, parse_document, to_text
from fastcep.query.printer import KEYWORDS, name_text


@given(queries())
def test_round_trip(query: Query) -> None:
    text = to_text(query)
    again = parse(text, query.schema)
    assert again == query
    assert to_text(again) == text


@given(st.data())
def test_round_trip_of_documents(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    drawn = data.draw(st.lists(queries(schema), min_size=1, max_size=2, unique_by=lambda query: query.name))
    document = Document(schema, tuple(drawn))
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
    for whole in (
        text,
        f"PATTERN SEQ(A a) WHERE a.V = {text} WITHIN 1ms",
        f"PATTERN SEQ(A a) WINDOW OPEN ON A o WHERE o.V = {text} CLOSE AFTER 1ms",
        f"PATTERN SEQ(A a) WINDOW {text}",
        f"PATTERN SEQ(A a) WITHIN 1ms {text}",
    ):
        try:
            query = parse(whole, schema)
        except ParseError as error:
            assert error.line is not None and error.column is not None
            assert error.line >= 1 and error.column >= 1
        else:
            assert parse(to_text(query), schema) == query


# -------------------------------------------------------------------------- format


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


@given(st.integers(0, 2**63 - 1) | st.integers(0, 3), st.none() | st.integers(1, 2**63 - 1) | st.integers(1, 3))
def test_canonical_bounds(low: int, high: int | None) -> None:
    assume(high is None or low <= high)
    most = "" if high is None else high
    spellings = {f"{{{low},{most}}}"} | ({f"{{{low}}}"} if low == high else set())
    spellings |= {f"{{,{high}}}"} if low == 0 and high is not None else set()
    spellings |= {"+*"[low == 0]} if low < 2 and high is None else set()
    canonical = min(spellings - {f"{{,{high}}}"}, key=len)
    schema = Schema({"A": {}})
    for text in spellings:
        query = parse(f"PATTERN SEQ(A{text} a[], (SEQ(A x)){text} g[]) WITHIN 1h", schema)
        assert (query.pattern.patterns[0].minimum, query.pattern.patterns[0].maximum) == (low, high)
        assert f"SEQ(A{canonical} a[], (SEQ(A x)){canonical} g[])" in to_text(query)
        assert parse(to_text(query), schema) == query


def test_canonical_patterns(schema: Schema) -> None:
    query = parse(
        "pattern seq( neg (A|B) n, and(A a , B+ b[]), or( C c, seq(A? d, B e)), any(2,A f,B g), any(3, A h[] "
        "distinct ID), (seq(A x, neg C m, B? y, B z)){1,} p[], (or(A u, B v))? o, aperiodic(A j, B{1,3} k[] , C l)) "
        "within 1h",
        schema,
    )
    assert to_text(query) == (
        "QUERY query\n"
        "PATTERN SEQ(NEG (A|B) n, AND(A a, B+ b[]), OR(C c, SEQ(A? d, B e)), ANY(2, A f, B g), ANY(3, A h[] "
        "DISTINCT ID), (SEQ(A x, NEG C m, B? y, B z))+ p[], (OR(A u, B v))? o, APERIODIC(A j, B{1,3} k[], C l))\n"
        "WITHIN 1h\n"
    )
    assert parse(to_text(query), schema) == query


def test_canonical_clauses(schema: Schema) -> None:
    query = parse(
        "pattern seq(A a, next B+ b[] consecutive, next (seq(A x, next B y))* g[] consecutive, C c) "
        "window open on (A|B) o where o.V>1 and o.ID=2 close on C e where (e.ID=o.ID) or e.V<1.5 partition by ID "
        "strategy PARTITION_CONTIGUITY select First consume consumed limit 03 per window after match skip past last "
        "weight 2.50 return a.V",
        schema,
    )
    assert to_text(query) == (
        "QUERY query\n"
        "PATTERN SEQ(A a, NEXT B+ b[] CONSECUTIVE, NEXT (SEQ(A x, NEXT B y))* g[] CONSECUTIVE, C c)\n"
        "WINDOW OPEN ON (A|B) o WHERE o.V > 1 AND o.ID = 2 CLOSE ON C e WHERE e.ID = o.ID OR e.V < 1.5\n"
        "PARTITION BY ID\n"
        "STRATEGY partition_contiguity\n"
        "SELECT first\n"
        "CONSUME consumed\n"
        "LIMIT 3 PER WINDOW\n"
        "AFTER MATCH SKIP PAST LAST\n"
        "WEIGHT 2.5\n"
        "RETURN a.V\n"
    )
    assert parse(to_text(query), schema) == query


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("WINDOW open every 90s close after 2min", "WINDOW EVERY 90s CLOSE AFTER 2min"),
        ("WINDOW EVERY 5 events CLOSE AFTER 10 EVENTS", "WINDOW EVERY 5 EVENTS CLOSE AFTER 10 EVENTS"),
        ("WINDOW OPEN ON A o CLOSE AFTER 1h", "WINDOW OPEN ON A o CLOSE AFTER 1h"),
        ('WINDOW OPEN ON A "open" CLOSE ON B "on"', 'WINDOW OPEN ON A "open" CLOSE ON B "on"'),
        ("WITHIN 1h strategy skip_till_any select each consume zero after match no skip weight 1.0", "WITHIN 1h"),
        ("WITHIN 1h WEIGHT 1e-7", "WITHIN 1h\nWEIGHT 1e-07"),
        ("WITHIN 1h AFTER MATCH SKIP TO NEXT WEIGHT 20", "WITHIN 1h\nAFTER MATCH SKIP TO NEXT\nWEIGHT 20"),
    ],
)
def test_canonical_windows_and_policies(written: str, canonical: str, schema: Schema) -> None:
    query = parse(f"PATTERN SEQ(A a) {written}", schema)
    assert to_text(query) == f"QUERY query\nPATTERN SEQ(A a)\n{canonical}\n"
    assert parse(to_text(query), schema) == query


def test_keywords_are_those_of_the_grammar() -> None:
    grammar = resources.files("fastcep.query.parsing").joinpath("grammar.lark").read_text(encoding="utf-8")
    assert frozenset(re.findall(r"/(\w+)\\b(?:\(\?!.*\))?/i", grammar)) == KEYWORDS


def test_names() -> None:
    assert [name_text(name) for name in ("a_1", "1a", "Ends", "in", "")] == ["a_1", '"1a"', "Ends", '"in"', '""']
    assert name_text("in", anywhere=True) == "in"
