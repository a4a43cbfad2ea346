"""On random streams out of order the engine reports the results of the sorted stream, and loses nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given
from hypothesis import strategies as st
from reference.matcher import Event
from strategies.disorder import MIN, disordered, late_engine, split
from strategies.queries import Case, cases
from support import harness

import fastcep as fc
from fastcep import datasets

ATTRIBUTES = {"id": "int64", "name": "string"}
SCHEMA = fc.Schema({"A": ATTRIBUTES}, type="type")
NUMBERED = fc.Schema({"A": ATTRIBUTES}, type="type", sequence="number")


def late_numbers(one: fc.Engine, schema: fc.Schema) -> list[int]:
    return one.late()[str(schema.sequence or "seq")].to_pylist()


@given(disordered(cases()))
def test_equal_to_the_sorted_stream(drawn: tuple[Case, list[Event], int]) -> None:
    """Matches, order, times and RETURN are those of the accepted events sorted; others are late; nothing is lost."""
    case, arrivals, lateness = drawn
    schema = case.query.schema
    accepted, late = split(arrivals, lateness)
    one = late_engine(case, lateness)
    found = []
    for data in harness.batches(schema, arrivals, case.batch_sizes):
        found += harness.table_rows(case.query, one.process(data).to_arrow())
        state = one.metrics()
        taken = state["events"] + state["held_events"]
    found += harness.table_rows(case.query, one.flush().to_arrow())
    event(f"late: {bool(late)}, matches: {bool(found)}")
    how = f"batches of {case.batch_sizes}, lateness {lateness}, arriving as {harness.line(arrivals)}"
    harness.assert_same(case.query, accepted, found, how)
    assert late_numbers(one, schema) == [one.seq for one in late]
    state = one.metrics()
    if arrivals:
        assert taken == state["events"] == len(accepted)
    assert (state["late_events"], state["held_events"], state["late_waiting"]) == (len(late), 0, 0)


@given(disordered(cases()), st.lists(st.sampled_from(["a", "b", "c"]), min_size=9, max_size=9))
def test_several_sources(drawn: tuple[Case, list[Event], int], names: list[str]) -> None:
    """The slowest source that has sent an event determines which events are late."""
    case, arrivals, lateness = drawn
    schema = case.query.schema
    one = late_engine(case, lateness)
    found, accepted, late = [], [], []
    watermark = MIN
    largest: dict[str, int] = {}
    for sent, name in zip(arrivals, names, strict=False):
        (late if sent.time < watermark else accepted).append(sent)
        largest[name] = max(largest.get(name, MIN), sent.time)
        watermark = max(watermark, min(largest.values()) - lateness)
        found += harness.table_rows(case.query, one.process(harness.batch(schema, [sent]), source=name).to_arrow())
        assert one.metrics()["watermark"] == watermark
    found += harness.table_rows(case.query, one.flush().to_arrow())
    accepted.sort(key=lambda one: (one.time, one.seq))
    harness.assert_same(case.query, accepted, found, f"sources {names}, lateness {lateness}")
    assert late_numbers(one, schema) == [one.seq for one in late]


@given(disordered(cases()), st.sets(st.integers(0, 9)))
def test_pauses(drawn: tuple[Case, list[Event], int], pauses: set[int]) -> None:
    """``poll`` after a pause releases all held events, as if the watermark had reached the largest time seen."""
    case, arrivals, lateness = drawn
    schema = case.query.schema
    clock = harness.Clock()
    one = late_engine(case, lateness, idle_timeout="1us", clock=clock)
    found, clocks = [], {}
    for number, sent in enumerate(arrivals):
        if number and number in pauses:
            clock.now += 1_000
            found += harness.table_rows(case.query, one.poll().to_arrow())
            assert one.metrics()["held_events"] == 0
            clocks[number] = max(e.time for e in arrivals[:number]) + (schema.sequence is not None)
        found += harness.table_rows(case.query, harness.send(one, schema, sent).to_arrow())
        clock.now += 999
        assert len(one.poll()) == 0
    found += harness.table_rows(case.query, one.flush().to_arrow())
    accepted, late = split(arrivals, lateness, clocks)
    harness.assert_same(case.query, accepted, found, f"pauses {pauses}, lateness {lateness}")
    assert late_numbers(one, schema) == [one.seq for one in late]


@given(
    st.lists(st.integers(0, 3_000), min_size=200, max_size=400),
    st.integers(0, 500),
    st.lists(st.integers(1, 90), min_size=1, max_size=6),
    st.booleans(),
)
def test_many_events_are_released_in_order(times: list[int], lateness: int, sizes: list[int], numbered: bool) -> None:
    """Long streams: runs are merged, split and shrunk; the output is sorted and complete, and memory is freed."""
    schema = NUMBERED if numbered else SCHEMA
    rng = np.random.default_rng(len(times))
    numbers = rng.permutation(len(times))
    arrivals = [
        Event("A", t, int(numbers[k]) if numbered else k, {"id": k, "name": str(k)}) for k, t in enumerate(times)
    ]
    one = fc.Engine(fc.parse("PATTERN SEQ(A a) WITHIN 1ns RETURN a.id AS id, a.name AS text", schema),
                    allowed_lateness=f"{lateness}ns")  # fmt: skip
    rows: list[Any] = []
    for data in harness.batches(schema, arrivals, sizes):
        rows += one.process(data).to_arrow().select(["a", "id", "text"]).to_pylist()
    rows += one.flush().to_arrow().select(["a", "id", "text"]).to_pylist()
    accepted, late = split(arrivals, lateness)
    assert rows == [{"a": e.seq, "id": e.values["id"], "text": e.values["name"]} for e in accepted]
    assert late_numbers(one, schema) == [e.seq for e in late]


def test_a_real_stream_shuffled_within_an_hour() -> None:
    """Bike trips by the minute: numbered by a column, they come out in the same order, including ties."""
    trips = pq.read_table(datasets.path("bayarea_2014")).slice(0, 60_000)
    rng = np.random.default_rng(5)
    minutes = trips["start_date"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy() // 60
    trips = trips.append_column("n", pa.array(np.arange(len(trips))))
    shuffled = trips.take(pa.array(np.argsort(minutes + rng.integers(0, 60, len(trips)), kind="stable")))
    fields = {"bike": "int64", "start": "int64", "end": "int64"}
    sources = {"bike": "bike_id", "start": "start_terminal", "end": "end_terminal"}
    schema = fc.Schema({"Trip": fields}, time="start_date", sequence="n", sources={"Trip": sources})
    query = fc.parse(
        "PATTERN SEQ(Trip+ a[], Trip b) WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end "
        "AND a[last].bike = b.bike WITHIN 1h RETURN b.start AS onward",
        schema,
    )
    expected = fc.Engine(query).process(trips).to_arrow()
    one = fc.Engine(query, allowed_lateness="59min")
    tables = [one.process(shuffled.slice(at, 7_001)).to_arrow() for at in range(0, len(shuffled), 7_001)]
    found = pa.concat_tables([*tables, one.flush().to_arrow()])
    assert len(expected) > 10_000 and one.metrics()["late_events"] == 0
    assert found.combine_chunks().equals(expected.combine_chunks())
