"""Several threads find what one finds, in its order, and count what it counts, wherever the state moves meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import harness
import pytest
import strategies
from disorder import disordered
from hypothesis import assume, event, given
from hypothesis import strategies as st
from moving import COUNTERS, assert_unmoved, is_keyed, quiet
from moving_cases import ALLOWED, areas, few_threaded, fits_one_table, keyed, some_threaded
from naive import Event
from policy_strategies import is_planned, policy_cases
from strategies import Case

import fastcep as fc
from fastcep.engine import parted, rounds
from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.plan.ir import PREVIOUS

#: A peak is one of all parts together only if they have it at the same event.
SAME = tuple(name for name in COUNTERS if name != "peak_partial_matches")


@contextmanager
def split(at_once: bool) -> Iterator[None]:
    """Let threads share every batch, however small, or none."""
    least = 1 if at_once else 1 << 60
    with patch.object(rounds, "PARALLEL_FROM", least), patch.object(parted, "PARALLEL_MATCHES", least):
        yield


def compare(data: st.DataObject, case: Case, events: list[Event], queries: Any, **options: Any) -> None:
    """Run one thread beside several, whose number changes whenever the engine is restored."""
    threads = data.draw(st.sampled_from([2, 3]), "threads")
    at_once = data.draw(st.sampled_from([False, False, True]), "at once")
    engine = quiet(fc.Engine, queries, **options)
    other = quiet(fc.Engine, queries, threads=threads, **options)
    random = data.draw(st.randoms(use_true_random=False), "moves")
    sizes = data.draw(st.sampled_from([case.batch_sizes, [1]]), "batch sizes")
    how = f"{case!r}\nsizes {sizes}, {threads} threads, {options}, arriving as {harness.line(events)}"
    batches = harness.batches(case.query.schema, events, sizes)

    def restored() -> dict[str, Any]:
        return {"threads": random.choice([1, 2, 3])}

    with split(at_once):
        assert_unmoved(engine, other, batches, random.randrange, how, restored, SAME)


def compare_one(data: st.DataObject, case: Case, events: list[Event], **options: Any) -> None:
    """Of one query, if it is keyed."""
    assume(is_keyed(quiet(fc.Engine, case.query)))
    event("keyed")
    compare(data, case, events, case.query, **options)


@areas
@some_threaded
@given(st.data())
def test_policies(area: str, data: st.DataObject) -> None:
    case = keyed(data.draw(policy_cases(area), "case"))
    assume(is_planned(case.query))
    compare_one(data, case, case.events)


@pytest.mark.parametrize(("outer", "inner"), ALLOWED)
@few_threaded
@given(st.data())
def test_operators(outer: str, inner: str, data: st.DataObject) -> None:
    case = keyed(data.draw(strategies.operator_cases(outer, inner), "case"))
    compare_one(data, case, case.events)


@some_threaded
@given(st.data())
def test_conditions(data: st.DataObject) -> None:
    case = keyed(data.draw(strategies.cases(), "case"))
    compare_one(data, case, case.events)


@areas
@some_threaded
@given(st.data())
def test_out_of_order(area: str, data: st.DataObject) -> None:
    case, arrivals, lateness = data.draw(disordered(policy_cases(area).map(keyed)), "case")
    assume(is_planned(case.query))
    compare_one(data, case, arrivals, allowed_lateness=f"{lateness}ns")


@areas
@some_threaded
@given(st.data())
def test_timed_out(area: str, data: st.DataObject) -> None:
    case = keyed(data.draw(policy_cases(area), "case"))
    assume(is_planned(case.query, timed_out=True))
    assume(all(column.column != PREVIOUS for column in make_plan(case.query).columns))
    compare_one(data, case, case.events, timed_out=True)


@some_threaded
@given(st.data())
def test_several_queries(data: st.DataObject) -> None:
    case = keyed(data.draw(policy_cases(), "case"))
    other = data.draw(strategies.queries(case.query.schema, strategies.windows()), "other")
    pair = [case.query, dataclasses.replace(other, name="other", returns=())]
    try:
        assume(fits_one_table(pair))
    except ValidationError:
        assume(False)
    compare(data, case, case.events, pair)
