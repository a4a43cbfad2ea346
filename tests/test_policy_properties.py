"""Windows, strategies and policies: the engine reports what the reference matcher does, area by area."""

from __future__ import annotations

import harness
import naive
import pytest
from disorder import disordered, late_engine, split
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from policy_strategies import AREAS, is_planned, policy_cases
from strategies import Case
from timed_out import assert_timed_out

from fastcep.plan import make_plan
from fastcep.plan.ir import PREVIOUS
from fastcep.query.patterns import trailing_negation

areas = pytest.mark.parametrize("area", AREAS)
some = settings(max_examples=max(1, settings().max_examples // 4))


def draw(data: st.DataObject, area: str) -> Case:
    """A case, and for --hypothesis-show-statistics whether it has matches."""
    case: Case = data.draw(policy_cases(area), "case")
    found = len(naive.find_matches(case.query, case.events))
    event(f"matches: {'none' if not found else '1 to 9' if found < 10 else '10 or more'}")
    return case


@areas
@given(st.data())
def test_in_order(area: str, data: st.DataObject) -> None:
    """Cut anywhere: after each batch all that is decided is reported, and nothing else."""
    case = draw(data, area)
    harness.assert_in_time(case.query, case.events, case.batch_sizes)


@areas
@some
@given(st.data())
def test_one_batch(area: str, data: st.DataObject) -> None:
    """The whole stream in one batch, and a flush."""
    case = draw(data, area)
    harness.assert_same(case.query, case.events, harness.rows(case.query, None, case.events), "one batch")


@areas
@some
@given(st.data())
def test_one_by_one(area: str, data: st.DataObject) -> None:
    """Events sent one by one."""
    case = draw(data, area)
    harness.assert_same(case.query, case.events, harness.rows_by_send(case.query, None, case.events), "one by one")


@areas
@some
@given(st.data())
def test_out_of_order(area: str, data: st.DataObject) -> None:
    """Out of order, with an allowed lateness: as on the sorted stream of what is not late."""
    case, arrivals, lateness = data.draw(disordered(policy_cases(area)), "case")
    accepted, _ = split(arrivals, lateness)
    engine = late_engine(case, lateness)
    found: list[harness.Row] = []
    for part in harness.batches(case.query.schema, arrivals, case.batch_sizes):
        found += harness.table_rows(case.query, engine.process(part).to_arrow())
    found += harness.table_rows(case.query, engine.flush().to_arrow())
    how = f"batches of {case.batch_sizes}, lateness {lateness}, arriving as {harness.line(arrivals)}"
    harness.assert_same(case.query, accepted, found, how)


@areas
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_timed_out(area: str, data: st.DataObject) -> None:
    """Partial matches that still wait when their window ends, wherever the stream is cut."""
    case = draw(data, area)
    # What waits for a trailing NEG is complete; what contiguity has cut off is refused.
    assume(trailing_negation(case.query.pattern) is None)
    assume(all(column.column != PREVIOUS for column in make_plan(case.query).columns))
    assume(all(None not in one.values.values() for one in case.events))  # a row that no key can meet is not held
    assume(is_planned(case.query, timed_out=True))
    assert_timed_out(case.query, case.events, case.batch_sizes)
