"""Several threads have the counters of one, wherever the state moves meanwhile; the matrix compares the matches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import assume, event, given
from hypothesis import strategies as st
from reference.matcher import Event
from strategies import queries as strategies
from strategies.moving_cases import fits_one_table, keyed, some_threaded
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.state_transfer import COUNTERS, assert_unmoved, is_keyed, quiet

import fastcep as fc
from fastcep.engine import parallel_match, partitioned_matcher
from fastcep.errors import ValidationError

#: The sum of the parts' peaks is a peak only if all parts reach theirs at the same event.
SAME = tuple(name for name in COUNTERS if name != "peak_partial_matches")


@contextmanager
def split(at_once: bool) -> Iterator[None]:
    """Let threads share every batch, however small, or none."""
    least = 1 if at_once else 1 << 60
    with (
        patch.object(parallel_match, "PARALLEL_FROM", least),
        patch.object(partitioned_matcher, "PARALLEL_MATCHES", least),
    ):
        yield


def compare(data: st.DataObject, case: Case, events: list[Event], queries: Any, **options: Any) -> None:
    """Compare one thread with several, whose number changes whenever the engine is restored."""
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
    """Compare for one query, if it is keyed."""
    assume(is_keyed(quiet(fc.Engine, case.query)))
    event("keyed")
    compare(data, case, events, case.query, **options)


@some_threaded
@given(st.data())
def test_one_query(data: st.DataObject) -> None:
    case = keyed(data.draw(query_cases(), "case"))
    assume(is_planned(case.query))
    compare_one(data, case, case.events)


@some_threaded
@given(st.data())
def test_several_queries(data: st.DataObject) -> None:
    case = keyed(data.draw(query_cases(), "case"))
    other = data.draw(strategies.queries(case.query.schema, strategies.windows()), "other")
    pair = [case.query, dataclasses.replace(other, name="other", returns=())]
    try:
        assume(fits_one_table(pair))
    except ValidationError:
        assume(False)
    compare(data, case, case.events, pair)
