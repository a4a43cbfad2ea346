"""Selection with at least (1 - epsilon) of the largest possible utility (Ibarra and Kim, 1975).

Let L be the utility of the greedy selection, or that of the best single state if it is larger: the optimum is at most
2 L. A state is *large* if its utility is above epsilon / 2 * L. Utilities of large states are rounded down to units of
epsilon^2 / 4 * L, so that the table has at most 8 / epsilon^2 columns. Each column is a set of large states of least
size; the rest of the capacity is filled with small states by density.

The loss is at most epsilon of the optimum: rounding loses at most epsilon / 2 of a large state, and the density order
loses less than one small state.
"""

from __future__ import annotations

import numpy as np

from fastcep._core.fit.packing_knapsack import least_sizes
from fastcep.errors import ValidationError
from fastcep.migration.greedy import Mask, fill, greedy, upper_bound
from fastcep.migration.scaled import Classes
from fastcep.migration.states import Floats, Ints, States

__all__ = ["LARGEST_TABLE", "SMALLEST_EPSILON", "approximate", "table_bytes"]

#: Limit on the memory of the table, in bytes.
LARGEST_TABLE = 512 * 2**20

#: A decision takes two bytes: it is at most 4 / epsilon.
SMALLEST_EPSILON = 0.001


def approximate(states: States, capacity: int, epsilon: float) -> Mask:
    """Choose states whose utility is at least (1 - epsilon) of the largest possible utility.

    Returns
    -------
    chosen
        bool[n].

    Raises
    ------
    ValidationError
        If epsilon is so small that the table takes more than 512 MiB.
    """
    states = _relative(states)
    by_density = greedy(states, capacity)
    value, width = _rounded(states, capacity, epsilon, by_density)
    classes = Classes(states, np.flatnonzero(value > 0), value)
    if len(classes.items) == 0:
        return by_density
    needed = _bytes(len(classes.values), width)
    if needed > LARGEST_TABLE:
        raise ValidationError(
            f"epsilon={epsilon}: the table of {len(classes.values):,} utilities takes {needed / 2**20:,.0f} MiB; "
            f"expected at most {LARGEST_TABLE // 2**20} MiB. Give a larger epsilon, or method='dp'"
        )
    bases = np.zeros(len(classes.values), np.int64)
    least, gains = least_sizes(classes.values, classes.size, classes.starts, bases, 0, width - 1)
    unit = _unit(_reference(states, capacity, by_density), epsilon)
    fits = np.flatnonzero(least <= capacity)
    total = fits * unit + _small_utility(states, value == 0, capacity - least[fits])
    place = int(fits[np.argmax(total)])
    chosen = np.zeros(len(states), np.bool_)
    chosen[classes.items] = classes.of_counts(classes.gained(gains, place))
    chosen = fill(states, _with_small(states, chosen, value == 0, capacity), capacity)
    return chosen if states.utility[chosen].sum() > states.utility[by_density].sum() else by_density


def table_bytes(states: States, capacity: int, epsilon: float) -> int:
    """Return the size of the table, in bytes."""
    states = _relative(states)
    value, width = _rounded(states, capacity, epsilon, greedy(states, capacity))
    return _bytes(len(np.unique(value[value > 0])), width)


def _relative(states: States) -> States:
    """Return the states with utilities in a unit that can be divided by 1 / epsilon^2."""
    return States(states.size, states.relative, states.key)


def _bytes(classes: int, width: int) -> int:
    return 2 * classes * width + 48 * width


def _reference(states: States, capacity: int, by_density: Mask) -> float:
    fits = states.size <= capacity
    return max(float(states.utility[by_density].sum()), float(states.utility[fits].max(initial=0.0)))


def _unit(reference: float, epsilon: float) -> float:
    return reference * (epsilon * epsilon / 4)


def _rounded(states: States, capacity: int, epsilon: float, by_density: Mask) -> tuple[Ints, int]:
    """Return the utilities of large states in units, 0 for the others; int64[n], and the columns of the table."""
    reference = _reference(states, capacity, by_density)
    unit = _unit(reference, epsilon)
    value = np.zeros(len(states), np.int64)
    if unit == 0:
        return value, 1
    large = (states.size <= capacity) & (states.utility > reference * (epsilon / 2))
    value[large] = np.floor(states.utility[large] / unit).astype(np.int64)
    width = min(int(upper_bound(states, capacity) / unit), int(value.sum())) + 1
    return value, width


def _small_utility(states: States, small: Mask, left: Ints) -> Floats:
    """Return the utility of the small states by density that fit, up to the first that does not."""
    order = states.by_density[small[states.by_density]]
    sizes, utilities = np.cumsum(states.size[order]), np.append(0.0, np.cumsum(states.utility[order]))
    return np.asarray(utilities[np.searchsorted(sizes, left, side="right")], np.float64)


def _with_small(states: States, chosen: Mask, small: Mask, capacity: int) -> Mask:
    """Add the small states by density, up to the first that does not fit."""
    order = states.by_density[small[states.by_density]]
    left = capacity - int(states.size[chosen].sum())
    added = chosen.copy()
    added[order[np.cumsum(states.size[order]) <= left]] = True
    return added
