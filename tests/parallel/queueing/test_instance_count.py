"""The number of instances: the values of the paper, monotony, recorded arrivals and errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastcep.errors import CapacityError, DataError, ValidationError
from fastcep.parallel.queueing.distributions import (
    Deterministic,
    Distribution,
    Exponential,
    Normal,
    Pareto,
    Samples,
    Uniform,
)
from fastcep.parallel.queueing.instance_count import degree
from fastcep.parallel.queueing.stationary import exponential_service, fixed_service
from fastcep.parallel.queueing.trace import lowest_share_within, share_within


@pytest.mark.parametrize(
    ("arrival", "service", "instances", "probability", "fewer", "method"),
    [
        ("uniform:100ms:200ms", "exponential:300ms", 10, 0.976, 0.9396, "M/M/c"),
        ("pareto:50ms:2", "exponential:300ms", 6, 0.982, 0.8158, "M/M/c"),
        ("exponential:40ms", "uniform:100ms:200ms", 6, 0.982, 0.1133, "M/D/c"),
        ("exponential:66.67ms", "pareto:50ms:2", 10, 0.984, 0.9495, "M/D/c"),
        ("exponential:200ms", "deterministic:1.25s", 8, 0.988, 0.8975, "M/D/c"),
    ],
)
def test_the_values_of_the_paper(
    arrival: str, service: str, instances: int, probability: float, fewer: float, method: str
) -> None:
    found = degree(arrival, service, 15, 0.95)
    assert (found.instances, found.method) == (instances, method)
    assert found.probability == pytest.approx(probability, abs=5e-4)
    assert found.probability_with_fewer == pytest.approx(fewer, abs=5e-5)
    assert found.utilisation == pytest.approx(found.service.mean / found.arrival.mean / instances)
    assert found.arrival_fit is None is found.service_fit


def test_bounds_are_reported() -> None:
    assert str(degree("uniform:100ms:200ms", "exponential:300ms", 15, 0.95).arrival) == "exponential:43.21ms"
    assert str(degree("pareto:50ms:2", "exponential:300ms", 15, 0.95).arrival) == "exponential:67.96ms"
    assert str(degree("exponential:40ms", "uniform:100ms:200ms", 15, 0.95).service) == "deterministic:199ms"
    assert str(degree("exponential:66.67ms", "pareto:50ms:2", 15, 0.95).service) == "deterministic:500ms"


LOADS = st.floats(0.05, 60)
PROBABILITIES = st.floats(0.05, 0.9999)
SERVICES = st.sampled_from([Exponential, Deterministic])


def instances_of(service: Distribution, limit: int, probability: float) -> float:
    """Return the number of instances for arrivals every 1 ns, infinite if there is none."""
    try:
        return degree(Exponential(1.0), service, limit, probability).instances
    except CapacityError:
        return np.inf


@given(LOADS, PROBABILITIES, st.integers(1, 150), SERVICES)
def test_it_is_the_smallest_number(load: float, probability: float, limit: int, service: type[Any]) -> None:
    formula = exponential_service if service is Exponential else fixed_service
    numbers = range(int(load) + 1, int(load) + 200)
    found = instances_of(service(load), limit, probability)
    expected = next((n for n in numbers if formula(load, n, limit)[-1] >= probability), np.inf)
    if expected != np.inf:  # the probability is reached by any of these numbers
        assert found == expected
        result = degree(Exponential(1.0), service(load), limit, probability)
        assert result.probability == formula(load, result.instances, limit)[-1] >= probability
        assert result.probability_with_fewer < probability
        if result.instances == int(load) + 1:
            assert result.probability_with_fewer == 0


@given(LOADS, PROBABILITIES, st.integers(1, 150), SERVICES, st.data())
def test_it_is_monotone(load: float, probability: float, limit: int, service: type[Any], data: st.DataObject) -> None:
    found = instances_of(service(load), limit, probability)
    assume(found < np.inf)
    less = data.draw(st.floats(0.1, 0.999), "less")
    assert instances_of(service(load * less), limit, probability) <= found, "less load"
    assert instances_of(service(load), limit, probability * less) <= found, "a lower probability"
    assert instances_of(service(load), limit + data.draw(st.integers(1, 50)), probability) <= found, "more room"


@given(st.sampled_from([0.4, 4.4, 12.0]), st.integers(5, 40), st.integers(0, 2**32 - 1))
def test_recorded_arrivals_give_the_smallest_number(load: float, limit: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    gaps = np.where(random.random(400) < 0.7, 0, random.exponential(1e6, 400))
    service = Deterministic(load * gaps.mean())
    try:
        found = degree(gaps, service, limit, 0.9)
    except CapacityError:
        assert lowest_share_within(np.cumsum(gaps), service.mean, 1_000, limit) < 0.9
        return
    assert found.method == "trace"
    numbers = (found.instances - 1, found.instances)
    shares = [lowest_share_within(np.cumsum(gaps), service.mean, number, limit) for number in numbers]
    assert share_within(np.cumsum(gaps), service.mean, found.instances, limit) >= shares[1]
    assert shares[1] == found.probability >= 0.9
    assert found.instances == int(load) + 1 or shares[0] == found.probability_with_fewer < 0.9


@pytest.mark.parametrize("deviation", [0.0, 0.05, 0.2])
def test_regular_arrivals_need_few_instances(deviation: float) -> None:
    """Their bound alone would need an unlimited number."""
    gaps = 200e6 * np.abs(np.random.default_rng(4).normal(1, deviation, 1_600))
    found = degree(gaps, "deterministic:800ms", 15, 0.95)
    assert found.instances in (4, 5) and found.method == "trace" and found.arrival_fit is not None
    with pytest.raises(CapacityError):
        degree(found.arrival_fit.distribution, "deterministic:800ms", 15, 0.95)


def test_a_limit_that_the_arrivals_never_reach_is_no_certainty() -> None:
    """400 arrivals cannot show how often 100 events are there."""
    random = np.random.default_rng(8)
    gaps = np.where(random.random(400) < 0.6, 0.0, random.exponential(2.5e6, 400))
    found = degree(gaps, Deterministic(1.96 * gaps.mean()), 100, 0.95)
    assert found.method == "trace" and found.probability_with_fewer < 0.95 <= found.probability < 1
    assert found.instances > 2


def test_exponential_arrivals_are_not_evaluated_as_a_trace() -> None:
    gaps = np.random.default_rng(2).exponential(40e6, 1_600)
    assert degree(gaps, "deterministic:199ms", 15, 0.95).method == "M/D/c"


def test_groups_of_events_are_not_fitted() -> None:
    random = np.random.default_rng(3)
    gaps = np.where(np.arange(1_600) % 10, 0, random.exponential(1e8, 1_600))
    found = degree(gaps, "exponential:3ms", 15, 0.95)
    assert found.method == "trace" and isinstance(found.arrival, Samples)
    assert found.arrival_fit is not None and not found.arrival_fit.is_accepted
    assert found.service.mean == pytest.approx(3e6 * np.log(100))
    assert found.instances > degree(Exponential(gaps.mean()), "exponential:3ms", 15, 0.95).instances


def test_samples_that_fit_are_replaced_by_their_family() -> None:
    random = np.random.default_rng(1)
    gaps, times = random.exponential(1e8, 1_600), random.uniform(1e8, 5e8, 1_600)
    found = degree(gaps, times, 15, 0.95)
    assert found.method == "M/D/c" and found.arrival == Exponential(gaps.mean())
    assert found.arrival_fit is not None and found.arrival_fit.is_accepted
    assert found.service_fit is not None and isinstance(found.service_fit.distribution, Uniform)
    assert found.service.mean == pytest.approx(found.service_fit.distribution.quantile(0.99))
    assert degree(gaps.tolist(), Samples(times), 15, 0.95).instances == found.instances


def test_service_times_of_no_family_are_bounded_by_their_99th_percentile() -> None:
    times = np.tile([1e6, 1e8], 200)
    found = degree("exponential:300ms", times, 15, 0.95)
    assert (found.method, found.service) == ("M/D/c", Deterministic(1e8))


def test_samples_from_a_file(tmp_path: Any) -> None:
    path = tmp_path / "gaps.txt"
    path.write_text("\n".join(f"{int(gap)}ns" for gap in np.random.default_rng(1).exponential(1e8, 400)))
    found = degree(f"samples:{path}", "exponential:300ms", 15, 0.95)
    assert found.method == "M/M/c" and found.arrival.mean == pytest.approx(1e8, rel=0.1)
    path.write_text("1ms\n2\n")
    with pytest.raises(DataError, match=f"{path}, line 2: '2' is no duration"):
        degree(f"samples:{path}", "exponential:300ms", 15, 0.95)


def test_a_limit_that_cannot_be_reached() -> None:
    with pytest.raises(CapacityError) as error:
        degree("exponential:20ms", "exponential:300ms", 15, 0.95)
    assert str(error.value) == (
        "no number of instances is sufficient: 15 events are being processed at a time on average, as one arrives "
        "every 20ms and takes 300ms; so at most 15 are there with a probability of 0.568 at best, and 0.95 is required;"
        " give a limit of at least 22, or make the query faster"
    )
    assert error.value.probability == pytest.approx(0.568, abs=5e-4)
    assert degree("exponential:20ms", "exponential:300ms", 22, 0.95).probability >= 0.95
    with pytest.raises(CapacityError, match="give a limit of at least 22"):
        degree("exponential:20ms", "exponential:300ms", 21, 0.95)


@pytest.mark.parametrize(
    ("service", "most", "load", "least", "factor"),
    [("exponential:300ms", 3, "3", 4, "1"), ("deterministic:450ms", 3, "4.5", 5, "1.5"),
     ("deterministic:1.1s", 10, "11", 12, "1.1")],
)  # fmt: skip
def test_an_unstable_system(service: str, most: int, load: str, least: int, factor: str) -> None:
    with pytest.raises(CapacityError) as error:
        degree("exponential:100ms", service, 100, 0.95, most=most)
    assert str(error.value) == (
        f"the system is unstable: the load keeps {load} instances busy, and at most {most} are allowed, so the queue "
        f"would grow without limit; allow at least {least}, or make the query faster by a factor of more than {factor}"
    )
    assert error.value.probability == 0
    assert degree("exponential:100ms", service, 10_000, 0.5, most=least).instances == least


def test_no_allowed_number_is_sufficient() -> None:
    with pytest.raises(CapacityError) as error:
        degree("uniform:100ms:200ms", "exponential:300ms", 15, 0.95, most=9)
    assert str(error.value) == (
        "no number of instances up to 9 is sufficient: with 9, at most 15 events are there with a probability of 0.94, "
        "and 0.95 is required; allow more instances or a larger limit"
    )
    assert error.value.probability == pytest.approx(0.9396, abs=5e-5)
    assert degree("uniform:100ms:200ms", "exponential:300ms", 15, 0.95, most=10).instances == 10


def test_recorded_arrivals_that_come_at_once() -> None:
    with pytest.raises(CapacityError, match=r"with 1000, at most 15 events .* of 0, and 0\.95"):
        degree(np.r_[np.zeros(199), 1e8], "exponential:30ms", 15, 0.95)


@pytest.mark.parametrize(
    ("arrival", "service", "message"),
    [
        ("gamma:1ms", "exponential:1ms", "arrival: 'gamma:1ms' is no distribution; expected exponential:MEAN"),
        ("exponential:1ms", "pareto:1ms:1", "service: 'pareto:1ms:1': shape '1' of a Pareto"),
        (np.ones(99), "exponential:1ms", "arrival: 99 times; expected at least 100: 400 give the mean to ±10 %"),
        ("exponential:1ms", [1, 2], "service: 2 times; expected at least 100"),
        (np.zeros(100), "exponential:1ms", "arrival: all 100 times are 0"),
        ("exponential:1ms", np.zeros(400), "service: all 400 times are 0"),
        ("exponential:1ms", np.r_[1e8, np.zeros(399)], "samples:service: the time that 99 % of the service times do"),
        (None, "exponential:1ms", "arrival: found an array of type object"),
        ("exponential:1ms", np.r_[np.ones(100), np.nan], "service: time number 101 is nan"),
        (Deterministic(0.0), "exponential:1ms", "deterministic:0ns: no exponential distribution bounds these times"),
        ("exponential:1ms", Deterministic(0.0), "deterministic:0ns: the time that 99 %"),
    ],
)
def test_invalid_times(arrival: Any, service: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        degree(arrival, service, 15, 0.95)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer_limit": 0}, "buffer_limit=0: expected a whole number from 1 to 10,000,000"),
        ({"buffer_limit": -3}, "buffer_limit=-3: expected"),
        ({"buffer_limit": 10_000_001}, "buffer_limit=10000001: expected a whole number from 1 to 10,000,000"),
        ({"buffer_limit": 15.0}, "buffer_limit=15.0: expected"),
        ({"buffer_limit": True}, "buffer_limit=True: expected"),
        ({"most": 0}, "most=0: expected a whole number from 1 to 1,000"),
        ({"most": 1_001}, "most=1001: expected a whole number from 1 to 1,000"),
        ({"most": None}, "most=None: expected"),
        ({"probability": 0}, "probability=0: expected a number above 0 and below 1, such as 0.95"),
        ({"probability": 1}, "probability=1: expected a number above 0 and below 1, such as 0.95; no number of inst"),
        ({"probability": 95}, "probability=95: expected"),
        ({"probability": float("nan")}, "probability=nan: expected"),
        ({"probability": True}, "probability=True: expected"),
        ({"probability": "0.95"}, "probability='0.95': expected"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        degree("exponential:1s", "exponential:1ms", **{"buffer_limit": 15, "probability": 0.95} | options)


@pytest.mark.thorough
@pytest.mark.sample(1)
@pytest.mark.parametrize("service", [Exponential, Deterministic])
def test_extreme_loads(service: type[Any]) -> None:
    assert degree(Exponential(1e20), service(1e-12), 1, 0.999999).instances == 1
    with pytest.raises(CapacityError, match=r"1e\+32 events are being processed at a time") as error:
        degree(Exponential(1e-12), service(1e20), 10_000_000, 0.95)
    assert error.value.probability == 0
    assert degree(Exponential(1e6), service(2.999e6), 10_000_000, 0.999).instances == 3
    found = degree(Exponential(1e6), service(799e6), 1_000, 0.95)
    assert 800 < found.instances < 850


@pytest.mark.parametrize(
    "arrival", [Uniform(0.0, 1e6), Normal(1e6, 1e9), Normal(1e15, 1.0), Pareto(1e6, 1.0001), Pareto(1e6, 1e12)], ids=str
)
def test_extreme_arrivals(arrival: Distribution) -> None:
    found = degree(arrival, Exponential(arrival.quantile(0.5)), 50, 0.95)
    assert found.instances >= 1 and 0.95 <= found.probability <= 1
