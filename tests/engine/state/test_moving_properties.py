"""State that moves anywhere in a stream changes nothing: all operators, policies and windows; whole and by group."""

from __future__ import annotations

import dataclasses
from typing import Any

import harness
import pytest
import strategies
from disorder import disordered
from hypothesis import assume, event, given
from hypothesis import strategies as st
from moving import assert_unmoved, is_keyed, quiet
from moving_cases import ALLOWED, areas, few, fewer, fits_one_table, keyed, some
from naive import Event
from pattern_strategies import Draw
from policy_strategies import is_planned, policy_cases
from strategies import Case

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.plan.ir import PREVIOUS


@st.composite
def moving_cases(draw: Draw, cases: st.SearchStrategy[Case]) -> Case:
    """A case, mostly keyed."""
    case = draw(cases)
    return keyed(case) if draw(st.sampled_from([True, True, False])) else case


def travel(data: st.DataObject, case: Case, events: list[Event], **options: Any) -> None:
    """Compare two engines, of which one moves."""
    engines = [quiet(fc.Engine, case.query, **options) for _ in range(2)]
    event(f"keyed: {is_keyed(engines[0])}")
    random = data.draw(st.randoms(use_true_random=False), "moves")
    sizes = data.draw(st.sampled_from([case.batch_sizes, [1]]), "batch sizes")
    how = f"{case!r}\nsizes {sizes}, {options}, arriving as {harness.line(events)}"
    batches = harness.batches(case.query.schema, events, sizes)
    assert_unmoved(*engines, batches, random.randrange, how)


@areas
@some
@given(st.data())
def test_policies(area: str, data: st.DataObject) -> None:
    """Windows, strategies, selection and consumption."""
    case = data.draw(moving_cases(policy_cases(area)), "case")
    assume(is_planned(case.query))
    travel(data, case, case.events)


@pytest.mark.parametrize(("outer", "inner"), ALLOWED)
@few
@given(st.data())
def test_operators(outer: str, inner: str, data: st.DataObject) -> None:
    """Every operator in every other."""
    case = data.draw(moving_cases(strategies.operator_cases(outer, inner)), "case")
    travel(data, case, case.events)


@some
@given(st.data())
def test_conditions(data: st.DataObject) -> None:
    """Any conditions and RETURN."""
    case = data.draw(moving_cases(strategies.cases()), "case")
    travel(data, case, case.events)


@areas
@fewer
@given(st.data())
def test_out_of_order(area: str, data: st.DataObject) -> None:
    """With events held back, and late ones."""
    case, arrivals, lateness = data.draw(disordered(moving_cases(policy_cases(area))), "case")
    assume(is_planned(case.query))
    travel(data, case, arrivals, allowed_lateness=f"{lateness}ns")


@areas
@fewer
@given(st.data())
def test_timed_out(area: str, data: st.DataObject) -> None:
    """With partial matches that time out as an output."""
    case = data.draw(moving_cases(policy_cases(area)), "case")
    assume(is_planned(case.query, timed_out=True))
    assume(all(column.column != PREVIOUS for column in make_plan(case.query).columns))
    travel(data, case, case.events, timed_out=True)


@fewer
@given(st.data())
def test_several_queries(data: st.DataObject) -> None:
    """Two queries over one stream, which share their filters."""
    case = data.draw(moving_cases(policy_cases()), "case")
    schema = case.query.schema
    other = data.draw(strategies.queries(schema, strategies.windows()), "other")
    pair = [case.query, dataclasses.replace(other, name="other", returns=())]
    engines = [quiet(fc.Engine, pair) for _ in range(2)]
    assume(fits_one_table(pair))
    random = data.draw(st.randoms(use_true_random=False), "moves")
    batches = harness.batches(schema, case.events, case.batch_sizes)
    assert_unmoved(*engines, batches, random.randrange, repr(case))
