"""The simulation of instances: against queues whose course is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.engine.instance_pool import InstanceCounts, InstancePool
from fastcep.errors import ValidationError
from fastcep.parallel.adaptation.loop import AdaptationLoop
from fastcep.parallel.adaptation.options import Adaptation
from fastcep.parallel.adaptation.simulation import SharedQueue, Simulation, SlicedStream, Worker, simulate
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.queueing.trace import departures, share_within
from fastcep.parallel.splitter import Splitter
from fastcep.plan.slicing import Context

Floats = npt.NDArray[np.float64]


class Script:
    """Policy that asks for numbers at times, and records what it sees."""

    def __init__(self, pool: InstancePool, workers: Callable[[], Sequence[Worker]], numbers: dict[int, int]) -> None:
        self.pool, self.workers, self.numbers = pool, workers, numbers
        self.gaps: list[float] = []
        self.counts: dict[int, InstanceCounts] = {}
        self.names: dict[int, list[int]] = {}

    def arrived(self, gaps: Floats) -> None:
        self.gaps += gaps.tolist()

    def step(self, now: int) -> None:
        self.counts[now] = self.pool.counts()
        self.names[now] = [worker.number for worker in self.workers()]
        if now in self.numbers:
            self.pool.resize(self.numbers[now])


def scripted(arrivals: Floats, work: Floats, numbers: dict[int, int], **options: Any) -> Simulation:
    usual: dict[str, Any] = {"first": 1, "start_time": "5ns", "sample_every": "1ns", "step_every": "1ns"}
    division = options.pop("division", None) or SharedQueue(work)
    return simulate(arrivals, division, lambda pool, workers: Script(pool, workers, numbers), **usual | options)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 30))
def test_a_shared_queue_is_the_known_one(gaps: list[int], instances: int, service: int) -> None:
    """With a constant service time, events leave at the times of `departures`."""
    arrivals = np.cumsum(gaps).astype(np.float64) + 0.25
    found = scripted(arrivals, np.full(len(gaps), float(service)), {}, first=instances)
    leaves = departures(arrivals, float(service), instances)
    expected = [(arrivals <= time).sum() - (leaves <= time).sum() for time in found.times]
    assert found.queue.tolist() == expected
    assert set(found.instances) <= {instances}
    assert found.policy.gaps == pytest.approx(np.diff(arrivals, prepend=0.0)[: len(found.policy.gaps)])


def test_the_share_of_the_time_below_a_limit() -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(10.0, 3_000))
    found = scripted(arrivals, np.full(3_000, 25.0), {}, first=3)
    for limit in (2, 5, 9):
        expected = share_within(arrivals, 25.0, 3, limit)
        assert (found.queue <= limit).mean() == pytest.approx(expected, abs=0.005)
    assert found.percentile(0.9) == np.sort(found.queue)[int(np.ceil(0.9 * len(found.queue))) - 1]


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_an_event_of_a_sliced_stream_is_done_when_all_of_its_slices_are(instances: int) -> None:
    """The queue equals that of a direct computation, in which each instance works in the order of the events."""
    random = np.random.default_rng(4)
    times = np.cumsum(random.integers(1, 5, 400))
    work, context = random.uniform(0.2, 2.0, 400), Context(nanoseconds=15, events=0)
    found = scripted(
        times.astype(np.float64) + 0.25, work, {}, first=instances,
        division=SlicedStream(times, work, context, 20),
    )  # fmt: skip
    leaves, several = expected_departures(times, work, context, 20, instances)
    assert several > 50
    expected = [(times + 0.25 <= time).sum() - (leaves <= time).sum() for time in found.times]
    assert found.queue.tolist() == expected


def expected_departures(
    times: npt.NDArray[np.int64], work: Floats, context: Context, size: int, instances: int
) -> tuple[Floats, int]:
    """Return when the work for each event is done, and the number of events in two slices."""
    splitter, free = Splitter(context, size, size), [0.0] * instances
    jobs: list[list[float]] = [[] for _ in range(instances)]  # ends of the work of each
    of: dict[int, int] = {}
    leaves, several = np.zeros(len(times)), 0
    for event, time in enumerate(times + 0.25):
        parts = 0
        for feed in splitter.split(times[event : event + 1]):
            number = feed.slice.number
            if number not in of:
                open_ = list(of.values())
                of[number] = min(range(instances), key=lambda one: (sum(end > time for end in jobs[one]),
                                                                    open_.count(one)))  # fmt: skip
            one = of[number]
            if feed.last > feed.first:
                parts += 1
                free[one] = max(free[one], time) + work[event]
                jobs[one].append(free[one])
                leaves[event] = max(leaves[event], free[one])
            if feed.ends:
                del of[number]
        several += parts > 1
    return leaves, several


def test_a_new_instance_takes_time_to_start() -> None:
    found = scripted(np.arange(30.0), np.full(30, 0.1), {3: 4}, start_time="6ns")
    counts = found.policy.counts
    assert counts[3] == InstanceCounts(1)
    assert counts[4] == counts[8] == InstanceCounts(1, 3)
    assert counts[9] == InstanceCounts(4)
    assert found.instances[found.times == 8] == [1]
    assert found.alive[found.times == 8] == [4]


def test_instances_that_start_are_cancelled_first() -> None:
    found = scripted(np.arange(30.0), np.full(30, 0.1), {3: 4, 5: 2, 6: 1, 7: 3}, start_time="6ns")
    counts = found.policy.counts
    assert counts[6] == InstanceCounts(1, 1)
    assert counts[7] == InstanceCounts(1, 0)
    assert counts[9] == InstanceCounts(1, 2), "the cancelled ones do not come"
    assert counts[13] == InstanceCounts(3)
    assert found.policy.names[13] == [0, 1, 2]


def test_an_instance_that_leaves_finishes_its_work() -> None:
    """It works on its event until time 20, and is used again before."""
    arrivals = np.array([0.5, 0.5, 30.0])
    found = scripted(arrivals, np.full(3, 20.0), {3: 1}, first=2)
    assert found.policy.counts[4] == InstanceCounts(1, 0, 1)
    assert found.policy.counts[20] == InstanceCounts(1, 0, 1)
    assert found.policy.counts[22] == InstanceCounts(1)
    again = scripted(arrivals, np.full(3, 20.0), {3: 1, 10: 2}, first=2)
    assert again.policy.counts[11] == again.policy.counts[22] == InstanceCounts(2)
    assert again.policy.names[22] == [0, 1]


def test_an_instance_that_leaves_runs_its_slices_to_their_end() -> None:
    times = np.arange(1, 101)
    found = scripted(
        times.astype(np.float64), np.full(100, 0.1), {30: 1}, first=2,
        division=SlicedStream(times, np.full(100, 0.1), Context(nanoseconds=4, events=0), 20),
    )  # fmt: skip
    leaving = [time for time, counts in found.policy.counts.items() if counts.leaving]
    assert all(counts.ready >= 1 for counts in found.policy.counts.values())
    assert found.policy.counts[99] == InstanceCounts(1)
    assert len(leaving) < 30


def test_events_that_are_not_counted() -> None:
    """The policy gets the gaps between those that are."""
    counted = np.array([True, False, False, True, True, True])
    found = scripted(np.array([1.0, 2, 3, 5, 6, 9]), np.full(6, 0.1), {}, counted=counted)
    assert found.policy.gaps == [1, 4, 1, 3]


def test_a_stream_that_is_shorter_than_an_interval() -> None:
    for arrivals in (np.array([1.0, 2.0]), np.empty(0)):
        found = scripted(arrivals, np.full(2, 0.1), {}, sample_every="10ns")
        assert (len(found.times), found.queue.dtype) == (0, np.int64)


@pytest.mark.parametrize(
    ("arrivals", "options", "message"),
    [
        (np.array([2.0, 1.0]), {}, "arrivals: expected times in ns in one dimension, ascending from 0 on"),
        (np.array([-1.0, 1.0]), {}, "arrivals: expected times"),
        (np.array([1.0, np.nan]), {}, "arrivals: expected times"),
        (np.ones((2, 2)), {}, "arrivals: expected times"),
        (np.ones(2), {"counted": np.ones(3, bool)}, "counted: 3 flags for 2 arrivals; give one for each"),
        (np.ones(2), {"first": 0}, "first=0: expected a whole number, at least 1"),
        (np.ones(2), {"start_time": 5}, "start_time=5: a duration cannot be of type int"),
        (np.ones(2), {"sample_every": "0s"}, "sample_every='0s': expected more than 0"),
        (np.ones(2), {"step_every": "0s"}, "step_every='0s': expected more than 0"),
    ],
)
def test_wrong_arguments(arrivals: Floats, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scripted(arrivals, np.ones(4), {}, **options)


def test_the_loop_in_a_simulation() -> None:
    """The rate doubles and falls again: the number of instances follows, and the queue stays below its limit then."""
    random = np.random.default_rng(2)
    gaps = np.concatenate([random.exponential(1e9 / rate, 40 * rate) for rate in (20, 60, 20)])
    options = Adaptation(15, most=20, samples=200, interval="2s", horizon="4s", forecast="naive", initial=4)

    def policy(pool: InstancePool, _: object) -> AdaptationLoop:
        return AdaptationLoop(pool, lambda _: Deterministic(1e8), options, 0)

    found = simulate(
        np.cumsum(gaps), SharedQueue(np.full(len(gaps), 1e8)), policy, first=4, start_time="3s", sample_every="100ms"
    )
    seconds = found.times / 1e9
    low, high = found.instances[seconds < 35], found.instances[(seconds > 55) & (seconds < 75)]
    assert high.min() > low.max() >= 3
    assert found.instances[-1] < high.min()
    assert np.quantile(found.queue[(seconds > 65) & (seconds < 78)], 0.95) <= 15
    assert np.quantile(found.queue[seconds > 95], 0.95) <= 15
    assert isinstance(found.policy, AdaptationLoop)
