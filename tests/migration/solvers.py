"""Slow, exact solvers of the knapsack, and drawn states."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from fastcep.migration import States

__all__ = ["drawn_states", "kinds", "most", "most_by_solver", "some_states"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def most(values: npt.ArrayLike, sizes: npt.ArrayLike, capacity: int) -> float:
    """Return the largest sum of values of a set that fits, by trying all sets."""
    value, size = np.asarray(values, np.float64), np.asarray(sizes, np.int64)
    sets = np.array(list(itertools.product((0, 1), repeat=len(value))), np.int64).reshape(2 ** len(value), len(value))
    return float((sets @ value)[sets @ size <= capacity].max())


def most_by_solver(values: npt.ArrayLike, sizes: npt.ArrayLike, capacity: int) -> float:
    """Return the largest sum of values of a set that fits, by branch and cut; the sizes must be small integers."""
    value, size = np.asarray(values, np.float64), np.asarray(sizes, np.float64)
    found = milp(
        -value, constraints=LinearConstraint(size[None, :], ub=capacity), integrality=np.ones(len(value)),
        bounds=Bounds(0, 1), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    chosen = np.rint(found.x)
    assert found.success and chosen @ size <= capacity
    return float(value @ chosen)


_utilities = st.one_of(
    st.just(0.0), st.integers(1, 5).map(float), st.floats(0, 100), st.floats(900, 1000), st.floats(0, 1e-300),
    st.floats(1e290, 1e300),
)  # fmt: skip
_items = st.tuples(st.one_of(st.integers(1, 6), st.integers(1, 2**40)), _utilities)


def some_states(largest: int = 11) -> st.SearchStrategy[tuple[States, int]]:
    """Draw states and a capacity."""
    return st.tuples(st.lists(_items, max_size=largest), st.floats(0, 1.1)).map(_with_capacity)


def _with_capacity(drawn: tuple[list[tuple[int, float]], float]) -> tuple[States, int]:
    items, share = drawn
    states = States([size for size, _ in items], [utility for _, utility in items])
    return states, int(share * states.total_size)


def drawn_states(kind: str, n: int, seed: int) -> States:
    """Return states as they come up: alike, very different, utilities like sizes, few utilities, few sizes."""
    random = np.random.default_rng(seed)
    return States(*kinds[kind](random, n))


kinds: dict[str, Callable[[np.random.Generator, int], tuple[Ints, Floats]]] = {
    "even": lambda random, n: (random.integers(1, 1000, n), random.uniform(0, 100, n)),
    "skewed": lambda random, n: (
        np.ceil(np.exp(random.normal(6, 1.5, n))).astype(np.int64), np.exp(random.normal(0, 1.5, n)),
    ),
    "proportional": lambda random, n: _proportional(random.integers(200, 1000, n), random),
    "growing": lambda random, n: _growing(random.integers(100, 1000, n)),
    "few utilities": lambda random, n: (random.integers(1, 1000, n), random.integers(0, 4, n).astype(np.float64)),
    "few sizes": lambda random, n: (random.choice([64, 96, 128, 4096], n), random.uniform(0, 100, n)),
}  # fmt: skip


def _proportional(size: Ints, random: np.random.Generator) -> tuple[Ints, Floats]:
    return size, size + random.uniform(-20, 20, len(size))


def _growing(size: Ints) -> tuple[Ints, Floats]:
    return size, size**1.5
