"""Aggregates over the elements before, or up to, the one that ``[i]`` names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies.patterns import Draw, most_events
from strategies.queries import Expressions
from strategies.running import so_far
from strategies.streams import schemas, streams
from support import harness
from support.worked import SCHEMA, found

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.query import ast, i, parse, seq, to_text
from fastcep.query.patterns import pattern_variables

PRICES = "A(v=3) A(v=4) A(v=1) A(v=5)"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a[i].v > AVG(a[..i-1].v)", ["a0", "a1", "a0,1", "a2", "a3", "a0,3", "a1,3", "a0,1,3", "a2,3"]),
        ("a[i+1].v > AVG(a[..i].v)", ["a0", "a1", "a0,1", "a2", "a3", "a0,3", "a1,3", "a0,1,3", "a2,3"]),
        ("SUM(a[..i].v) < 5", ["a0", "a1", "a2", "a0,2"]),  # every sum so far
        ("COUNT(a[..i-1]) < 1", ["a0", "a1", "a2", "a3"]),
        ("a[i].v < MIN(a[..i-1].v)", ["a0", "a1", "a2", "a0,2", "a1,2", "a3"]),
        ("a[i+1].v > SUM(a[..i-1].v)", ["a0", "a1", "a0,1", "a2", "a0,2", "a1,2", "a3", "a0,3", "a1,3", "a0,1,3",
                                        "a2,3", "a0,2,3", "a1,2,3"]),
        ("STDDEV(a[..i].v) > 0", []),  # null at the first element
    ],
)  # fmt: skip
def test_worked(where: str, expected: list[str]) -> None:
    text = f"SEQ(A+ a[]) WHERE {where} WITHIN 99ns"
    assert found(text, PRICES) == expected
    query = parse(f"PATTERN {text} RETURN 1 AS one", SCHEMA, name="q")
    stream = harness.stream(SCHEMA, PRICES)
    harness.assert_same(query, stream, harness.rows(query, None, stream, [2]), "rows")


def test_under_contiguity_and_skip_till_next() -> None:
    """An event that breaks the condition ends the loop."""
    for strategy in ("strict_contiguity", "skip_till_next"):
        text = f"SEQ(A+ a[], B b) WHERE a[i].v > AVG(a[..i-1].v) WITHIN 99ns STRATEGY {strategy}"
        query = parse(f"PATTERN {text}", SCHEMA, name="q")
        stream = harness.stream(SCHEMA, "A(v=1) A(v=2) A(v=1) B A(v=3) B")
        harness.assert_same(query, stream, harness.rows(query, None, stream, [3]), strategy)


@st.composite
def queries(draw: Draw) -> tuple[ast.Query, str]:
    """Draw a variable, a loop whose running aggregates may be compared with it, and an event after the loop."""
    schema = draw(schemas())
    kinds = st.sampled_from(schema.type_names)
    pattern = ast.Sequence(
        (
            ast.Variable((draw(kinds),), "b", draw(st.sampled_from([1, 0]))),
            ast.Variable((draw(kinds),), "a", draw(st.sampled_from([1, 0, 2])), draw(st.sampled_from([None, 3])), True),
            *([ast.Variable((draw(kinds),), "c")] if draw(st.booleans()) else []),
        )
    )
    make = Expressions(draw, schema, pattern_variables(pattern))
    where = so_far(make, ast.Attribute("b", "k"), ast.Attribute("b", "k"), ast.Attribute("b", "seq"))
    window = ast.TimeWindow(draw(st.sampled_from([5, 20])))
    text = to_text(ast.Query("q", pattern, window, where, strategy=make.pick(*ast.STRATEGIES[:2]), schema=schema))
    return parse(text, schema), text


@given(st.data())
def test_any_condition(data: st.DataObject) -> None:
    query, text = data.draw(queries())
    events = data.draw(streams(query.schema, most_events(query.pattern)))
    found_rows = harness.rows(query, None, events, data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    harness.assert_same(query, events, found_rows, text)


def test_registers_do_not_grow_with_the_loop() -> None:
    """A partial match carries the sum and the number of values, whatever its length."""
    query = parse("PATTERN SEQ(A+ a[], B b) WHERE a[i].v > AVG(a[..i-1].v) WITHIN 99ns", SCHEMA)
    plan = make_plan(query)
    assert [state.registers for state in plan.states] == [2, 0]


def test_builder() -> None:
    a = SCHEMA.A("a").plus()
    built = seq(a).where(
        a[i].v > a[:i].avg("v"), a[: i + 1].sum("v") < 9, a[:i].count() < 3, a[:i].count("v") < a[: i + 1].max("v")
    )
    text = (
        "PATTERN SEQ(A+ a[]) WHERE a[i].v > AVG(a[..i-1].v) AND SUM(a[..i].v) < 9 AND COUNT(a[..i-1]) < 3 "
        "AND COUNT(a[..i-1].v) < MAX(a[..i].v) WITHIN 9ns"
    )
    assert built.within("9ns").build() == parse(text, SCHEMA)
    assert repr(a[:i]) == "<a[..i-1]>"
    for wrong in (slice(1, 2), slice(None, i + 2), slice(i, None), slice(None, i, 2)):
        with pytest.raises(TypeError, match=r"found another slice than \[:i\]"):
            a[wrong]
    with pytest.raises(TypeError, match="has no list of 'v'"):
        a[:i].values("v")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("SEQ(A+ a[]) WHERE AVG(a[..i+1].v) > 1", r"write \[\.\.i\] or \[\.\.i-1\]"),
        ("SEQ(A+ a[]) WHERE AVG(a[..last].v) > 1", r"write \[\.\.i\] or \[\.\.i-1\]"),
        ("SEQ(A+ a[]) WHERE AVG(a[..i]) > 1", r"write AVG\(a\[\.\.i\]\.attribute\)"),
        ("SEQ(A+ a[]) WHERE a[..i].v > 1", "allowed only in an aggregate"),
        ("SEQ(A a) WHERE AVG(a[..i].v) > 1", "a holds one event, not a list"),
        ("SEQ(A+ a[], B b) WHERE AVG(a[..i].v) > b.v", "when b.v is not known yet"),
        ("AND(A+ a[], B b) WHERE AVG(a[..i].v) > b.v", "when b.v is not known yet"),
        ("SEQ(A+ a[], B b) WHERE AVG(a[..i].v) > a[last].v", r"cannot mention a\[last\].v"),
        ("SEQ(A+ a[], B b) WHERE AVG(a[..i].v) > a[1].v", r"cannot mention a\[1\].v"),
        ("SEQ(A+ a[], B b) WHERE AVG(a[..i].v) > SUM(a[].v)", r"cannot mention SUM\(a\[\].v\)"),
        ("SEQ(B+ b[], A+ a[]) WHERE AVG(a[..i].v) > b[i].v", r"cannot mention b\[i\].v"),
        ("SEQ((SEQ(A a, B b))+ g[]) WHERE AVG(g[..i].a.v) > 1", r"g is a group; write AVG\(g\[\].a.v\)"),
        ("SEQ(A+ a[], NEG B n, C c) WHERE AVG(a[..i].v) > n.v", "when n.v is not known yet"),
    ],
)
def test_refused(pattern: str, message: str) -> None:
    with pytest.raises(fc.ParseError, match=message):
        parse(f"PATTERN {pattern} WITHIN 9ns", SCHEMA)


def test_refused_without_i() -> None:
    with pytest.raises(fc.ParseError, match=r"RETURN has no \[i\], so .*; write AVG\(a\[\]\.v\)"):
        parse("PATTERN SEQ(A+ a[]) WITHIN 9ns RETURN AVG(a[..i].v) AS x", SCHEMA)
