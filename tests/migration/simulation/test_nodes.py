"""The four nodes of the simulation: events before, during and after a migration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration.solvers import some_states

import fastcep as fc
from fastcep.migration import States, simulate
from fastcep.migration.simulation.nodes import Nodes, Timing, Traffic

STATES = States([1_000] * 10, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1])  # 1 s in all at 10 kB/s
SECOND = 10**9


def flow(states: States = STATES, **options: Any) -> fc.migration.EventFlow:
    found = simulate(states, "greedy", **({"bandwidth": 10_000, "event_rate": 10, "event_size": 1} | options))
    assert found.events is not None
    return found.events


@given(
    some_states(), st.integers(0, 12), st.integers(0, 40), st.none() | st.integers(0, 400), st.integers(0, 30),
    st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.booleans(),
)  # fmt: skip
def test_every_event_has_one_output_unless_the_old_host_is_lost(
    drawn: tuple[States, int], selected: int, delay: int, limit: int | None, resume: int, more: int, sending: int,
    service: int, parallel: bool,
) -> None:  # fmt: skip
    sizes = drawn[0].size % 30 + 1
    selected = min(selected, len(sizes))
    timing = Timing(delay * SECOND, None if limit is None else limit * SECOND, resume * SECOND)
    interval = max(sending, service) + more
    traffic = Traffic(interval * SECOND, sending * SECOND, service * SECOND, parallel)
    alone, nodes = Nodes(sizes, selected, timing).run(), Nodes(sizes, selected, timing, traffic).run()
    assert nodes.arrivals == alone.arrivals, "the events do not delay the states"
    sent = [sum(sizes[: k + 1].tolist()) * SECOND + timing.delay for k in range(len(sizes))]
    assert nodes.arrivals == [time for time in sent if limit is None or time <= limit * SECOND]
    numbers = sorted({*nodes.by_old, *(number for number, _ in nodes.worked)})
    assert nodes.outputs == sorted(nodes.outputs) and len(set(nodes.by_old)) == len(nodes.by_old)
    if numbers:
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no event is left out"
        assert len(nodes.outputs) <= numbers[-1] + 1, "an event has one output"
    assert [number for number, _ in nodes.worked] == sorted(number for number, _ in nodes.worked)
    if limit is not None and delay > limit:
        assert nodes.resumed is None and not nodes.worked
        return
    planned = timing.delay if selected == 0 else sent[selected - 1]
    ready = planned if limit is None else min(planned, limit * SECOND + 1)
    assert nodes.resumed == ready + timing.resume
    assert nodes.caught_up is not None and nodes.caught_up >= nodes.resumed
    assert nodes.worked[0][1] >= nodes.resumed + traffic.service if nodes.worked else True
    assert bool(nodes.by_old) <= parallel
    if limit is None and parallel and sending <= service:  # otherwise outputs of buffered events wait
        longest = (interval + sending) * SECOND
        assert max(np.diff(nodes.outputs), default=0) <= longest, "the parallel track never stops"


def test_the_single_track_stops_and_buffers() -> None:
    found = flow(resume="300ms")
    assert found.resumed == pytest.approx(1.0e9) and found.normal_gap == 1e8
    # the plan leaves 300 ms to the new host: 7 states are selected, and it works after 1 s
    assert found.freeze == pytest.approx(1.0e9, abs=1e8) and found.most_buffered in (10, 11)
    assert found.caught_up == pytest.approx(found.resumed, abs=1e8), "an event takes no time"
    assert found.by_old == 0 and found.by_new >= 10
    assert found.output_share == 1.0, "the other states arrive while the new host resumes"


def test_the_parallel_track_goes_on() -> None:
    found = flow(track="parallel", service="20ms")
    assert found.freeze == pytest.approx(found.normal_gap) and found.output_share == 1.0
    assert found.resumed == pytest.approx(1e9) and found.by_old >= 10
    assert found.caught_up == pytest.approx(1e9 + 10 * 20e6 / 0.8, abs=1e8), "10 events at 20 ms, while others arrive"


def test_a_lost_host() -> None:
    single, parallel = (flow(deadline="450ms", track=track, service="50ms") for track in ("single", "parallel"))
    # 4 of 10 states are selected, with 34 of 55 of the utility
    assert single.resumed == parallel.resumed == pytest.approx(0.4e9)
    assert single.by_new > parallel.by_new and single.output_share == pytest.approx(34 / 55, abs=0.01)
    assert single.output_share < parallel.output_share < 1 and parallel.by_old == pytest.approx(4, abs=1)
    lost = flow(deadline="1ms", latency="2ms")
    assert (lost.freeze, lost.resumed, lost.caught_up, lost.output_share) == (np.inf, None, None, 0.0)


def test_a_deadline_in_the_middle_of_the_plan_lets_the_new_host_continue() -> None:
    nodes = Nodes(np.array([10, 10]), 2, Timing(0, 15 * SECOND), Traffic(SECOND, 0, 0, False)).run()
    assert nodes.arrivals == [10 * SECOND] and nodes.resumed == 15 * SECOND + 1


def test_without_states() -> None:
    found = flow(States([], []), latency="5ms")
    assert found.resumed == 5e6 and found.output_share == 1.0
    assert flow(States([1], [0]), deadline="1s").output_share == 1.0, "no utility is lost"


def test_the_buffer_over_time() -> None:
    found = flow()
    assert len(found.buffer_times) == len(found.buffer_sizes) and (np.diff(found.buffer_times) >= 0).all()
    assert found.buffer_sizes.max() == found.most_buffered and found.buffer_sizes[-1] <= 1
    growing = found.buffer_sizes[: int(found.buffer_sizes.argmax()) + 1]
    assert (np.diff(growing) == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_rate": 0}, "event_rate=0: expected a number of events per second above 0"),
        ({"event_rate": float("nan")}, "event_rate=nan: expected a number"),
        ({"event_rate": "10"}, "event_rate='10': expected a number"),
        ({"event_rate": 1e9, "event_size": 1}, "event_size=1: takes .* of the time at 1e.09 events per second"),
        ({"event_size": "2kB"}, r"event_size='2kB': takes 200% of the time at 10 events per second"),
        ({"event_size": 0}, "event_size=0: 0 is no size"),
        ({"service": "100ms"}, r"service='100ms': takes 100% of the time .*: shorten the time of an event, or lower"),
        ({"service": "soon"}, "service='soon': 'soon' is no duration"),
        ({"track": "both"}, "track='both': expected single or parallel"),
        ({"deadline": "90000h"}, "event_rate=10: about 3,240,000,000 events .*; expected at most 1,000,000: lower the"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        flow(**options)
