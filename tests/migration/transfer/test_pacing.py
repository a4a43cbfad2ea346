"""Bandwidth, window and choice of states on a simulated link."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.migration import States, plan, scenario
from fastcep.migration.transfer.pacing import Meter
from fastcep.migration.transfer.schedule import Schedule


@dataclass
class SimulatedLink:
    """Bytes leave one after another at a rate, which may depend on the time, and take a time to arrive."""

    rate: Callable[[float], float]
    delay: float
    now: float = 0.0
    free: float = 0.0
    acknowledgements: deque[tuple[float, int]] = field(default_factory=deque)
    sent: int = 0

    def send(self, count: int) -> float:
        """Send a frame; return the time of its arrival."""
        self.free = max(self.free, self.now)
        self.free += count / self.rate(self.free)
        self.sent += count
        self.acknowledgements.append((self.free + 2 * self.delay, self.sent))
        return self.free + self.delay

    def wait(self, meter: Meter) -> None:
        """Wait for the next acknowledgement."""
        self.now, total = self.acknowledgements.popleft()
        meter.acknowledge(self.now, total)


def transferred(
    states: States, link: SimulatedLink, deadline: float | None, bandwidth: float | None = None, method: str = "auto",
    *, overrun: bool = False,
) -> tuple[dict[int, float], Schedule, Meter]:
    """Send states as `OldHost` does; return the time of arrival of each."""
    meter = Meter(2 * link.delay, bandwidth)
    if bandwidth is None and deadline is not None:
        left = min(65_536, states.total_size // 16)
        while left > 0 and not meter.is_sound:
            size = min(left, 512)
            while meter.sent + size > 3072 + 2 * meter.acknowledged:
                link.wait(meter)
            meter.send(link.now, size)
            link.send(size)
            left -= size
        while meter.outstanding and not meter.is_sound:
            link.wait(meter)
    schedule = Schedule(states, meter, method=method, deadline=deadline, overrun=overrun)
    arrivals = {}
    while True:
        while not schedule.can_send(link.now, max(1024, meter.frame)):
            link.wait(meter)
        numbers = schedule.next(link.now)
        if not len(numbers):
            if not meter.outstanding:
                break
            link.wait(meter)
            continue
        left = int(states.size[numbers].sum())
        while left:
            size = min(left, max(1024, meter.frame))
            while not meter.has_room(size, schedule.slack(link.now)):
                link.wait(meter)
            meter.send(link.now, size)
            arrival = link.send(size)
            left -= size
        arrivals |= dict.fromkeys(numbers.tolist(), arrival)
    return arrivals, schedule, meter


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.05])
@pytest.mark.parametrize("rate", [1e5, 1e6, 1e8])
def test_the_bandwidth_is_measured_and_used(delay: float, rate: float) -> None:
    states = States(np.full(20_000, int(rate / 10_000)), np.ones(20_000))  # 2 s
    link = SimulatedLink(lambda time: rate, delay)
    arrivals, _, meter = transferred(states, link, None)
    assert len(arrivals) == 20_000
    assert meter.bandwidth == pytest.approx(rate, rel=0.05)
    assert max(arrivals.values()) <= 2 * 1.1 + 20 * delay  # up to ten round trips until the rate is reached


@pytest.mark.sample(20)
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02])
@pytest.mark.parametrize("bandwidth", [None, 1e5, 5e4, 2e5])
@pytest.mark.parametrize("sizes", ["equal", "trips", "large"])
@pytest.mark.parametrize("method", ["auto", "greedy"])
def test_at_most_one_state_is_late(delay: float, bandwidth: float | None, sizes: str, method: str) -> None:
    if sizes == "large":
        random = np.random.default_rng(3)
        states = States(random.integers(5_000, 40_000, 30), random.random(30))
    else:
        states = scenario(utility="skew10", sizes=sizes, states=8000, seed=1)
    deadline = 2.0
    arrivals, schedule, meter = transferred(states, SimulatedLink(lambda time: 1e5, delay), deadline, bandwidth, method)
    late = [number for number, time in arrivals.items() if time > deadline]
    assert len(late) <= 1
    utility = states.utility[[number for number in arrivals if number not in late]].sum()
    padding = meter.sent - int(states.size[list(arrivals)].sum())
    assert padding <= 10_000
    ideal = plan(states, int((deadline - (3 if bandwidth is None else 1) * delay) * 1e5) - padding).utility
    assert utility >= (0.95 if sizes == "large" else 0.98) * ideal
    if bandwidth != 2e5:
        assert utility >= 0.99 * schedule.planned_utility
    assert schedule.plans >= 1


@given(
    st.floats(1e4, 1e7), st.floats(0.05, 20), st.floats(0, 0.05), st.lists(st.integers(1, 20_000), max_size=200),
    st.floats(0.01, 5), st.booleans(),
)  # fmt: skip
def test_at_most_one_state_is_late_on_any_steady_link(
    rate: float, factor: float, delay: float, sizes: list[int], deadline: float, overrun: bool
) -> None:
    """The user may give a wrong bandwidth, if it is too small; none is needed."""
    states = States(sizes, [float(size % 7) for size in sizes])
    for bandwidth in (None, rate, rate * min(factor, 1.0)):
        link = SimulatedLink(lambda time: rate, delay)
        arrivals, _, _ = transferred(states, link, deadline, bandwidth, overrun=overrun)
        assert sum(time > deadline + 1e-9 for time in arrivals.values()) <= 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("bandwidth", [None, 1e5])
def test_the_last_of_few_large_states_may_be_late(seed: int, bandwidth: float | None) -> None:
    """The link is slightly slower than planned: the old host finishes the last state, and none is missing."""
    random = np.random.default_rng(seed)
    states = States(random.integers(5_000, 40_000, 30), random.random(30))
    for overrun in (False, True):
        link = SimulatedLink(lambda time: 9.7e4, 0.005)
        arrivals, _, meter = transferred(states, link, 2.0, bandwidth, overrun=overrun)
        late = [number for number, time in arrivals.items() if time > 2.0]
        assert len(late) <= overrun
        if overrun:
            assert max(arrivals.values()) <= 2.0 + states.size[late].sum() / 9.7e4
            padding = meter.sent - int(states.size[list(arrivals)].sum())
            ideal = plan(states, int(1.98 * 1e5) - padding).utility
            assert states.utility[list(arrivals)].sum() >= (0.95 if bandwidth is None else 0.99) * ideal


def test_plans_follow_the_bandwidth() -> None:
    """The link becomes five times slower after half a second."""
    states = scenario(utility="skew10", sizes="trips", states=8000, seed=2)
    link = SimulatedLink(lambda time: 1e5 if time < 0.5 else 2e4, 0.01)
    arrivals, schedule, meter = transferred(states, link, 2.0, 1e5)
    assert schedule.plans > 1 and meter.bandwidth == pytest.approx(2e4, rel=0.1)
    late = [time for time in arrivals.values() if time > 2.0]
    assert len(late) <= 1
    received = states.utility[[number for number, time in arrivals.items() if time <= 2.0]].sum()
    assert received >= 0.9 * plan(states, 79_000).utility


def test_no_time_is_left() -> None:
    states = States([100] * 5, [1.0] * 5)
    arrivals, schedule, _ = transferred(states, SimulatedLink(lambda time: 1e6, 0.01), 0.005, 1e6)
    assert (len(arrivals), schedule.planned_states) == (0, 0)


def test_the_window_holds_little_more_than_the_link() -> None:
    meter = Meter(0.02)
    link = SimulatedLink(lambda time: 1e6, 0.01)
    most = 0
    for _ in range(3000):
        while not meter.has_room(1000):
            link.wait(meter)
        meter.send(link.now, 1000)
        link.send(1000)
        if link.now > 0.5:
            most = max(most, meter.outstanding)
    assert meter.bandwidth == pytest.approx(1e6, rel=0.01)
    assert 20_000 <= most <= 1.25 * 20_000 + 20_000 + 2 * 5_000 + 1000


def test_a_burst_counts_only_for_a_short_time() -> None:
    """A token bucket passes 16 kB at once, then 100 kB/s."""
    meter, link = Meter(0.01), SimulatedLink(lambda time: 1e9 if time < 1.6e-5 else 1e5, 0.005)
    for _ in range(1500):
        while not meter.has_room(500):
            link.wait(meter)
        meter.send(link.now, 500)
        link.send(500)
    assert meter.bandwidth == pytest.approx(1e5, rel=0.02)


def test_pauses_do_not_count() -> None:
    """Nothing is sent for a second; the bandwidth stays that of the link."""
    meter, link = Meter(0.01), SimulatedLink(lambda time: 1e5, 0.005)
    for _ in range(5):
        for _ in range(20):
            while not meter.has_room(500):
                link.wait(meter)
            meter.send(link.now, 500)
            link.send(500)
        while meter.outstanding:
            link.wait(meter)
        link.now += 1.0
    assert meter.bandwidth == pytest.approx(1e5, rel=0.1)


class KnownLink(Meter):
    """A meter of which the test sets the bandwidth."""

    rate = 1000.0

    @property
    def bandwidth(self) -> float:
        return self.rate

    @property
    def is_growing(self) -> bool:
        return False

    @property
    def is_known(self) -> bool:
        return True


def test_a_state_that_would_be_late_is_not_sent() -> None:
    schedule = Schedule(States([100] * 9, [1.0] * 9), KnownLink(0.0), deadline=1.0)
    assert schedule.next(0.0).tolist() == [0]
    assert schedule.planned_states == 9
    assert schedule.next(0.897).tolist() == [1]
    assert schedule.next(0.899).tolist() == []


@pytest.mark.parametrize(("deadline", "spare"), [(0.5, 0.002), (5.0, 0.005), (50.0, 0.01)])
def test_part_of_the_time_is_not_planned(deadline: float, spare: float) -> None:
    """A thousandth is left before the deadline, 2 to 10 ms, and more for the error of a measured bandwidth."""
    meter = KnownLink(0.0)
    meter.rate = 1e4 / deadline
    for size, margin in ((1, 0.88), (200, 0.94)):
        states = States([size] * (20_000 // size), [1.0] * (20_000 // size))
        schedule = Schedule(states, meter, method="greedy", deadline=deadline)
        schedule.next(0.0)
        assert schedule.planned_states == int(margin * meter.rate * (deadline - spare)) // size
    given = Meter(0.0, meter.rate)
    schedule = Schedule(States([1] * 20_000, [1.0] * 20_000), given, method="greedy", deadline=deadline)
    schedule.next(0.0)
    assert schedule.planned_states == int(0.99 * meter.rate * (deadline - spare))


def test_a_changed_bandwidth_changes_the_plan() -> None:
    """With room for all states, the densest is next; with room for 110 bytes, the last two are better than it."""
    meter = KnownLink(0.0)
    schedule = Schedule(States([1, 60, 50, 50], [9.0, 61.0, 50.0, 50.0]), meter, method="dp", deadline=1.0)
    assert schedule.next(0.0).tolist() == [0]
    meter.rate = 212.0
    assert schedule.next(0.48).tolist() == [2]
    assert schedule.plans == 2


@pytest.mark.parametrize("burst", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("bandwidth", [None, 1e5])
def test_few_large_states_arrive_as_planned(burst: float, bandwidth: float | None) -> None:
    """A link that first passes data three times as fast, as a token bucket does, and 2 % of it are headers."""
    for seed in range(6):
        size = np.random.default_rng(seed).lognormal(9.5, 0.7, 40).astype(np.int64) + 100
        states = States(size, size**1.5)
        link = SimulatedLink(lambda time: 3e5 if time < burst else 0.98e5, 0.005 * (seed % 3))
        arrivals, schedule, _ = transferred(states, link, 4.0, bandwidth, overrun=True)
        assert sum(time > 4.0 for time in arrivals.values()) <= 1, seed
        assert states.utility[list(arrivals)].sum() >= 0.99 * schedule.planned_utility, seed
