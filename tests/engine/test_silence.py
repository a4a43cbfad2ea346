"""``NEG N n FOR t``: silence for a time after the event before, decided by the watermark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies.patterns import OUTER, Draw, Patterns, most_events
from strategies.queries import Expressions
from strategies.streams import schemas, streams
from support import harness
from support.worked import SCHEMA, found

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.query import all_of, ast, one_of, parse, seq, to_text
from fastcep.query.patterns import pattern_variables

LINE = "A@0 A@2 B@3 C@6 A@7 B@8 C@20"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        # last: decided t after the event before it, whatever the window
        ("SEQ(A a, NEG A n FOR 3ns) WITHIN 99ns", LINE, ["a1", "a4"]),
        ("SEQ(A a, NEG A n FOR 3ns) WITHIN UNBOUNDED", LINE, ["a1", "a4"]),
        ("SEQ(A a, NEG A n FOR 30ns) WITHIN 2ns", LINE, ["a4"]),
        ("SEQ(A a, B b, NEG C n FOR 2ns) WITHIN 3ns", LINE, ["a0 b2", "a1 b2", "a4 b5"]),
        ("SEQ(A a, NEG B n FOR 3ns) WITHIN 9ns", "A@0 B@3", []),  # the end belongs to the silence
        ("SEQ(A a, NEG B n FOR 3ns) WITHIN 9ns", "B@0 A@0 B@4", ["a1"]),
        ("SEQ(A a, NEG A n FOR 3ns) WITHIN 9ns", "A@0 A@0", ["a1"]),  # the second one comes after the first
        ("SEQ(A+ a[], NEG B n FOR 3ns) WHERE n.v = a[last].v WITHIN 9ns", "A(v=1)@0 A(v=2)@2 B(v=2)@3 C@6", ["a0"]),
        # in the middle: what follows comes later
        ("SEQ(A a, NEG B n FOR 3ns, C c) WITHIN 9ns", "A@0 C@3 C@4 A@5 B@6 C@9", ["a0 c2", "a0 c5"]),
        ("SEQ(A a, NEG B n FOR 3ns, C c) WHERE n.v > c.v WITHIN 9ns", "A@0 B(v=1)@1 C(v=2)@5 C(v=0)@6", ["a0 c2"]),
        ("SEQ(A a, NEG B n FOR 3ns, C c) WITHIN 5 EVENTS", "A@0 C@3 C@4", ["a0 c2"]),
        ("SEQ(A a, NEG B n FOR 3ns, C? c) WITHIN 9ns", "A@0 C@2 C@5", ["a0 c-", "a0 c2"]),
        # a branch of OR
        ("SEQ(A a, OR(B b, NEG B n FOR 5ns)) WITHIN 9ns", "A@0 B@3 A@4", ["a0 b1", "a2 b-"]),
        ("SEQ(A a, OR(B b, NEG B n FOR 5ns), C c) WITHIN 99ns", "A@0 B@3 C@4 A@5 C@11", [
            "a0 b1 c2", "a0 b1 c4", "a3 b- c4"]),
        ("SEQ(A a, OR(SEQ(B b, NEG A n FOR 4ns), C c)) WITHIN 99ns", "A@0 B@1 C@2", ["a0 b- c2", "a0 b1 c-"]),
        # a part of AND
        ("SEQ(A a, AND(C c, NEG B n FOR 5ns)) WITHIN 99ns", "A@0 C@2 C@7", ["a0 c1", "a0 c2"]),
        ("SEQ(A a, AND(C c, NEG B n FOR 5ns)) WITHIN 99ns", "A@0 C@2 B@5 C@7", []),
        ("SEQ(A a, AND(C c, NEG B n FOR 5ns), D d) WITHIN 99ns", "A@0 C@2 D@5 D@6 C@7 D@8", [
            "a0 c1 d3", "a0 c1 d5", "a0 c4 d5"]),
        # several
        ("SEQ(A a, NEG B n FOR 2ns, NEG C m FOR 4ns) WITHIN 99ns", "A@0 B@3 A@10 B@11 A@20 C@24", ["a0"]),
    ],
)  # fmt: skip
def test_worked(text: str, line: str, expected: list[str]) -> None:
    assert found(text, line) == expected
    query = parse(f"PATTERN {text} RETURN 1 AS one", SCHEMA, name="q")
    stream = harness.stream(SCHEMA, line)
    for sizes in ([1], [2], [9]):
        harness.assert_same(query, stream, harness.rows(query, None, stream, sizes), f"rows, {sizes}")


def times(engine: fc.Engine, line: str) -> list[int]:
    """Return when the matches of these events are detected, in nanoseconds."""
    table = engine.process(harness.batch(SCHEMA, harness.stream(SCHEMA, line))).to_arrow()
    return [value.value for value in table["detected_at"]]


def test_the_watermark_decides() -> None:
    engine = fc.Engine(parse("PATTERN SEQ(A a, NEG A n FOR 5ns) WITHIN 9ns", SCHEMA))
    assert times(engine, "A@0 B@5") == []  # another event at 5 could still come
    assert times(engine, "B@6") == [5]
    assert times(engine, "A@7") == []
    assert len(engine.advance(12)) == 0
    assert [value.value for value in engine.advance(13).to_arrow()["detected_at"]] == [12]


def test_out_of_order() -> None:
    engine = fc.Engine(parse("PATTERN SEQ(A a, NEG A n FOR 5ns) WITHIN 9ns", SCHEMA), allowed_lateness="10ns")
    assert times(engine, "A@0 B@14 A@4") == []
    assert times(engine, "B@40") == [9]


def test_an_event_after_the_silence_completes_at_once() -> None:
    """A part of AND that comes after the silence completes the match; one before it has to wait."""
    engine = fc.Engine(parse("PATTERN SEQ(A a, AND(C c, NEG B n FOR 5ns)) WITHIN 99ns", SCHEMA))
    assert times(engine, "A@0 C@2 C@7") == [5, 7]


def test_nothing_is_kept_when_the_silence_is_over() -> None:
    engine = fc.Engine(parse("PATTERN SEQ(A a, B b, NEG C n FOR 5ns) WITHIN 3ns", SCHEMA))
    engine.process(harness.batch(SCHEMA, harness.stream(SCHEMA, "A@0 B@3 A@20")))
    assert engine.metrics()["live_partial_matches"] == 1
    engine.advance(40)
    metrics = engine.metrics()
    assert (metrics["live_partial_matches"], metrics["stored_rows"]) == (0, 0)


def test_snapshot_of_a_waiting_match() -> None:
    query = parse("PATTERN SEQ(A a, NEG B n FOR 50ns) WITHIN 3ns PARTITION BY k", SCHEMA)
    engine = fc.Engine(query)
    assert times(engine, "A(k=1)@0 A(k=2)@1 C@20") == []
    restored = fc.Engine.restore(engine.snapshot(), query)
    assert times(restored, "B(k=1)@30 C@99") == [51]


@st.composite
def queries(draw: Draw) -> ast.Query:
    """Draw a pattern with NEG, most of them with FOR, in a window and under a strategy."""
    schema = draw(schemas())
    window = draw(st.sampled_from([ast.TimeWindow(5), ast.TimeWindow(2), ast.Unbounded(), ast.CountWindow(5)]))
    make = Patterns(draw, schema, window, 4)
    pattern = make.top(*make.pick(("SEQ", "NEG"), ("SEQ", "NEG"), (make.pick(*OUTER[:3]), "SEQ", "NEG")))
    conditions = Expressions(draw, schema, pattern_variables(pattern))
    where: ast.Expr | None = None
    for variable in conditions.variables:
        if variable.negated and make.pick(False, True):
            part = conditions.forbidden(variable)
            where = part if where is None else ast.Binary("AND", where, part)
    partition = make.pick((), (), ("k",))
    strategy = make.pick(*ast.STRATEGIES[:2], ast.STRATEGIES[0], ast.STRATEGIES[3])
    text = to_text(ast.Query("q", pattern, window, where, partition, strategy=strategy, schema=schema))
    return parse(text, schema)


@given(st.data())
def test_any_pattern(data: st.DataObject) -> None:
    query = data.draw(queries())
    events = data.draw(streams(query.schema, most_events(query.pattern)))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    harness.assert_in_time(query, events, sizes)


def test_builder() -> None:
    a, b, c = SCHEMA.A("a"), SCHEMA.B("b"), SCHEMA.C("c")
    built = seq(a, one_of(b, SCHEMA.B("n").silent("5s")), all_of(c, SCHEMA.A("m").silent("1min"))).within("1h").build()
    text = "PATTERN SEQ(A a, OR(B b, NEG B n FOR 5s), AND(C c, NEG A m FOR 1min)) WITHIN 1h"
    assert built == parse(text, SCHEMA)
    assert repr(SCHEMA.A("n").silent("90s")) == "<NEG A n FOR 90s>"
    with pytest.raises(ValidationError, match="NEG takes one event"):
        SCHEMA.A("n").optional().silent("5s")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("SEQ(NEG A n FOR 5s, B b) WITHIN 1h", "counts from the last event bound before it, but there may be none"),
        ("SEQ(A? a, NEG A n FOR 5s, B b) WITHIN 1h", r"as in SEQ\(P p, NEG A n FOR 5s\)"),
        ("AND(A a, NEG B n FOR 5s) WITHIN 1h", "but there may be none"),
        ("SEQ(A a, NEG B n FOR 0s) WITHIN 1h", "excludes nothing; expected at least 1ns"),
        ("SEQ(A a, NEG B n FOR 5s) WITHIN 5 EVENTS", "WITHIN n EVENTS counts events; write WITHIN 1h"),
        ("SEQ(A a, NEG B n FOR 5s) WINDOW EVERY 1s CLOSE AFTER 1s", "WINDOW may close first; write WITHIN 1h"),
        ("SEQ(A a, NEG B n FOR 5s, NEG C m) WITHIN 1h", "have different ends; write FOR and a time after both"),
        ("SEQ(A a, OR(B? b, NEG B n FOR 5s)) WITHIN 1h", "undefined which one is taken"),
        ("SEQ(D d, (SEQ(A a, NEG B n FOR 5s))+ g[]) WITHIN 1h", "not possible in the repeating group g"),
        ("APERIODIC(SEQ(A a, NEG B n FOR 5s), B b, C c) WITHIN 1h", "APERIODIC has its own end"),
        ("SEQ(A a, NEG B n FOR 5s) WITHIN 1h SELECT last", "decided only when that time has passed"),
        ("SEQ(A a, NEG B n FOR 5s) WITHIN 1h CONSUME consumed", "decided only when that time has passed"),
        ("SEQ(A a, NEG B n FOR 5s) WITHIN 1h AFTER MATCH SKIP TO NEXT", "decided only when that time has passed"),
        ("SEQ(A a, NEG B n FOR) WITHIN 1h", "expected a duration such as 5min"),
    ],
)
def test_refused(pattern: str, message: str) -> None:
    with pytest.raises(fc.ParseError, match=message):
        parse(f"PATTERN {pattern}", SCHEMA)


def test_refused_with_timed_out() -> None:
    query = parse("PATTERN SEQ(A a, B b, NEG C n FOR 5s) WITHIN 1h", SCHEMA)
    with pytest.raises(ValidationError, match="ends with NEG … FOR, so partial matches live longer than its window"):
        fc.Engine(query, timed_out=True)
