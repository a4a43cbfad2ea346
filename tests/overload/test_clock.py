"""Clocks; the virtual clock is compared with a plain loop."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import SnapshotError, ValidationError
from fastcep.overload.clock import LATEST, VirtualClock, WallClock
from fastcep.overload.costs import CostTable

PAPER = CostTable.named("paper")


def ints(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


def loop(time: int, costs: list[int], arrivals: list[int] | None) -> tuple[int, list[int]]:
    """Return the completion time (ps) of the last event, and the picoseconds since the arrival of each event."""
    latencies = []
    for k, cost in enumerate(costs):
        arrival = time if arrivals is None else arrivals[k] * 1000
        time = max(arrival, time) + cost
        latencies.append(time - arrival)
    return time, latencies


EVENTS = st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 100), st.booleans()), max_size=30)
FAR = st.sampled_from([0, LATEST - 10_000])


@given(EVENTS, st.booleans(), st.booleans(), FAR, st.lists(st.integers(1, 10), max_size=10), st.integers(0, 10**5))
def test_as_a_loop(
    events: list[tuple[int, int, bool]], queued: bool, sort: bool, begin: int, cuts: list[int], spent: int
) -> None:
    """Any division into blocks, with a decision after each; also near the end of the clock's range."""
    costs = [cost for cost, _, _ in events]
    arrivals = [begin + gap for _, gap, _ in events]
    if sort:
        arrivals.sort()
    clock, time, start = VirtualClock(PAPER), 0, 0
    for size in [*cuts, len(events)]:
        part = slice(start, start + size)
        given_arrivals = arrivals[part] if queued else None
        processing, event = clock.run(ints(costs[part]), ints(given_arrivals) if given_arrivals is not None else None)
        time, latencies = loop(time, costs[part], given_arrivals)
        assert processing.tolist() == [cost / 1000 for cost in costs[part]]
        assert event.tolist() == [latency / 1000 for latency in latencies]
        assert (processing.dtype, event.dtype) == (np.float64, np.float64)
        clock.spend(spent)
        time += spent
        assert (clock.picoseconds, clock.now()) == (time, time // 1000)
        start += size


def test_a_queue_builds_up_and_empties() -> None:
    clock = VirtualClock(PAPER)
    processing, event = clock.run(ints([2_000, 2_000, 2_000, 500]), ints([10, 10, 11, 100]))
    assert processing.tolist() == [2.0, 2.0, 2.0, 0.5]
    assert event.tolist() == [2.0, 4.0, 5.0, 0.5]
    assert (clock.picoseconds, clock.now()) == (100_500, 100)


def test_without_arrivals_nothing_waits() -> None:
    clock = VirtualClock(PAPER)
    clock.spend(700)
    processing, event = clock.run(ints([1, 0, 3]))
    assert processing.tolist() == event.tolist() == [0.001, 0.0, 0.003]
    assert processing is not event
    assert clock.picoseconds == 704


def test_no_events_take_no_time() -> None:
    clock = VirtualClock(PAPER)
    for arrivals in (None, ints([])):
        assert [len(found) for found in clock.run(ints([]), arrivals)] == [0, 0]
    assert clock.now() == 0


def test_the_clock_ends_after_106_days() -> None:
    clock = VirtualClock(PAPER)
    assert LATEST // (24 * 3600 * 10**9) == 106
    clock.spend(LATEST * 1000 - 5_000)
    for call in (
        lambda: clock.run(ints([1_000, 5_000])),
        lambda: clock.run(ints([2**62, 2**62, 2**62])),
        lambda: clock.run(ints([1]), ints([LATEST])),
        lambda: clock.run(ints([1]), ints([1_700_000_000 * 10**9])),
        lambda: clock.spend(5_001),
    ):
        with pytest.raises(ValidationError, match="a virtual clock ends after 106 days"):
            call()
        assert clock.picoseconds == LATEST * 1000 - 5_000
    assert clock.run(ints([5_000]), ints([0]))[1] == pytest.approx([LATEST])
    assert clock.now() == LATEST


@pytest.mark.parametrize(
    ("costs", "arrivals", "message"),
    [
        (ints([1, -1]), None, "costs holds -1, expected no negative value"),
        (ints([1]), ints([-5]), "arrivals holds -5, expected no negative value"),
        (ints([1, 2]), ints([1]), "arrivals has 1 values, expected one per cost: 2"),
        (np.array([1.0]), None, r"costs is float64\[1\], expected an array int64\[n\]"),
        ([1], None, r"costs is list, expected an array int64\[n\]"),
        (ints([1]), np.array([[1]]), r"arrivals is int64\[1, 1\], expected an array"),
    ],
)
def test_wrong_arrays_are_refused(costs: Any, arrivals: Any, message: str) -> None:
    clock = VirtualClock(PAPER)
    with pytest.raises(ValidationError, match=message):
        clock.run(costs, arrivals)
    with pytest.raises(ValidationError, match="cannot spend -1 ps"):
        clock.spend(-1)
    assert clock.picoseconds == 0


def test_state() -> None:
    clock = VirtualClock(PAPER)
    clock.run(ints([1_234_567]))
    state = json.loads(json.dumps(clock.state()))
    other = VirtualClock(CostTable("the same numbers", visited=1, created=1))
    other.restore(state)
    assert other.picoseconds == 1_234_567
    for wrong, message in (
        (state | {"table": "0"}, "has the cost table '0', expected"),
        (state | {"picoseconds": -1}, "has picoseconds=-1"),
        ({}, "has picoseconds=None"),
    ):
        with pytest.raises(SnapshotError, match=message):
            other.restore(wrong)
        assert other.picoseconds == 1_234_567
    with pytest.raises(SnapshotError, match="restore it with the table that it was taken with"):
        VirtualClock(CostTable.named("measured")).restore(state)


def test_wall_clock() -> None:
    times = iter([5, 7])
    clock = WallClock(lambda: next(times))
    assert (clock.now(), clock.now()) == (5, 7)
    real = WallClock()
    assert 0 < real.now() <= real.now()


def test_a_wall_clock_stands_still() -> None:
    now = 100
    clock = WallClock(lambda: now)
    assert clock.now() == 100
    with clock.paused():
        now = 250
        assert clock.now() == 100
    assert clock.now() == 100
    now = 300
    assert clock.now() == 150
    with pytest.raises(ZeroDivisionError), clock.paused():
        now = 1_000
        raise ZeroDivisionError
    now = 1_001
    assert clock.now() == 151
