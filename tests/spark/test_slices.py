"""Slices, put together, find what one engine finds, in its order: random queries, streams and cuts, without Spark."""

from __future__ import annotations

import harness
import pytest
import sliced
import strategies
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from policy_strategies import policy_cases
from strategies import Case

from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.spark.place import Cut
from fastcep.spark.slices import time_cut

often_refused = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def check_time(case: Case, data: st.DataObject) -> None:
    first, last = (case.events[0].time, case.events[-1].time) if case.events else (0, 0)
    context = slicing_of(make_plan(case.query), last - first).time
    assume(isinstance(context, Context))
    assert isinstance(context, Context)
    parts = data.draw(st.lists(st.integers(first - 1, last), max_size=9).map(sorted), "parts")
    numbered = case.query.schema.sequence is not None
    cut = time_cut(parts, data.draw(st.integers(1, 6), "wanted"), context, counted=not numbered)
    if cut.edges:
        cut = cut.placed(sliced.counts(case.events, cut))
    table = sliced.detected(case.query, case.events, Cut(cut.slices, cut), numbered=numbered)
    found = harness.table_rows(case.query, table)
    event(f"slices: {len(cut.slices)}, matches: {bool(found)}")
    harness.assert_same(case.query, case.events, found, f"cut at {[piece.start for piece in cut.slices]}")


def check_key(case: Case, data: st.DataObject) -> None:
    assume(isinstance(slicing_of(make_plan(case.query)).key, KeyPlan))
    first, last = (case.events[0].time, case.events[-1].time) if case.events else (0, 0)
    parts = data.draw(st.lists(st.integers(first - 1, last + 2), max_size=5).map(sorted), "parts")
    cut, route = sliced.by_key(case.query, case.events, data.draw(st.integers(1, 4), "wanted"), parts)
    table = sliced.detected(case.query, case.events, cut, route, numbered=True)
    found = harness.table_rows(case.query, table)
    event(f"slices: {len(cut.slices)}, by time: {cut.time is not None}, matches: {bool(found)}")
    harness.assert_same(case.query, case.events, found, f"cut by key into {len(cut.slices)}")


@given(strategies.cases(), st.data())
def test_by_time(case: Case, data: st.DataObject) -> None:
    check_time(case, data)


@pytest.mark.parametrize("area", ["windows", "selection", "everything"])
@often_refused
@given(st.data())
def test_by_time_policies(area: str, data: st.DataObject) -> None:
    check_time(data.draw(policy_cases(area), "case"), data)


@often_refused
@given(strategies.cases(), st.data())
def test_by_key(case: Case, data: st.DataObject) -> None:
    check_key(case, data)


@pytest.mark.parametrize("area", ["strategies", "after match"])
@often_refused
@given(st.data())
def test_by_key_policies(area: str, data: st.DataObject) -> None:
    check_key(data.draw(policy_cases(area), "case"), data)
