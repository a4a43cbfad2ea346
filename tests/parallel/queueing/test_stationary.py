"""The stationary distributions, compared with chains that are solved numerically."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from parallel.queueing.references import birth_death_chain, embedded_chain

from fastcep.parallel.queueing.stationary import exponential_service, fixed_service

Floats = npt.NDArray[np.float64]
Formula = Callable[[float, int, int], Floats]

FORMULAS = pytest.mark.parametrize("formula", [exponential_service, fixed_service])
SIZES = [
    (1, 0.01), (1, 0.5), (1, 0.95), (2, 0.7), (3, 0.3), (3, 0.99), (7, 0.9), (20, 0.6), (20, 0.95),
    (50, 0.8), pytest.param(50, 0.99, marks=pytest.mark.thorough), pytest.param(100, 0.99, marks=pytest.mark.thorough),
    (100, 0.9),
]  # fmt: skip


def limits(instances: int, states: int) -> list[int]:
    """Return limits below, at and above the number of instances, and one whose tail is extrapolated."""
    return sorted({0, 1, instances // 2, instances - 1, instances, instances + 1, 3 * instances, 2 * states})


def compare(formula: Formula, expected: Floats, load: float, instances: int) -> None:
    for limit in limits(instances, len(expected)):
        found = formula(load, instances, limit)
        assert found.shape == (limit + 1,) and found.dtype == np.float64
        filled = np.pad(expected, (0, limit + 1), constant_values=1.0)[: limit + 1]
        np.testing.assert_allclose(found, filled, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("instances", "utilisation"), SIZES)
def test_exponential_service_equals_the_birth_death_chain(instances: int, utilisation: float) -> None:
    load = instances * utilisation
    states = int(instances + 24 / -np.log(utilisation)) + 60
    compare(exponential_service, birth_death_chain(load, instances, states), load, instances)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("instances", "utilisation"), SIZES)
def test_fixed_service_equals_the_embedded_chain(instances: int, utilisation: float) -> None:
    load = instances * utilisation
    compare(fixed_service, embedded_chain(load, instances), load, instances)


@pytest.mark.parametrize("utilisation", [1e-6, 0.1, 0.5, 0.9, 0.99])
def test_the_means_of_one_instance_are_those_of_pollaczek_and_khinchine(utilisation: float) -> None:
    limit = int(60 / (1 - utilisation))
    for formula, variation in ((exponential_service, 1), (fixed_service, 0)):
        mean = (1 - formula(utilisation, 1, limit)).sum()
        expected = utilisation + utilisation**2 * (1 + variation) / (2 * (1 - utilisation))
        assert mean == pytest.approx(expected, abs=1e-7)


@pytest.mark.sample(2)
@FORMULAS
@pytest.mark.parametrize(
    ("instances", "utilisation", "limit"),
    [(500, 0.9999, 499), (500, 0.9999, 100_000), (1_000, 0.99999, 2_500), (1, 1 - 1e-9, 1_000), (1_000, 1e-9, 30),
     (1, 1e-17, 300), (64, 0.5, 0)],
)  # fmt: skip
def test_extreme_utilisation(formula: Formula, instances: int, utilisation: float, limit: int) -> None:
    found = formula(instances * utilisation, instances, limit)
    assert len(found) == limit + 1
    assert np.isfinite(found).all() and (found >= 0).all() and (found <= 1).all()
    assert (np.diff(found) >= 0).all()


@FORMULAS
def test_more_instances_never_lower_the_probability(formula: Formula) -> None:
    for load in (0.3, 7.9, 99.9):
        values = [formula(load, instances, 120)[-1] for instances in range(int(load) + 1, int(load) + 30)]
        assert (np.diff(values) >= -1e-11).all()


@FORMULAS
def test_the_limit_is_a_poisson_distribution_with_instances_for_all(formula: Formula) -> None:
    from scipy import stats

    found = formula(40.0, 400, 80)
    np.testing.assert_allclose(found, stats.poisson.cdf(np.arange(81), 40.0), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("instances", "utilisation"), [(3, 0.999), (30, 0.99), (1, 0.9999)])
def test_the_tail_falls_by_the_pole(instances: int, utilisation: float) -> None:
    """Beyond the computed part, log P(N > n) falls by s with c s = a (exp(s) - 1)."""
    load = instances * utilisation
    tail = np.log(1 - fixed_service(load, instances, 1_000))
    decay = tail[700] - tail[701]
    assert instances * decay == pytest.approx(load * np.expm1(decay), rel=1e-9)
    assert tail[150] - tail[151] == pytest.approx(decay, rel=1e-5)


@FORMULAS
def test_huge_limits_need_little_memory(formula: Formula) -> None:
    import tracemalloc

    tracemalloc.start()
    try:
        found = formula(2.999, 3, 1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[-1] == 1 and peak < 10 * found.nbytes
