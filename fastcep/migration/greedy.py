"""Take states in an order, skipping those that do not fit; the upper bound of what any selection can reach."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.packing_knapsack import take_fitting
from fastcep.migration.states import Ints, States

__all__ = ["Mask", "fill", "greedy", "in_random_order", "upper_bound"]

Mask = npt.NDArray[np.bool_]


def greedy(states: States, capacity: int) -> Mask:
    """Choose states by descending utility density; bool[n]."""
    return fill(states, np.zeros(len(states), np.bool_), capacity)


def fill(states: States, chosen: Mask, capacity: int) -> Mask:
    """Add the other states to chosen ones, by descending utility density, as far as they fit; bool[n]."""
    order = states.by_density[~chosen[states.by_density]]
    filled = chosen.copy()
    filled[order] = take_fitting(states.size, order, capacity - int(states.size[chosen].sum())).view(np.bool_)
    return filled


def in_random_order(states: States, capacity: int, seed: int) -> tuple[Mask, Ints]:
    """Choose states in a random order; return bool[n] and the order, int64[n]."""
    order = np.random.default_rng(seed).permutation(len(states)).astype(np.int64, copy=False)
    chosen = np.zeros(len(states), np.bool_)
    chosen[order] = take_fitting(states.size, order, capacity).view(np.bool_)
    return chosen, order


def upper_bound(states: States, capacity: int) -> float:
    """Return the largest utility if one state could be sent in part; no selection has more."""
    order = states.by_density
    order = order[states.size[order] <= capacity]
    sizes = np.cumsum(states.size[order])
    count = int(np.searchsorted(sizes, capacity, side="right"))
    whole = float(states.utility[order[:count]].sum())
    if count == len(order):
        return whole
    left = capacity - (int(sizes[count - 1]) if count else 0)
    return whole + float(states.utility[order[count]]) * (left / int(states.size[order[count]]))
