"""The two halves of the reference matcher agree: the declarative search and the runs."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from matrix.queries import whole_queries
from strategies.patterns import Draw, most_events
from strategies.queries import Case
from strategies.streams import schemas, streams
from support import harness

from reference import matcher as naive

few = settings(max_examples=max(1, settings().max_examples // 2))


@st.composite
def trees(draw: Draw) -> Case:
    """Draw a query and a stream."""
    query = draw(whole_queries(draw(schemas()))).query
    return Case(query, "", draw(streams(query.schema, most_events(query.pattern))), [1])


@given(st.data())
def test_the_halves_agree(data: st.DataObject) -> None:
    """Check both where both apply; elsewhere just run the second one."""
    case = data.draw(trees())
    query, events = case.query, case.events
    followed = naive.find_matches(query, events, by_runs=True)
    if not naive.needs_runs(query):
        assert naive.find_matches(query, events, by_runs=False) == followed, harness.describe(query, events)


@few
@given(st.data())
def test_what_is_followed_is_a_match(data: st.DataObject) -> None:
    """Check that, whatever the strategy, followed matches are among those without skipping or consumption."""
    case = data.draw(trees())
    query, events = case.query, case.events
    plain: dict[str, Any] = {"select": "each", "consume": "zero", "after_match": "no skip", "limit": None}
    strategy = "skip_till_any" if query.strategy == "skip_till_next" else query.strategy
    everything = naive.find_matches(dataclasses.replace(query, strategy=strategy, **plain), events)
    there = [(match.window_id, match.detected_at, bound_events(match)) for match in everything]
    for match in naive.find_matches(dataclasses.replace(query, **plain), events):
        found = match.window_id, match.detected_at, bound_events(match)
        assert found in there, (match, harness.describe(query, events))


def bound_events(match: naive.Match) -> list[int]:
    """Return the sequence numbers of all events. (For a set of events of an ANY another match may represent it.)"""
    bindings = [one if isinstance(one, list) else [one] for one in match.bindings.values()]
    return sorted(number for one in bindings for number in one if number is not None)


@few
@given(st.data())
def test_what_times_out_waits_for_something(data: st.DataObject) -> None:
    case = data.draw(trees())
    query, events = case.query, case.events
    late = naive.timed_out(query, events)
    assert [one.timed_out_at for one in late] == sorted(one.timed_out_at for one in late)
    assert all(one.bound and one.waits_for for one in late), harness.describe(query, events)
