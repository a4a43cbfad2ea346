"""UNTIL, SELECT longest, SKIP TO FIRST and SKIP TO LAST in the engine: examples, and states at every event."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from reference.matcher import Event
from support.harness import assert_same, batch, expected_rows, table_rows

import fastcep as fc
from fastcep.query import ast

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "ABU"}, time="ts", type="type", time_unit="ns")
STRICT, PARTITION = "STRATEGY strict_contiguity", "STRATEGY partition_contiguity"
NEXT = "STRATEGY skip_till_next"
pytestmark = pytest.mark.filterwarnings("ignore:.*WITHIN UNBOUNDED")
QUERIES = [
    "SEQ(A a, B+ b[] UNTIL U u, A c) WITHIN 9ns",
    "SEQ(A a, B+ b[] UNTIL B u) WHERE u.v = a.v AND u.v <= b[first].v WITHIN 9ns",
    f"SEQ(B+ b[] UNTIL B u, A c) WHERE u.v = 0 WITHIN 9ns PARTITION BY k {NEXT}",
    f"SEQ((SEQ(A a, B b))+ g[] UNTIL U u) WITHIN 20ns {NEXT}",
    f"SEQ(A a, B+ b[]) WITHIN 9ns {NEXT} SELECT longest",
    f"SEQ(A a, B{{1,2}} b[]) WITHIN UNBOUNDED PARTITION BY k {NEXT} SELECT longest",
    f"SEQ(A+ a[], B? b) WITHIN 4 EVENTS PARTITION BY k {PARTITION} SELECT longest AFTER MATCH SKIP PAST LAST",
    f"SEQ(B a, B+ b[]) WHERE b[i].v >= a.v WITHIN 20ns PARTITION BY k {PARTITION} SELECT longest AFTER MATCH "
    f"SKIP PAST LAST",
    f"SEQ((A|B) a, B+ b[]) WITHIN UNBOUNDED {STRICT} SELECT longest AFTER MATCH SKIP TO LAST b",
    f"SEQ((A|B)+ a[]) WINDOW EVERY 4 EVENTS CLOSE AFTER 6 EVENTS PARTITION BY k {PARTITION} SELECT longest "
    f"LIMIT 1 PER WINDOW",
    f"SEQ((A|B)+ a[]) WHERE a[i+1].v != a[i].v WITHIN 20ns PARTITION BY k {PARTITION} SELECT longest",
    f"SEQ(B{{2}} b[] CONSECUTIVE, A? a) WITHIN 9ns {NEXT} SELECT longest",
    "SEQ(A a, B b, A c) WITHIN 20ns AFTER MATCH SKIP TO FIRST b",
    "SEQ(A a, B+ b[]) WITHIN 9ns PARTITION BY k AFTER MATCH SKIP TO LAST b",
    f"SEQ(A a, B? b, A c) WITHIN 20ns {NEXT} SELECT first AFTER MATCH SKIP TO FIRST b",
    "SEQ(A+ a[], B b) WITHIN 9ns SELECT cumulative AFTER MATCH SKIP TO LAST a",
    "SEQ(A a, (SEQ(B b, A c))+ g[]) WITHIN 20ns CONSUME consumed AFTER MATCH SKIP TO LAST g",
]  # fmt: skip


def streams(text: str, count: int = 12) -> list[list[Event]]:
    """Return some streams, the same for each text."""
    draw = random.Random(text)
    found = []
    for _ in range(count):
        times = sorted(draw.randrange(14) for _ in range(9))
        found.append([
            Event(draw.choice("AABBBU"), time, number, {"k": draw.randrange(2), "v": draw.randrange(3)})
            for number, time in enumerate(times)
        ])  # fmt: skip
    return found


def rows(query: ast.Query, events: Sequence[Event], restores: bool) -> list[object]:
    """Return the matches of an engine that gets one event at a time, and is restored after each if ``restores``."""
    engine, found = fc.Engine(query), []
    for event in events:
        found += table_rows(query, engine.process(batch(SCHEMA, [event])).to_arrow())
        if restores:
            engine = fc.Engine.restore(engine.snapshot(), query)
    return found + table_rows(query, engine.flush().to_arrow())


@pytest.mark.sample(8)
@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("text", QUERIES)
def test_engine_and_reference(text: str, restores: bool) -> None:
    """The engine finds the matches of the reference matcher, with a state restored after each event as well."""
    query = fc.parse(f"PATTERN {text}", SCHEMA)
    for events in streams(text):
        assert_same(query, events, rows(query, events, restores), "restored" if restores else "event by event")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", QUERIES)
def test_streams_have_matches(text: str) -> None:
    query = fc.parse(f"PATTERN {text}", SCHEMA)
    assert sum(len(expected_rows(query, events)) for events in streams(text)) > 2


def test_a_partition_is_reported_when_its_next_event_comes() -> None:
    """Events of other partitions do not end a run."""
    query = fc.parse(f"PATTERN SEQ(A+ a[]) WITHIN UNBOUNDED PARTITION BY k {PARTITION} SELECT longest", SCHEMA)
    engine = fc.Engine(query)
    first = engine.process({"type": ["A", "A", "B"], "ts": [0, 1, 2], "k": [1, 1, 2], "v": [0, 0, 0]})
    assert len(first) == 0
    ended = engine.process({"type": ["U"], "ts": [3], "k": [1], "v": [0]})
    assert ended.to_arrow().column("a").to_pylist() == [[1], [0, 1]]
    assert engine.metrics()["waiting_matches"] == 0


def test_memory_of_waiting_matches_is_freed() -> None:
    """A start holds one waiting match, however often it becomes longer."""
    query = fc.parse(f"PATTERN SEQ(A a, B+ b[]) WITHIN 1000ns {NEXT} SELECT longest", SCHEMA)
    engine = fc.Engine(query)
    n = 200
    engine.process({"type": ["A", *["B"] * n], "ts": list(range(n + 1)), "k": [0] * (n + 1), "v": [0] * (n + 1)})
    assert engine.metrics()["waiting_matches"] == 1
    assert [len(row) for row in engine.flush().to_arrow().column("b").to_pylist()] == [n]


def test_the_earliest_start_is_served_first() -> None:
    """The match of event 1 has ended at event 3, but a partial match of event 0 goes on, so it waits and is dropped."""
    text = f"PATTERN SEQ(B a, B+ b[]) WHERE b[i].v > a.v WITHIN 9ns {STRICT} SELECT longest AFTER MATCH SKIP PAST LAST"
    engine = fc.Engine(fc.parse(text, SCHEMA))
    first = engine.process({"type": ["B"] * 4, "ts": [0, 1, 2, 3], "k": [0] * 4, "v": [1, 5, 6, 4]})
    assert len(first) == 0
    ended = engine.process({"type": ["B"], "ts": [4], "k": [0], "v": [0]}).to_arrow()
    assert (ended.column("a").to_pylist(), ended.column("b").to_pylist()) == ([0], [[1, 2, 3]])
    assert len(engine.flush()) == 0
