"""Selection of states: against exact solvers, bounds, ties, limits, errors."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration.solvers import drawn_states, kinds, most, most_by_solver, some_states

import fastcep as fc
from fastcep.migration import Plan, States, plan
from fastcep.migration.automatic import ENOUGH, dp_time, fptas_time
from fastcep.migration.scaled import LEVELS, scaled_utility

CLOSE = 1 + 1e-9  # sums in another order
METHODS = ("greedy", "dp", "fptas", "random", "auto")


def check(states: States, capacity: int, found: Plan) -> None:
    """Check what holds for every method."""
    assert sorted(found.order.tolist()) == list(range(len(states)))
    assert found.size == states.size[found.selected].sum() <= found.capacity == capacity
    assert found.utility == pytest.approx(math.fsum(states.utility[found.selected]))
    assert found.utility <= found.upper_bound <= states.total_utility * CLOSE
    assert (states.size[found.rest] > capacity - found.size).all(), "nothing else fits"
    if found.method != "random":
        for part in (found.selected, found.rest):
            ranks = np.argsort(states.by_density)[part]
            assert (np.diff(ranks) > 0).all(), "by density"


@given(some_states(), st.sampled_from(METHODS))
def test_every_method_keeps_the_capacity_and_fills_it(drawn: tuple[States, int], method: str) -> None:
    states, capacity = drawn
    check(states, capacity, plan(states, capacity, method))


@given(some_states())
def test_dp_is_optimal_for_scaled_utilities(drawn: tuple[States, int]) -> None:
    states, capacity = drawn
    scaled = scaled_utility(states, capacity)
    found = plan(states, capacity, "dp")
    assert scaled[found.selected].sum() == most(scaled, states.size, capacity)


@given(some_states(), st.sampled_from([0.5, 0.1, 0.02]))
def test_fptas_keeps_its_bound(drawn: tuple[States, int], epsilon: float) -> None:
    states, capacity = drawn
    best = most(states.relative, states.size, capacity)
    found = plan(states, capacity, "fptas", epsilon=epsilon)
    assert states.relative[found.selected].sum() * CLOSE >= (1 - epsilon) * best


@given(some_states())
def test_the_upper_bound_is_one(drawn: tuple[States, int]) -> None:
    states, capacity = drawn
    best = most(states.utility, states.size, capacity)
    assert best <= plan(states, capacity, "greedy").upper_bound * CLOSE
    assert plan(states, capacity).utility * CLOSE >= plan(states, capacity, "greedy").utility


@given(some_states())
def test_greedy_takes_by_density_and_skips(drawn: tuple[States, int]) -> None:
    states, capacity = drawn
    left, taken = capacity, []
    for state in sorted(range(len(states)), key=lambda i: (-states.density[i], states.size[i], states.key[i])):
        if states.size[state] <= left:
            taken.append(state)
            left -= int(states.size[state])
    assert plan(states, capacity, "greedy").selected.tolist() == taken


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("share", [0.03, 0.3, 0.8])
def test_sixty_states_against_branch_and_cut(kind: str, share: float) -> None:
    states = drawn_states(kind, 60, seed=4)
    capacity = int(share * states.total_size)
    scaled = scaled_utility(states, capacity)
    dp, fptas = plan(states, capacity, "dp"), plan(states, capacity, "fptas", epsilon=0.05)
    assert scaled[dp.selected].sum() == most_by_solver(scaled, states.size, capacity)
    best = most_by_solver(states.utility, states.size, capacity)
    assert fptas.utility * CLOSE >= 0.95 * best and best <= dp.upper_bound * CLOSE


@pytest.mark.parametrize("kind", ["even", "proportional", "few utilities"])
def test_the_range_of_the_table_is_large_enough(kind: str) -> None:
    """With 1,500 states, the table has a part of the utilities only; the full table has the same optimum."""
    states = drawn_states(kind, 1_500, seed=9)
    capacity = states.total_size // 3
    scaled = scaled_utility(states, capacity)
    least = np.full(int(scaled.sum()) + 1, np.iinfo(np.int64).max // 2)
    least[0] = 0
    for size, value in zip(states.size.tolist(), scaled.tolist(), strict=True):
        if value:
            least[value:] = np.minimum(least[value:], least[:-value] + size)
    best = int(np.flatnonzero(least <= capacity)[-1])
    assert scaled[plan(states, capacity, "dp").selected].sum() == best > LEVELS * (LEVELS + 1)


def test_states_whose_utility_is_rounded_to_0_fill_the_capacity() -> None:
    states = States([10, 3, 2], [1000.0, 4.0, 1.0])
    assert scaled_utility(states, 14).tolist() == [100, 0, 0]
    assert plan(states, 14, "dp").selected.tolist() == [0, 1]


def test_of_equal_sums_the_smaller_set_is_taken() -> None:
    states = States([7, 3, 3], [2.0, 1.0, 1.0])
    assert sorted(plan(states, 8, "dp").selected.tolist()) == [1, 2]


def test_states_that_do_not_fit_do_not_count_for_the_scale() -> None:
    states = States([100, 6, 5, 5], [1e9, 1.1, 1.0, 1.0])
    assert scaled_utility(states, 10).tolist() == [0, 100, 91, 91]
    assert sorted(plan(states, 10, "dp").selected.tolist()) == [2, 3]


@pytest.mark.parametrize("method", ["greedy", "dp", "fptas", "auto"])
def test_ties_are_taken_by_size_then_key(method: str) -> None:
    alike = States([2, 2, 2], [2.0, 2.0, 2.0], [9, 4, 6])
    assert plan(alike, 4, method).selected.tolist() == [1, 2]
    if method != "dp":  # which is indifferent to the sizes of its states if utility and total size are equal
        states = States([4, 2, 2, 2], [4.0, 2.0, 2.0, 2.0], [0, 9, 4, 6])
        assert plan(states, 4, method).selected.tolist() == [2, 3]


@pytest.mark.parametrize("method", METHODS)
def test_special_cases(method: str) -> None:
    some = drawn_states("even", 50, seed=1)
    assert len(plan(some, 0, method).selected) == 0
    assert len(plan(some, some.total_size, method).selected) == len(plan(some, 10**30, method).selected) == 50
    assert plan(some, 10**30, method).capacity == 10**30
    useless = States(some.size, np.zeros(50))
    found = plan(useless, 5_000, method)
    assert found.utility == found.upper_bound == 0 and len(found.selected) > 0
    equal = States(np.full(50, 8), np.full(50, 3.0))
    assert len(plan(equal, 100, method).selected) == 12
    huge = States(some.size, some.utility * 1e304)
    assert plan(huge, 5_000, method).selected.tolist() == plan(some, 5_000, method).selected.tolist()
    none = plan(States([], []), 10, method)
    assert len(none.order) == 0 and none.utility == none.upper_bound == 0
    single = States([10], [1.0])
    assert len(plan(single, 9, method).selected) == 0 and len(plan(single, 10, method).selected) == 1


def test_large_sizes_are_exact() -> None:
    states = States([2**60, 2**60 - 1, 1], [1.0, 1.0, 0.001])
    assert sorted(plan(states, 2**60, "dp").selected.tolist()) == [1, 2]


def test_random_is_reproducible_and_differs_by_seed() -> None:
    states = drawn_states("even", 200, seed=2)
    first, again, other = (plan(states, 20_000, "random", seed=seed) for seed in (1, 1, 2))
    assert first.order.tolist() == again.order.tolist() != other.order.tolist()
    assert first.utility < plan(states, 20_000, "greedy").utility


def test_fptas_leaves_room_for_small_states() -> None:
    """The best large state fills the capacity; another one and a small state have more utility."""
    states = States([10, 100, 95] + [5] * 18, [20.0, 115.0, 114.0] + [4.5] * 18)
    assert plan(states, 100, "greedy").utility == 101.0
    assert plan(states, 100, "fptas", epsilon=0.1).utility == 118.5


# ------------------------------------------------------------------------- auto


def test_auto_is_greedy_where_that_is_as_good() -> None:
    equal = States(np.full(500, 64), drawn_states("even", 500, 3).utility)
    many = drawn_states("even", 8_000, seed=3)
    for states, capacity in ((equal, 20_000), (many, many.total_size // 2), (many, many.total_size)):
        found = plan(states, capacity, time_budget="10s")
        assert found.method == "greedy" and found.utility >= ENOUGH * found.upper_bound


def few() -> tuple[States, int]:
    """Return states for which greedy leaves half of the capacity empty."""
    return States([51, 50, 50], [52.0, 50.0, 50.0]), 100


def test_auto_finds_the_best_selection_of_few_large_states() -> None:
    states, capacity = few()
    assert plan(states, capacity, "greedy").utility == 52 and plan(states, capacity).utility == 100
    assert plan(states, capacity).method in ("dp", "fptas")


def test_auto_keeps_its_time_budget() -> None:
    states, capacity = few()
    assert plan(states, capacity, time_budget="0s").method == "greedy"
    assert dp_time(8_000) < 200e6 < dp_time(10**6) and fptas_time(8_000, 2**20) < 200e6


def test_auto_takes_the_approximation_if_dp_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcep.migration.automatic.dp_time", lambda states: 10**12)
    states, capacity = few()
    found = plan(states, capacity)
    assert (found.method, found.utility) == ("fptas", 100.0)


# ------------------------------------------------------------------------ limits


def test_memory_of_8000_states() -> None:
    """Utilities near 100 of all states: 800,000 units in total."""
    random = np.random.default_rng(5)
    states = States(random.integers(1, 10_000, 8_000), random.uniform(90, 100, 8_000))
    tracemalloc.start()
    try:
        plan(states, states.total_size // 2, "dp")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


def test_an_epsilon_that_needs_too_much_memory() -> None:
    states = drawn_states("skewed", 5_000, seed=1)
    with pytest.raises(
        fc.ValidationError, match=r"epsilon=0.001: the table of .* expected at most 512 MiB\. Give a la"
    ):
        plan(states, 2_000, "fptas", epsilon=0.001)
    assert plan(states, 2_000, epsilon=0.001, time_budget="1h").utility > 0  # auto does without


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": [1, 2]}, "states: list; expected fc.migration.States"),
        ({"capacity": -1}, "capacity=-1: expected a whole number of bytes, at least 0"),
        ({"capacity": 1.5}, "capacity=1.5: expected"),
        ({"capacity": True}, "capacity=True: expected"),
        ({"capacity": math.nan}, "capacity=nan: expected"),
        ({"method": "best"}, "method='best': expected one of auto, greedy, dp, fptas, random"),
        ({"epsilon": 0}, "epsilon=0: expected a number from 0.001 to below 1"),
        ({"epsilon": 1.0}, "epsilon=1.0: expected"),
        ({"epsilon": math.nan}, "epsilon=nan: expected"),
        ({"seed": -1}, "seed=-1: expected a whole number, at least 0"),
        ({"seed": 0.5}, "seed=0.5: expected"),
        ({"time_budget": "fast"}, "time_budget='fast': 'fast' is no duration"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message):
        plan(**{"states": States([1], [1]), "capacity": 1, **arguments})
