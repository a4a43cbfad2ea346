"""The adaptation loop: when it decides, what it asks of the pool, and what it keeps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastcep as fc
from fastcep.engine.instance_pool import InstanceCounts
from fastcep.parallel.adaptation import loop as module
from fastcep.parallel.adaptation.loop import AdaptationLoop, Decision
from fastcep.parallel.adaptation.options import KEPT, Adaptation
from fastcep.parallel.queueing.distributions import Deterministic, Distribution, Exponential
from fastcep.parallel.queueing.instance_count import Degree, degree
from fastcep.parallel.queueing.profile import Profile

SECOND = 10**9


@dataclass
class Pool:
    """Records the numbers that are asked of it; ``lost`` of them raise an error."""

    asked: list[int] = field(default_factory=list)
    lost: int = 0

    def resize(self, instances: int) -> None:
        self.asked.append(instances)
        if self.lost:
            self.lost -= 1
            raise OSError("no process")

    def counts(self) -> InstanceCounts:
        return InstanceCounts(self.asked[-1])


def exponential(count: int, rate: float, seed: int = 0) -> npt.NDArray[np.float64]:
    """Draw gaps in ns."""
    return np.random.default_rng(seed).exponential(1e9 / rate, count)


def service(milliseconds: float) -> Deterministic:
    return Deterministic(milliseconds * 1e6)


def made(**options: object) -> tuple[AdaptationLoop, Pool]:
    """Return a loop that decides each second; a new instance takes 3 s to start, and an event 100 ms."""
    pool = Pool()
    usual = {"buffer_limit": 10, "most": 20, "interval": "1s", "horizon": "3s", "forecast": "naive",
             "samples": 400, "margin": 0}  # fmt: skip
    options = {**usual, "service": lambda _: service(100), **options}
    of = options.pop("service")
    return AdaptationLoop(pool, of, Adaptation(**options), 0), pool  # type: ignore[arg-type]


def decided(loop: AdaptationLoop, now: int, rate: float, count: int = 399) -> Decision:
    """Let events arrive, and decide."""
    loop.arrived(exponential(count, rate))
    decision = loop.step(now)
    assert decision is not None
    return decision


def test_the_first_decision() -> None:
    """It equals the degree of the arrivals, and comes when the interval has passed."""
    loop, pool = made()
    gaps = exponential(399, 40)
    loop.arrived(gaps)
    assert loop.step(SECOND - 1) is None
    assert pool.asked == []
    decision = loop.step(SECOND)
    assert decision is not None
    expected = degree(gaps, service(100), 10, 0.95, most=20)
    assert decision.wanted == decision.instances == expected.instances > 4
    assert decision.degree is not None
    assert decision.degree.probability == pytest.approx(expected.probability)
    assert decision.degree.method == "M/D/c"
    assert decision.rate == pytest.approx(1e9 / gaps.mean())
    assert (decision.time, decision.forecast.method, decision.problem) == (SECOND, "naive", "")
    assert pool.asked == [expected.instances] == [loop.instances]
    assert list(loop.decisions) == [decision]


def test_the_margin_is_in_standard_errors_of_the_rate() -> None:
    rates: list[float] = []

    def asked(rate: float) -> Deterministic:
        rates.append(rate)
        return service(10)

    gaps = exponential(400, 400)
    for margin in (0, 2):
        loop, _ = made(service=asked, margin=margin)
        loop.arrived(gaps)
        decision = loop.step(SECOND)
        assert decision is not None and decision.degree is not None
        assert decision.degree.arrival.mean == pytest.approx(1e9 / rates[-1])
    assert rates[1] / rates[0] == pytest.approx(1 + 2 * gaps.std() / gaps.mean() / 20)


def test_the_rate_of_many_events_is_that_since_the_last_decision() -> None:
    """With fewer events since then, it is the rate of the last `samples` events."""
    loop, _ = made(samples=100)
    assert decided(loop, SECOND, rate=70, count=80 + 20).rate == pytest.approx(100.0)
    loop.arrived(np.full(99, 5e6))
    decision = loop.step(2 * SECOND)
    assert decision is not None
    assert decision.rate == pytest.approx(1e9 / np.append(exponential(100, 70)[-1:], np.full(99, 5e6)).mean())


def test_the_service_time_is_that_of_the_forecast() -> None:
    """The degree is for gaps that are scaled to the rate expected after the horizon."""
    asked: list[float] = []

    def of(rate: float) -> Deterministic:
        asked.append(rate)
        return service(100)

    loop, _ = made(service=of, forecast="trend", samples=400)
    for second in range(1, 13):
        decided(loop, second * SECOND, rate=10 + 2 * second)
    decision = loop.decisions[-1]
    assert decision.forecast.method == "trend"
    assert asked[-1] == decision.forecast.value != decision.rate
    assert decision.degree is not None
    assert decision.degree.arrival.mean == pytest.approx(1e9 / decision.forecast.value)


def test_more_instances_at_once_and_fewer_after_the_horizon() -> None:
    loop, pool = made()
    low = decided(loop, SECOND, rate=10).wanted
    high = decided(loop, 2 * SECOND, rate=60).instances
    assert high > low
    assert pool.asked == [low, high], "more are started at once"
    for second in range(3, 8):
        decided(loop, second * SECOND, rate=10)
    assert [decision.wanted for decision in loop.decisions][2:] == [low] * 5
    assert pool.asked[2:] == [high] * 3 + [low] * 2



def in_force(decisions: Sequence[tuple[int, int]], now: int, horizon: int) -> int:
    """Return the largest number of the decisions within the horizon, and of the last one before it."""
    before = [number for time, number in decisions if time + horizon <= now][-1:]
    return max([*before, *(number for time, number in decisions if time <= now < time + horizon)])


@given(
    st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(1, 9)), min_size=1, max_size=40),
    st.sampled_from([0, 1, 3, 5]), st.integers(1, 9),
)  # fmt: skip
def test_the_largest_number_within_the_horizon(
    steps: list[tuple[int, int | None]], horizon: int, initial: int
) -> None:
    """The same as by definition, also at steps without a decision (None: no event has arrived)."""
    numbers = iter([number for _, number in steps if number is not None])

    def script(*_: object, **__: object) -> Degree:
        return Degree(next(numbers), 0.96, 0.9, 0.5, "M/D/c", Exponential(1.0), service(1))

    loop, pool = made(interval="1ns", horizon=f"{horizon}ns", initial=initial)
    decisions, now = [(-horizon, initial)], 0
    with patch.object(module, "degree", script):
        for elapsed, number in steps:
            now += elapsed
            if number is not None:
                loop.arrived(np.ones(100))
                decisions.append((now, number))
            decision = loop.step(now)
            assert (decision is None) == (number is None)
            assert loop.instances == in_force(decisions, now, horizon)
            assert loop.instances == (pool.asked[-1] if pool.asked else initial)
            if decision is not None:
                assert decision.instances == loop.instances
                assert len(pool.asked) >= len(decisions) - 1, "each decision asks"
            assert len(loop._wanted) <= 9


def test_fewer_instances_in_silence() -> None:
    """Also if a decision is due at each step: without arrivals there is none, but an earlier one takes effect."""
    loop, pool = made(interval="1ms")
    decided(loop, SECOND, rate=60)
    decided(loop, 2 * SECOND, rate=10)
    high, low = (decision.wanted for decision in loop.decisions)
    for now in (3 * SECOND, 5 * SECOND - 1):
        assert loop.step(now) is None
        assert loop.instances == high
    assert loop.step(5 * SECOND) is None
    assert pool.asked == [high, high, low]


@pytest.mark.parametrize("interval", ["1s", None])
def test_the_smallest_number_after_a_silence(interval: str | None) -> None:
    """A stream is silent after 100 times the mean time between events; the number falls one horizon later."""
    loop, pool = made(interval=interval, least=2, initial=2)
    high = decided(loop, 10 * SECOND, rate=40, count=400).wanted
    silent = 10 * SECOND + int(100 * np.mean(exponential(400, 40)))
    for now in (silent - 1, silent + SECOND // 2, silent + 3 * SECOND + SECOND // 4):
        assert loop.step(now) is None
        assert pool.asked == [high]
    assert loop.step(silent + 7 * SECOND // 2) is None
    assert pool.asked == [high, 2] and loop.instances == 2
    assert loop.step(silent + 190 * SECOND) is None
    assert pool.asked == [high, 2]
    assert decided(loop, silent + 200 * SECOND, rate=40, count=400).wanted == high


def test_the_same_number_is_asked_again() -> None:
    """So the next decision repairs a request that the pool could not carry out; the decision is kept."""
    loop, pool = made()
    pool.lost = 1
    loop.arrived(exponential(200, 40))
    with pytest.raises(OSError, match="no process"):
        loop.step(SECOND)
    assert len(loop.decisions) == 1
    second = decided(loop, 2 * SECOND, rate=40)
    assert pool.asked == [second.instances, second.instances]


def test_a_decision_each_time_that_enough_events_have_arrived() -> None:
    loop, pool = made(interval=None, samples=150)
    gaps = exponential(300, 40)
    loop.arrived(gaps[:149])
    assert loop.step(50 * SECOND) is None
    loop.arrived(gaps[149:150])
    assert loop.step(51 * SECOND) is not None
    assert loop.step(52 * SECOND) is None
    loop.arrived(gaps[150:])
    assert loop.step(51 * SECOND) is None, "a rate needs time"
    assert loop.step(53 * SECOND) is not None
    assert len(pool.asked) == 2


@pytest.mark.parametrize("gaps", [np.empty(0), np.ones(99), np.zeros(500)])
def test_no_decision_without_enough_arrivals(gaps: npt.NDArray[np.float64]) -> None:
    loop, pool = made()
    loop.arrived(gaps)
    assert loop.step(SECOND) is None
    assert pool.asked == []
    assert decided(loop, 2 * SECOND, rate=40).instances > 0


def test_no_decision_while_the_service_time_is_not_known() -> None:
    known: list[Distribution | None] = [None, service(100)]
    loop, pool = made(service=lambda _: known.pop(0))
    loop.arrived(exponential(200, 40))
    assert loop.step(SECOND) is None
    assert pool.asked == []
    decided(loop, 2 * SECOND, rate=40)
    assert len(pool.asked) == 1


def test_no_events_since_the_last_decision() -> None:
    loop, pool = made()
    decided(loop, SECOND, rate=40)
    assert loop.step(2 * SECOND) is None
    assert len(pool.asked) == len(loop.decisions) == 1


def test_a_limit_that_cannot_be_kept() -> None:
    """The number is the one from which on more instances hardly help, and the decision has the reason."""
    loop, pool = made(buffer_limit=4)
    decision = decided(loop, SECOND, rate=40)
    assert decision.problem.startswith("no number of instances is sufficient: ")
    assert decision.degree is not None
    best = float(stats.poisson.cdf(4, decision.rate / 10))
    assert decision.degree.probability_with_fewer < 0.99 * best <= decision.degree.probability
    assert 4 < decision.wanted < 20
    assert pool.asked == [decision.wanted]


def test_too_few_instances_are_allowed() -> None:
    """Close to the highest probability if the queue stays finite; otherwise all instances."""
    loop, pool = made(most=5, buffer_limit=5)
    decision = decided(loop, SECOND, rate=40)
    assert decision.problem.startswith("no number of instances")
    assert decision.wanted == 5
    loop, pool = made(most=5, buffer_limit=30)
    decision = decided(loop, SECOND, rate=70)
    assert decision.problem.startswith("the system is unstable: the load keeps ")
    assert (decision.degree, decision.wanted, pool.asked) == (None, 5, [5])


def test_the_smallest_and_largest_number() -> None:
    loop, pool = made(least=3)
    assert loop.instances == 3
    assert decided(loop, SECOND, rate=1).instances == 3
    loop, pool = made(least=3, initial=7)
    assert loop.instances == 7
    assert decided(loop, SECOND, rate=1).instances == 7, "fewer after the horizon"
    assert decided(loop, 4 * SECOND, rate=1).instances == 3
    assert pool.asked == [7, 3]


@pytest.mark.thorough
def test_memory_is_limited() -> None:
    """Also for empty batches, batches of one event, and batches that are far larger than `samples`."""
    loop, _ = made(samples=100, interval="1us", horizon="1h", service=lambda _: service(1e-9))
    sizes = itertools.cycle([0, 1, 1, 7, 250])
    for now in range(1, 2_000):
        loop.arrived(exponential(next(sizes), 1_000 + now))
        if now % 3 == 0:
            loop.step(now * 1_000)
        assert len(loop._gaps) <= 100
    assert len(loop.decisions) == len(loop._rates) == KEPT
    assert len(loop._wanted) <= 20
    undecided, _ = made(samples=100)
    for _ in range(1_000):
        undecided.arrived(np.empty(0))
        undecided.arrived(exponential(next(sizes), 1_000))
        assert sum(map(len, undecided._recent)) <= 300
        assert len(undecided._recent) <= 300
    assert len(undecided._gaps) == 100


def test_the_method_is_chosen_again_after_some_decisions() -> None:
    methods = []

    def recorded(history: object, steps: int, *, method: str, period: object) -> object:
        methods.append(method)
        return forecast(history, steps, method="naive")  # type: ignore[arg-type]

    forecast = module.forecast
    loop, _ = made(forecast="auto")
    with patch.object(module, "forecast", recorded):
        for second in range(1, 9):
            decided(loop, second * SECOND, rate=40)
    assert methods == ["auto", "naive", "naive", "naive", "naive", "auto", "naive", "naive"]


def test_the_horizon_in_steps_of_the_forecast() -> None:
    """The number of intervals, rounded up."""
    asked = []

    def recorded(history: object, steps: int, *, method: str, period: object) -> object:
        asked.append(steps)
        return forecast(history, 1, method="naive")  # type: ignore[arg-type]

    forecast = module.forecast
    loop, _ = made(horizon="3s")
    with patch.object(module, "forecast", recorded):
        for time in (1.0, 2.5, 5.5, 9.5):
            decided(loop, int(time * SECOND), rate=40)
    assert asked == [3, 2, 1, 1]


@given(st.lists(st.integers(0, 60), max_size=30), st.sampled_from([None, "1s"]), st.integers(0, 9))
def test_batches_do_not_matter(cuts: list[int], interval: str | None, seed: int) -> None:
    """All decisions are the same however the gaps are divided into batches between two steps."""
    profile = Profile.of({10: 4e7, 100: 1e8})
    gaps = [exponential(count, rate, seed) for count, rate in ((150, 20), (250, 40), (60, 30), (400, 25))]

    def run(cut: list[int]) -> tuple[list[Decision], list[int]]:
        loop, pool = made(service=profile.service, interval=interval, samples=150)
        for second, part in enumerate(gaps, 1):
            for batch in np.split(part, np.minimum(np.cumsum(cut), len(part)).astype(int)):
                loop.arrived(batch)
            loop.step(second * 4 * SECOND)
        return list(loop.decisions), pool.asked

    decisions, asked = run([])
    found = run(cuts)
    assert len(decisions) >= 3
    assert [repr(decision) for decision in decisions] == [repr(decision) for decision in found[0]]
    assert asked == found[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer_limit": 0}, r"buffer_limit=0: expected a whole number from 1 to 10,000,000"),
        ({"buffer_limit": True}, "buffer_limit=True: expected a whole number"),
        ({"probability": 1.0}, r"probability=1\.0: expected a number above 0 and below 1"),
        ({"probability": "0.9"}, r"probability='0\.9': expected a number"),
        ({"most": 0}, "most=0: expected a whole number from 1 to 1,000"),
        ({"least": 0}, "least=0: expected a whole number from 1 to 20"),
        ({"least": 21}, "least=21: expected a whole number from 1 to 20"),
        ({"least": 3, "initial": 2}, "initial=2: expected a whole number from 3 to 20"),
        ({"initial": 21}, "initial=21: expected a whole number from 1 to 20"),
        ({"samples": 99}, "samples=99: expected a whole number from 100 to 1,000,000"),
        ({"samples": 400.0}, r"samples=400\.0: expected a whole number"),
        ({"period": 1}, "period=1: expected a whole number from 2 to 500"),
        ({"interval": "0s"}, "interval='0s': expected more than 0, or None"),
        ({"interval": "soon"}, "soon"),
        ({"horizon": "-1s"}, "-1s"),
        ({"forecast": "oracle"}, "forecast='oracle': expected auto, naive, seasonal, trend, smoothing, arima"),
        ({"forecast": "seasonal"}, "forecast='seasonal' needs a period"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        made(**options)
