"""Bounds of distributions: on the safe side up to the 99th percentile, and no further away than necessary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.parallel.queueing.bounds import arrival_bound, service_bound
from fastcep.parallel.queueing.distributions import (
    Deterministic,
    Distribution,
    Exponential,
    Normal,
    Pareto,
    Samples,
    Uniform,
)

TIMES = st.floats(1e3, 1e12)
RATIOS = st.floats(0.02, 50)
SAMPLES = st.lists(st.integers(1, 10**9), min_size=1, max_size=300).map(lambda times: Samples(np.array(times)))
CONTINUOUS = st.one_of(
    st.builds(lambda low, ratio: Uniform(low, low * (1 + ratio)), TIMES, RATIOS),
    st.builds(lambda high: Uniform(0.0, high), TIMES),
    st.builds(lambda center, ratio: Normal(center, center * ratio), TIMES, RATIOS),
    st.builds(Pareto, TIMES, st.floats(1.05, 40)),
)
LAWS = st.one_of(CONTINUOUS, st.builds(Deterministic, TIMES), SAMPLES)
SHARES = np.unique(np.r_[np.linspace(0.001, 0.99, 3_001), 1e-6, 1e-9])


@given(LAWS)
def test_the_bound_of_arrivals_lies_above_and_touches(times: Distribution) -> None:
    mean = arrival_bound(times).mean
    quantiles = times.quantiles(SHARES)
    bound = -np.expm1(-quantiles / mean)
    assert (bound >= SHARES * (1 - 1e-6)).all(), "its distribution function lies above that of the times"
    assert (bound - SHARES).min() < 1e-3, "and touches it"


@given(LAWS)
def test_the_bound_of_service_times_is_exceeded_by_one_hundredth(times: Distribution) -> None:
    bound = service_bound(times)
    assert isinstance(bound, Deterministic)
    if isinstance(times, Samples):
        assert (times.times <= bound.mean).mean() >= 0.99 > (times.times < bound.mean).mean()
    elif isinstance(times, Deterministic):
        assert bound is times
    else:
        assert times.law.cdf(bound.mean) == pytest.approx(0.99, abs=1e-9)


def stretched(times: Distribution, factor: float) -> Distribution:
    """Return the distribution of the times multiplied by a factor."""
    match times:
        case Uniform(low, high):
            return Uniform(low * factor, high * factor)
        case Normal(center, deviation):
            return Normal(center * factor, deviation * factor)
        case Pareto(minimum, shape):
            return Pareto(minimum * factor, shape)
    raise TypeError(times)


@given(CONTINUOUS, st.floats(0.01, 100))
def test_bounds_scale_with_the_times(times: Distribution, factor: float) -> None:
    scaled = stretched(times, factor)
    assert arrival_bound(scaled).mean == pytest.approx(factor * arrival_bound(times).mean, rel=1e-6)
    assert service_bound(scaled).mean == pytest.approx(factor * service_bound(times).mean, rel=1e-9)
    assert scaled.mean == pytest.approx(factor * times.mean, rel=1e-9)


def test_the_bounds_of_the_paper() -> None:
    assert arrival_bound(Uniform.of("100ms", "200ms")).mean == pytest.approx(43.21e6, abs=5e3)
    assert arrival_bound(Pareto.of("50ms", 2)).mean == pytest.approx(67.96e6, abs=5e3)
    assert service_bound(Uniform.of("100ms", "200ms")) == Deterministic(199e6)
    assert service_bound(Pareto.of("50ms", 2)).mean == pytest.approx(500e6)


def test_the_bound_of_equal_times() -> None:
    """A constant is exceeded by no exponential time with a probability of 0.99: m = t / log(100)."""
    assert arrival_bound(Deterministic(1e6)).mean == pytest.approx(1e6 / np.log(100))


def test_exponential_and_constant_times_are_their_own_bounds() -> None:
    exponential = Exponential(3e6)
    assert arrival_bound(exponential) is exponential is service_bound(exponential)


@pytest.mark.parametrize("times", [Deterministic(0.0), Samples(np.array([0.0, 1.0, 1.0]), "x.txt")])
def test_times_of_zero_have_no_bound(times: Distribution) -> None:
    with pytest.raises(ValidationError, match=f"{times}: no exponential distribution bounds .* some are 0; give them"):
        arrival_bound(times)
