"""The state that remains when time has passed every window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from support import harness

from fastcep.query import ast


@given(strategies.cases(window=strategies.time_windows()), st.integers(0, 100))
def test_quiet_stream_leaves_nothing(case: Case, later: int) -> None:
    """When time is advanced past every window, deferred matches are reported and no partial match is kept."""
    engine = harness.make_engine(case.query)
    found: list[harness.Row] = []
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        found += harness.table_rows(case.query, engine.process(data).to_arrow())
    assert isinstance(case.query.window, ast.TimeWindow)
    last = case.events[-1].time if case.events else 0
    late = engine.advance(last + case.query.window.nanoseconds + 1 + later)
    found += harness.table_rows(case.query, late.to_arrow())
    harness.assert_same(case.query, case.events, found, f"batches of {case.batch_sizes} and a later time")
    assert len(engine.flush()) == 0
    live = engine.metrics()["live_partial_matches"]
    assert live == 0, f"{live} partial matches live on after {case!r}"
