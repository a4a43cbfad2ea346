"""Completion probability and remaining time: exact values, value iteration, limits, and simulation."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.shedding import completion_probability, remaining_time

#: SEQ(A, B, C) whose next event comes with probability 1/3 (ALGORITHMS: pspice).
THIRDS = np.array([[2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [0, 0, 0, 3]]) / 3


def chain(seed: int, states: int) -> tuple[Any, Any]:
    """Draw a row-stochastic matrix whose last state is final, and times of its steps."""
    rng = np.random.default_rng(seed)
    matrix = np.triu(rng.random((states, states)))
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix, rng.random((states, states)) * 100


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [(0, (0, 0, 0)), (1, (0, 0, 1 / 3)), (2, (0, 1 / 9, 5 / 9)), (5, (51 / 243, 131 / 243, 211 / 243))],
)
def test_exact_probabilities(remaining: int, expected: tuple[float, ...]) -> None:
    assert completion_probability(THIRDS, remaining) == pytest.approx([*expected, 1], abs=1e-12)


def test_probabilities_are_binomial_tails() -> None:
    """A partial match completes if at least as many of the remaining events fit as are missing."""
    found = completion_probability(THIRDS, 50)
    for missing in (1, 2, 3):
        tail = sum(comb(50, hits) * 2 ** (50 - hits) for hits in range(missing)) / 3**50
        assert 1 - found[3 - missing] == pytest.approx(tail, abs=1e-9)


@pytest.mark.parametrize("states", [1, 2, 5, 9])
def test_of_powers_of_the_matrix(states: int) -> None:
    matrix, times = chain(states, states)
    remaining = np.array([0, 7, 1, 64, 7, 3])
    found = completion_probability(matrix, remaining)
    assert found.shape == (6, states) and found.dtype == np.float64
    for row, n in zip(found, remaining.tolist(), strict=True):
        assert row == pytest.approx(np.linalg.matrix_power(matrix, n)[:, -1], abs=1e-12)
        assert completion_probability(matrix, n) == pytest.approx(row, abs=1e-12)
    value = np.zeros(states)
    for n in range(1, 65):
        value = (matrix * (times + value)).sum(axis=1)
        value[-1] = 0
        assert remaining_time(matrix, times, n) == pytest.approx(value, rel=1e-9)
    assert remaining_time(matrix, times, remaining)[3] == pytest.approx(value, rel=1e-9)
    assert not remaining_time(matrix, times, 0).any()


def test_the_limit_of_the_time_is_that_of_the_linear_system() -> None:
    times = np.full((4, 4), 5.0)
    within = np.linalg.solve(np.eye(3) - THIRDS[:3, :3], (THIRDS * times).sum(axis=1)[:3])
    assert remaining_time(THIRDS, times, 500)[:3] == pytest.approx(within, rel=1e-9)
    assert (remaining_time(THIRDS, times, 20)[:3] < within).all()


def test_of_mean_numbers_of_partial_matches() -> None:
    """Each of n events extends each partial match with probability 1/2 and 1/4: (n over 2) / 8 matches in the mean."""
    offspring = [[1, 0.5, 0], [0, 1, 0.25], [0, 0, 1]]
    for n in (0, 1, 2, 10, 1000):
        assert completion_probability(offspring, n) == pytest.approx([comb(n, 2) / 8, n / 4, 1])
    assert remaining_time(offspring, [[1, 0, 0], [0, 1, 0], [0, 0, 0]], 10) == pytest.approx([10 + 45 / 2, 10, 0])


def test_simulated(seed: int = 5) -> None:
    """The share of simulated partial matches that complete, and the mean of the time that they took."""
    rng, n, runs = np.random.default_rng(seed), 30, 40_000
    matrix, times = chain(seed, 4)
    matrix[:3] = 0.9 * np.eye(4)[:3] + 0.1 * matrix[:3]
    state, spent = np.zeros(runs, int), np.zeros(runs)
    for _ in range(n):
        after = (rng.random(runs)[:, None] > matrix.cumsum(axis=1)[state]).sum(axis=1)
        spent += np.where(state < 3, times[state, after], 0)
        state = after
    assert completion_probability(matrix, n)[0] == pytest.approx((state == 3).mean(), abs=0.01)
    assert remaining_time(matrix, times, n)[0] == pytest.approx(spent.mean(), rel=0.01)


def test_results_that_grow_beyond_all_bounds_are_capped() -> None:
    found = completion_probability([[3, 1], [0, 1]], [10, 10**6])
    assert found.tolist() == [[sum(3**n for n in range(10)), 1], [1e300, 1]]
    assert remaining_time([[3, 1], [0, 1]], np.ones((2, 2)), 10**6).tolist() == [1e300, 0]


def test_no_number_of_events_gives_no_row() -> None:
    assert completion_probability(THIRDS, []).shape == remaining_time(THIRDS, THIRDS, []).shape == (0, 4)


@pytest.mark.parametrize(
    "wrong", [-1, 1.5, "2", None, [1, -1], [1.0], [[1]], [[1], [1, 2]], [True], True, 1 << 63, 1 << 64]
)
def test_a_wrong_number_of_events_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match=r"completion_probability: remaining=.*: integers from 0 on"):
        completion_probability(THIRDS, wrong)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [([1, 2], r"the shape \(2,\)"), ([[1, 2]], r"the shape \(1, 2\)"), ([], "shape"), ("text", "no array of numbers"),
     ([[1, -0.5], [0, 1]], r"matrix\[0, 1\] is -0.5"), ([[1, float("nan")], [0, 1]], r"matrix\[0, 1\] is nan")],
)  # fmt: skip
def test_a_wrong_matrix_is_refused(wrong: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        completion_probability(wrong, 1)
    with pytest.raises(ValidationError, match="remaining_time: "):
        remaining_time(wrong, wrong, 1)


def test_times_have_the_shape_of_the_matrix() -> None:
    with pytest.raises(ValidationError, match=r"times has the shape \(2, 2\), expected that of matrix, \(4, 4\)"):
        remaining_time(THIRDS, np.ones((2, 2)), 1)
