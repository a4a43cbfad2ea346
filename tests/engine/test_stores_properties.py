"""The factorised store reports the same as rows and the reference matcher, in the same order, and moves as they do."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from strategies.queries import Case
from strategies.stores import HUGE, SCHEMA, cases, run
from support import harness
from support.state_transfer import quiet

import fastcep as fc
from fastcep.plan import make_plan


def factorised(case: Case) -> bool:
    """Return True if the factorised store supports the query; counted in the statistics."""
    reason = make_plan(case.query).rows_only
    event(f"store: {'either' if not reason else 'rows'}")
    return not reason


@given(cases())
def test_rows(case: Case) -> None:
    """The tables are those of the rows, including times of detection and RETURN; counters are exact."""
    assume(factorised(case))
    (table, own), (other, rows) = run(case, "factorised"), run(case, "rows")
    assert repr(table.to_pylist()) == repr(other.to_pylist()), repr(case)
    for name in ("events", "relevant_events", "matches", "watermark", "function_errors"):
        assert own[name] == rows[name], f"{name}: {case!r}"
    assert own["live_partial_matches"] <= own["stored_rows"]


@given(cases(), st.integers(0, 30))
def test_quiet_stream(case: Case, later: int) -> None:
    """Nothing is kept when the window is over."""
    assume(factorised(case))
    query = dataclasses.replace(case.query, window=fc.parse("PATTERN SEQ(A a, B b) WITHIN 9ns", SCHEMA).window)
    engine = fc.Engine(query, store="factorised")
    for batch in harness.batches(SCHEMA, case.events, case.batch_sizes):
        engine.process(batch)
    engine.advance(case.events[-1].time + 10 + later)
    metrics = engine.metrics()
    assert (metrics["live_partial_matches"], metrics["stored_rows"], metrics["keys"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        ("a.k = b.k AND a.k = b.v", "A(k=1)@0 B(k=1,v=2)@1"),
        ("a.k = b.v AND [k]", "A(k=1)@0 B(k=2,v=1)@1"),
        ("[k] AND a.k = b.v", "A(k=1)@0 B(k=1,v=2)@1"),
        (f"a.k = b.k + -b.v AND b.k != {HUGE}", f"A(k={HUGE})@0 B(k=-1,v=-{HUGE + 1})@1"),
    ],
)
def test_no_equality_is_lost(conditions: str, line: str) -> None:
    """Two values of one variable that equal a third, and sums with values that cannot be negated."""
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE {conditions} WITHIN 9ns", SCHEMA)
    for store in ("rows", "auto") if make_plan(query).rows_only else ("rows", "factorised"):
        assert len(fc.Engine(query, store=store).process(harness.batch(SCHEMA, harness.stream(SCHEMA, line)))) == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("partition", ["x", "s", "x, s"])
def test_partition(partition: str) -> None:
    """Matches bind events of one partition; events with a null or NaN in the key are in none."""
    where = "a.k = b.k AND b.k = c.k" if partition != "x, s" else "a.k = c.k"
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN 99ns PARTITION BY {partition}", SCHEMA, name="q")
    values = [f"x={x},s={s}" for x in ("1.0", "2.0", "-0.0", "0.0", "nan", "null") for s in ("'p'", "'q'", "null")]
    words = (f"{kind}(k=1,{value})" for kind in "ABC" for value in values)
    events = harness.stream(SCHEMA, " ".join(words))
    engine = quiet(fc.Engine, query, store="factorised")
    found = harness.table_rows(query, engine.process(harness.batch(SCHEMA, events)).to_arrow())
    harness.assert_same(query, events, found, "factorised")
    assert found


@pytest.mark.parametrize("many", [1, 300])
def test_sums_at_the_end_of_int64(many: int) -> None:
    """-INT64_MIN does not fit, but less another number it may; with few events, compared, and many, hashed."""
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE a.k + c.k = b.k WITHIN 1us", SCHEMA)
    first = " ".join(f"A(k={HUGE - number})@{number}" for number in range(many))
    line = f"{first} B(k=-1)@400 B(k=3)@401 B(k=-2)@402 C(k={-HUGE - 1})@403"
    data = harness.batch(SCHEMA, harness.stream(SCHEMA, line))
    found = [fc.Engine(query, store=store).process(data).to_arrow() for store in ("rows", "factorised")]
    assert found[0].equals(found[1]) and len(found[0]) == min(2, many)


@pytest.mark.parametrize("conditions", ["a.k + c.k = d.v", "a.v < b[i].v", "b[i+1].v >= b[i].v AND b[i].k = a.k"])
def test_served(conditions: str) -> None:
    """The docs say that the first is supported; the second is not."""
    query = fc.parse(f"PATTERN SEQ(A a, B+ b[], C c, D d) WHERE {conditions} WITHIN 9ns", SCHEMA)
    assert bool(make_plan(query).rows_only) == ("a.v < " in conditions)


def test_elements_that_can_follow_no_event_are_not_kept() -> None:
    """An event that both variables may bind does not follow itself, and the events that it follows leave the window."""
    query = fc.parse("PATTERN SEQ((A|B) a, B+ b[], C c) WHERE [k] AND b[i].v = a.v WITHIN 9ns", SCHEMA)
    engine = fc.Engine(query, store="factorised")

    def event_of(time: int, kind: str, k: int, v: int) -> dict[str, list[object]]:
        return {"type": [kind], "ts": [time], "k": [k], "v": [v], "x": [0.0], "s": [""]}

    def kept(time: int, kind: str, k: int, v: int) -> int:
        engine.process(event_of(time, kind, k, v))
        return int(engine.metrics()["live_partial_matches"])

    assert kept(0, "A", 1, 1) == 1
    assert kept(1, "B", 1, 2) == 2  # as a; as b it follows nothing
    assert kept(2, "B", 1, 1) == 4  # as a and b
    assert kept(3, "B", 2, 1) == 5
    matches = engine.process(event_of(4, "C", 1, 0))
    assert [(match.a, match.b) for match in matches] == [(0, [2])]
    assert kept(10, "B", 1, 2) == 6  # 1 has left the window with the events that follow it


def test_elements_of_a_stored_state_are_found() -> None:
    """A snapshot does not say which events its elements can follow."""
    query = fc.parse("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].v = a.v WITHIN 9ns", SCHEMA)
    columns = {"k": [1] * 4, "v": [1] * 4, "x": [0.0] * 4, "s": [""] * 4}
    batch = {"type": ["A", "B", "B", "C"], "ts": [0, 1, 2, 3]} | columns
    engine = fc.Engine(query, store="factorised")
    engine.process({name: values[:3] for name, values in batch.items()})
    matches = fc.Engine.restore(engine.snapshot()).process({name: values[3:] for name, values in batch.items()})
    assert [(match.a, match.b, match.c) for match in matches] == [(0, [1], 3), (0, [2], 3), (0, [1, 2], 3)]
