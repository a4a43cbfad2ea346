"""On random queries and streams the engine reports exactly the reference matcher's matches, in the defined order."""

from __future__ import annotations

import harness
import strategies
from hypothesis import event, given
from hypothesis import strategies as st
from strategies import Case

from fastcep.query import ast


def note(found: list[harness.Row]) -> None:
    """Record for --hypothesis-show-statistics how many examples have matches."""
    event(f"matches: {'none' if not found else '1 to 9' if len(found) < 10 else '10 or more'}")


@given(strategies.cases())
def test_batches(case: Case) -> None:
    """Matches, order, detection times and RETURN values do not depend on where the stream is cut."""
    found = harness.rows(case.query, None, case.events, case.batch_sizes)
    note(found)
    harness.assert_same(case.query, case.events, found, f"batches of {case.batch_sizes}")


@given(strategies.cases())
def test_one_batch(case: Case) -> None:
    """The whole stream in one batch."""
    found = harness.rows(case.query, None, case.events)
    note(found)
    harness.assert_same(case.query, case.events, found, "one batch")


@given(strategies.cases())
def test_one_by_one(case: Case) -> None:
    """Events sent one by one."""
    found = harness.rows_by_send(case.query, None, case.events)
    note(found)
    harness.assert_same(case.query, case.events, found, "one by one")


@given(strategies.cases())
def test_nothing_waits(case: Case) -> None:
    """After each batch all that is decided is reported, what is deferred too, and nothing else."""
    harness.assert_in_time(case.query, case.events, case.batch_sizes)


@given(strategies.cases(window=strategies.time_windows()), st.integers(0, 100))
def test_quiet_stream_leaves_nothing(case: Case, later: int) -> None:
    """When time is advanced past every window, what was deferred is reported and no partial match is kept."""
    engine = harness.make_engine(case.query)
    found: list[harness.Row] = []
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        found += harness.table_rows(case.query, engine.process(data).to_arrow())
    assert isinstance(case.query.window, ast.TimeWindow)
    last = case.events[-1].time if case.events else 0
    late = engine.advance(last + case.query.window.nanoseconds + 1 + later)
    found += harness.table_rows(case.query, late.to_arrow())
    note(found)
    harness.assert_same(case.query, case.events, found, f"batches of {case.batch_sizes} and a later time")
    assert len(engine.flush()) == 0
    live = engine.metrics()["live_partial_matches"]
    assert live == 0, f"{live} partial matches live on after {case!r}"


@given(strategies.cases(), st.integers(0, 9))
def test_send_and_process_mix(case: Case, cut: int) -> None:
    """The single-event path and the batch path share their state."""
    engine = harness.make_engine(case.query)
    schema = case.query.schema
    found: list[harness.Row] = []
    for one in case.events[:cut]:
        found += harness.table_rows(case.query, harness.send(engine, schema, one).to_arrow())
    for data in harness.batches(schema, case.events[cut:], case.batch_sizes):
        found += harness.table_rows(case.query, engine.process(data).to_arrow())
    found += harness.table_rows(case.query, engine.flush().to_arrow())
    harness.assert_same(case.query, case.events, found, f"{cut} sent, then batches of {case.batch_sizes}")
