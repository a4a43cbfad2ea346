"""Moving state anywhere in a stream does not change the counters; the matrix compares the matches."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st
from reference.matcher import Event
from strategies import queries as strategies
from strategies.moving_cases import fewer, fits_one_table, keyed, some
from strategies.patterns import Draw
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.state_transfer import assert_unmoved, is_keyed, quiet

import fastcep as fc


@st.composite
def moving_cases(draw: Draw, cases: st.SearchStrategy[Case]) -> Case:
    """Draw a case, mostly with a key."""
    case = draw(cases)
    return keyed(case) if draw(st.sampled_from([True, True, False])) else case


def travel(data: st.DataObject, case: Case, events: list[Event], **options: Any) -> None:
    """Compare two engines, of which the state of one moves."""
    engines = [quiet(fc.Engine, case.query, **options) for _ in range(2)]
    event(f"keyed: {is_keyed(engines[0])}")
    random = data.draw(st.randoms(use_true_random=False), "moves")
    sizes = data.draw(st.sampled_from([case.batch_sizes, [1]]), "batch sizes")
    how = f"{case!r}\nsizes {sizes}, {options}, arriving as {harness.line(events)}"
    batches = harness.batches(case.query.schema, events, sizes)
    assert_unmoved(*engines, batches, random.randrange, how)


@some
@given(st.data())
def test_one_query(data: st.DataObject) -> None:
    case = data.draw(moving_cases(query_cases()), "case")
    assume(is_planned(case.query))
    travel(data, case, case.events)


@fewer
@given(st.data())
def test_several_queries(data: st.DataObject) -> None:
    """Two queries over one stream, which share their filters."""
    case = data.draw(moving_cases(query_cases()), "case")
    schema = case.query.schema
    other = data.draw(strategies.queries(schema, strategies.windows()), "other")
    pair = [case.query, dataclasses.replace(other, name="other", returns=())]
    engines = [quiet(fc.Engine, pair) for _ in range(2)]
    assume(fits_one_table(pair))
    random = data.draw(st.randoms(use_true_random=False), "moves")
    batches = harness.batches(schema, case.events, case.batch_sizes)
    assert_unmoved(*engines, batches, random.randrange, repr(case))
