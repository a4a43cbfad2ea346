"""pytest-benchmark suites of the covering knapsack, in CPU time: new items, a new demand, and the greedy solution.

The goals are 60 µs for 60 items and 400 µs for 480 items, both with 1,000 steps.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from fastcep._core.fit.covering_knapsack import Knapsack, greedy

COUNTS = (60, 480)

pytestmark = pytest.mark.benchmark(timer=time.process_time)


def cells(n: int, seed: int = 7) -> tuple[Any, Any]:
    """Return values and weights of cells: counts of partial matches times the value and the cost of each."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 100, n)
    return counts * rng.beta(0.5, 2, n), counts * rng.uniform(1, 20, n)


@pytest.mark.parametrize("n", COUNTS)
def test_new_items(benchmark: Any, n: int) -> None:
    solver, several = Knapsack(n), itertools.cycle([cells(n, seed) for seed in range(5)])

    def run() -> Any:
        values, weights = next(several)
        return solver.cover(values, weights, n * 200.0)

    assert 0 < benchmark(run).sum() < n


@pytest.mark.parametrize("n", COUNTS)
def test_new_demand(benchmark: Any, n: int) -> None:
    solver, (values, weights), demands = Knapsack(n), cells(n), itertools.cycle(np.linspace(n * 50, n * 450, 100))
    assert 0 < benchmark(lambda: solver.cover(values, weights, next(demands))).sum() < n


@pytest.mark.parametrize("n", COUNTS)
def test_greedy(benchmark: Any, n: int) -> None:
    values, weights = cells(n)
    assert 0 < benchmark(greedy, values, weights, n * 200.0).sum() < n
