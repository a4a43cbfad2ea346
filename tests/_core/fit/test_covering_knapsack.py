"""The covering knapsack: against all sets and an exact solver, the bounds that it promises, monotone in the demand."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import LIMIT, wait_for

from fastcep._core.fit.covering_knapsack import Knapsack, greedy

Floats = npt.NDArray[np.float64]
CLOSE = 1 + 1e-9  # sums in another order

whole_items = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=12)
numbers = st.floats(1e-3, 1e3)
items = st.lists(st.tuples(st.one_of(st.just(0.0), numbers), numbers), min_size=1, max_size=30)
wild = st.one_of(st.floats(1e-250, 1e250), st.integers(-12, 20).map(lambda power: 10.0**power))
wild_items = st.lists(st.tuples(st.one_of(st.just(0.0), wild), wild), min_size=1, max_size=12)
#: Of the weight of all items.
parts = st.floats(0, 1.1)


def columns(drawn: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    values, weights = np.array(drawn, np.float64).T
    return values.copy(), weights.copy()


def lost(values: Floats, chosen: npt.NDArray[np.uint8]) -> float:
    return math.fsum(values[chosen > 0])


def saved(weights: Floats, chosen: npt.NDArray[np.uint8]) -> float:
    return math.fsum(weights[chosen > 0])


def least(values: Floats, weights: Floats) -> dict[float, float]:
    """Of every sum of weights the least value."""
    found: dict[float, float] = {}
    for chosen in itertools.product((0, 1), repeat=len(values)):
        weight, value = float(weights @ chosen), float(values @ chosen)
        found[weight] = min(value, found.get(weight, math.inf))
    return found


def drawn_items(kind: str, n: int, seed: int) -> tuple[Floats, Floats]:
    """Items as they come up: alike, very different, with values like weights, or counts of cells."""
    rng = np.random.default_rng(seed)
    if kind == "even":
        return rng.uniform(0.01, 1, n), rng.uniform(0.01, 1, n)
    if kind == "skewed":
        return np.exp(rng.normal(0, 2, n)), np.exp(rng.normal(0, 2, n))
    if kind == "proportional":
        weights = rng.uniform(0.1, 1, n)
        return weights + rng.uniform(-0.05, 0.05, n), weights
    counts = rng.integers(1, 100, n)
    return counts * rng.beta(0.5, 2, n), counts * rng.uniform(1, 20, n)


KINDS = ("even", "skewed", "proportional", "counts")


def step_of(weights: Floats, steps: int) -> float:
    """The most that a step can be."""
    return float(weights.sum()) / (2 * steps)


# ------------------------------------------------------------------------- the best


@given(whole_items)
def test_whole_steps_are_solved_exactly(drawn: list[tuple[int, int]]) -> None:
    """All weights together are at most 720, 4 * 180, so that a step is at most 1: each demand against all sets."""
    values, weights = columns(drawn)
    solver, sets = Knapsack(12, 180), least(values, weights)
    for demand in range(int(weights.sum()) + 2):
        chosen = solver.cover(values, weights, demand)
        assert lost(values, chosen) == min((v for w, v in sets.items() if w >= demand), default=values.sum())


@given(items, parts, st.sampled_from([5, 50, 1000]))
def test_bounds_against_all_sets(drawn: list[tuple[float, float]], part: float, steps: int) -> None:
    values, weights = columns(drawn[:10])
    demand = part * weights.sum()
    found = lost(values, Knapsack(10, steps).cover(values, weights, demand))
    sets = least(values, weights)
    best = min((v for w, v in sets.items() if w >= demand), default=values.sum())
    valued = weights[values > 0]
    above = demand + len(valued) / 2 * step_of(valued, steps)
    best_above = min((v for w, v in sets.items() if w >= above * CLOSE), default=values.sum())
    assert best <= found * CLOSE
    assert found <= min(2 * best, best_above) * CLOSE


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [30, 45, 60])
def test_bounds_against_an_exact_solver(kind: str, n: int) -> None:
    optimize = pytest.importorskip("scipy.optimize", exc_type=ImportError)

    def best(values: Floats, weights: Floats, demand: float) -> float:
        """The least value; what surely is not above it, if the solver gives up."""
        found = optimize.milp(
            values, constraints=optimize.LinearConstraint(weights[None, :], lb=demand), integrality=np.ones(n),
            bounds=optimize.Bounds(0, 1), options={"mip_rel_gap": 1e-7, "node_limit": 500},
        )  # fmt: skip
        return float(found.mip_dual_bound)

    values, weights = drawn_items(kind, n, n)
    solver, total = Knapsack(n), weights.sum()
    for part in (0.1, 0.45, 0.8):
        found = lost(values, solver.cover(values, weights, part * total))
        above = part * total + n / 2 * step_of(weights, 1000)
        assert best(values, weights, part * total) <= found * (1 + 1e-6)
        assert found <= 2 * best(values, weights, part * total) * (1 + 1e-6)
        assert found <= best(values, weights, above) * (1 + 1e-6)
        assert found <= best(values, weights, part * total) * 1.01  # what it is in fact


@pytest.mark.parametrize("kind", KINDS)
def test_many_steps_change_little(kind: str) -> None:
    values, weights = drawn_items(kind, 480, 7)
    coarse, fine = Knapsack(480), Knapsack(480, 20_000)
    for part in (0.1, 0.45, 0.8):
        demand = part * weights.sum()
        found = lost(values, coarse.cover(values, weights, demand))
        assert found <= 1.02 * lost(values, fine.cover(values, weights, demand))
        assert found <= lost(values, greedy(values, weights, demand))


@pytest.mark.parametrize(
    ("steps", "values", "weights", "demand"),
    [
        pytest.param(2, [5, 2, 16, 5], [15, 1, 13, 19], 20, id="one more"),
        pytest.param(2, [12, 1, 6], [14, 12, 15], 28, id="one less"),
        pytest.param(2, [12, 13, 8, 9, 10, 12], [2, 8, 8, 11, 15, 13], 16, id="without the dearest"),
        pytest.param(1, [1e13, 100, 1e7, 1e17], [1e17, 0.01, 1e11, 1e15], 1e11 + 0.01, id="of very different size"),
        pytest.param(1, [18, 11, 14, 2, 9, 13], [6, 13, 6, 5, 19, 18], 26, id="light ones"),
        pytest.param(2, [1e-14, 1e5, 9e5, 1, 1, 1e3], [1, 1e18, 1e6, 1, 1, 1], 3, id="weights that sums swallow"),
        pytest.param(2, [9e3, 1e20, 1.2e7, 1e4, 1e4, 2.4e4], [2, 1e16, 1e3, 0.5, 0.5, 1], 3, id="values that they do"),
    ],
)
def test_every_part_of_the_search(steps: int, values: list[float], weights: list[float], demand: float) -> None:
    """What is found without the table, as steps are few; each by one part alone."""
    value, weight = np.array(values, np.float64), np.array(weights, np.float64)
    best = min(v for w, v in least(value, weight).items() if w >= demand)
    assert lost(value, Knapsack(6, steps).cover(value, weight, demand)) <= best * CLOSE


@given(wild_items, st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from([1, 50, 1000]))
def test_twice_the_best_at_most_however_different_items_are(
    drawn: list[tuple[float, float]], wanted: list[bool], steps: int
) -> None:
    values, weights = columns(drawn[:10])
    demand = weights[np.array(wanted)[: len(weights)]].sum()
    best = min((v for w, v in least(values, weights).items() if w >= demand * CLOSE), default=values.sum())
    assert lost(values, Knapsack(10, steps).cover(values, weights, demand)) <= 2 * best * CLOSE


def test_items_too_light_for_the_table_help() -> None:
    """The two heavy ones are a little too little, and the third is too dear."""
    values = np.array([10.0, 10.0, 100.0, 1.0, 5.0])
    weights = np.array([400.0, 400.0, 400.0, 0.1, 0.3])
    solver = Knapsack(5, 50)
    assert solver.cover(values, weights, 800.1).tolist() == [1, 1, 0, 1, 0]
    assert solver.cover(values, weights, 800.2).tolist() == [1, 1, 0, 0, 1]
    assert solver.cover(values, weights, 800.4).tolist() == [1, 1, 0, 1, 1]
    assert solver.cover(values, weights, 800.5).tolist() == [1, 1, 1, 0, 0]


# ------------------------------------------------------------------------- always


@pytest.mark.parametrize("way", ["cover", "greedy"])
@given(st.one_of(items, whole_items, wild_items), parts)
def test_covers_or_takes_all(way: str, drawn: list[tuple[float, float]], part: float) -> None:
    values, weights = columns(drawn)
    total = math.fsum(weights)
    choose = Knapsack(30, 20).cover if way == "cover" else greedy
    chosen = choose(values, weights, part * total)
    assert chosen.dtype == np.uint8 and chosen.shape == values.shape
    assert (chosen[values == 0] == 1).all()
    assert saved(weights, chosen) * CLOSE >= part * total or chosen.all()
    if part == 0:
        assert (chosen == (values == 0)).all()


@given(
    st.one_of(items, whole_items, wild_items), st.lists(parts, min_size=2, max_size=20), st.sampled_from([1, 7, 1000])
)
def test_the_loss_never_falls_with_the_demand(drawn: list[tuple[float, float]], part: list[float], steps: int) -> None:
    values, weights = columns(drawn)
    solver, last = Knapsack(30, steps), 0.0
    for demand in sorted(one * weights.sum() for one in part):
        found = lost(values, solver.cover(values, weights, demand))
        assert found * CLOSE >= last
        last = found


@given(st.one_of(items, whole_items, wild_items), st.lists(parts, min_size=2, max_size=20))
def test_greedy_sets_are_nested(drawn: list[tuple[float, float]], part: list[float]) -> None:
    values, weights = columns(drawn)
    chosen = [greedy(values, weights, demand) for demand in sorted(one * weights.sum() for one in part)]
    for less, more in itertools.pairwise(chosen):
        assert (less <= more).all()


def test_greedy_takes_the_least_value_per_weight_and_of_equals_the_heavier() -> None:
    values, weights = np.array([4.0, 2.0, 0.0, 9.0]), np.array([2.0, 1.0, 5.0, 3.0])
    assert greedy(values, weights, -1).tolist() == [0, 0, 1, 0]
    assert greedy(values, weights, 5).tolist() == [0, 0, 1, 0]
    assert greedy(values, weights, 6).tolist() == [1, 0, 1, 0]
    assert greedy(values, weights, 8).tolist() == [1, 1, 1, 0]
    assert greedy(values, weights, 99).tolist() == [1, 1, 1, 1]


@given(st.lists(st.tuples(items, parts), min_size=1, max_size=6))
def test_what_was_asked_before_changes_nothing(asked: list[tuple[list[tuple[float, float]], float]]) -> None:
    solver = Knapsack(30, 50)
    for drawn, part in asked + asked[::-1]:
        values, weights = columns(drawn)
        demand = part * weights.sum()
        chosen = solver.cover(values, weights, demand)
        assert (chosen == Knapsack(30, 50).cover(values, weights, demand)).all()
        assert (chosen == solver.cover(values, weights, demand)).all()


def test_answers_are_the_callers() -> None:
    solver, values, weights = Knapsack(2), np.array([1.0, 2.0]), np.array([1.0, 1.0])
    first = solver.cover(values, weights, 1)
    values[:] = 2, 1
    assert solver.cover(values, weights, 1).tolist() == [0, 1]
    assert first.tolist() == [1, 0]
    weights[1] = 0.5
    assert solver.cover(values, weights, 1).tolist() == [1, 0]


def test_lists_and_integers_and_nothing() -> None:
    assert Knapsack(3).cover([3, 1, 2], [1, 1, 1], 2).tolist() == [0, 1, 1]
    assert greedy([3, 1, 2], [1, 1, 1], 2).tolist() == [0, 1, 1]
    assert Knapsack(3).cover([], [], 2).tolist() == greedy([], [], 2).tolist() == []


def test_others_run_meanwhile() -> None:
    """The interpreter is free while a table is made: it is given up by who sleeps or solves, but taken from nobody."""
    values, weights = drawn_items("even", 60, 3)
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    def counted_beside() -> bool:
        solver, before = Knapsack(60, 20_000), counted[0]
        solver.cover(values, weights, 5.0)
        return counted[0] > before

    interval, thread = sys.getswitchinterval(), threading.Thread(target=count)
    sys.setswitchinterval(LIMIT)
    try:
        thread.start()
        wait_for(counted_beside, "thread that ran beside the solver")
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()


# ------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("values", "weights", "demand", "message"),
    [
        ([1.0, math.nan], [1.0, 1.0], 1.0, "the value of item 1 of a knapsack is nan"),
        ([math.inf], [1.0], 1.0, "the value of item 0 of a knapsack is inf"),
        ([-1.0], [1.0], 1.0, "the value of item 0 of a knapsack is -1.0"),
        ([1.0], [0.0], 1.0, "the weight of item 0 of a knapsack is 0.0: .* above 0; leave out"),
        ([0.0], [0.0], 1.0, "the weight of item 0 of a knapsack is 0.0"),
        ([1.0], [-1.0], 1.0, "the weight of item 0 of a knapsack is -1.0"),
        ([1.0], [math.inf], 1.0, "the weight of item 0 of a knapsack is inf"),
        ([1.0], [math.nan], 1.0, "the weight of item 0 of a knapsack is nan"),
        ([1.0], [1.0], math.nan, "demand of a knapsack is nan: expected a finite number"),
        ([1.0], [1.0], math.inf, "demand of a knapsack is inf: expected a finite number"),
        ([1.0, 1.0], [1.0], 1.0, "2 values but 1 weights: expected the same number"),
        ([1e308, 1e308], [1.0, 1.0], 1.0, "sum of a knapsack's values or weights"),
        ([1.0, 1.0], [1e308, 1e308], 1.0, "sum of a knapsack's values or weights"),
    ],
)
def test_what_makes_no_sense_is_refused(values: list[float], weights: list[float], demand: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Knapsack(2).cover(values, weights, demand)
    with pytest.raises(ValueError, match=message):
        greedy(values, weights, demand)


def test_more_items_than_there_is_room_for() -> None:
    with pytest.raises(ValueError, match="3 items for a knapsack of 2"):
        Knapsack(2).cover([1.0] * 3, [1.0] * 3, 1.0)
    for n, steps in ((0, 10), (1, 0), (1, 2**24 + 1)):
        with pytest.raises(ValueError, match=f"a knapsack of {n} items and {steps} steps"):
            Knapsack(n, steps)
