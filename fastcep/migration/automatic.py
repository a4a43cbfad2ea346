"""Choose the method of selection by the number of states and the variance of their sizes.

Greedy is optimal if all sizes are equal, or all states fit. Otherwise its loss is less than the utility of the first
state that does not fit, so it is small if the capacity holds many states: the upper bound shows it. A slower method is
worth its time only if the loss can be larger.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastcep.migration.approximation import LARGEST_TABLE, approximate, table_bytes
from fastcep.migration.greedy import Mask, greedy, upper_bound
from fastcep.migration.scaled import LEVELS, dynamic_programming
from fastcep.migration.states import States

__all__ = ["ENOUGH", "best_within", "dp_time", "fptas_time"]

#: Share of the upper bound from which on the greedy selection is good enough.
ENOUGH = 0.999

# Measured on one core of an AMD EPYC (python -m bench.migration) and rounded up to about twice, in ns.
_PER_STATE = 1_000  # sort and prefix, of a state
_PER_CELL = 20  # a cell of the table

_MOST_COLUMNS = 2 * LEVELS * LEVELS + LEVELS + 1


def dp_time(states: int) -> int:
    """Estimate the time of the dynamic programming, in ns."""
    cells = min(states, LEVELS) * min(_MOST_COLUMNS, LEVELS * states + 1)
    return _PER_STATE * states + _PER_CELL * cells


def fptas_time(states: int, table: int) -> int:
    """Estimate the time of the approximation with a table of a size in bytes, in ns."""
    return 2 * _PER_STATE * states + _PER_CELL * (table // 2)


def best_within(states: States, capacity: int, epsilon: float, budget: int) -> tuple[Mask, str]:
    """Choose states with the methods that are expected to keep a time budget in ns; return the best selection.

    Returns
    -------
    chosen, method
        bool[n] and the method that found it.
    """
    simple = greedy(states, capacity)
    utility = states.utility[simple].sum()
    fits = states.size[states.size <= capacity]
    equal = len(fits) == 0 or fits.min() == fits.max()
    if simple.all() or equal or utility >= ENOUGH * upper_bound(states, capacity):
        return simple, "greedy"
    best, method = simple, "greedy"
    for name, chosen in _others(states, capacity, epsilon, budget):
        if states.utility[chosen].sum() > utility:
            best, method, utility = chosen, name, states.utility[chosen].sum()
    return best, method


def _others(states: States, capacity: int, epsilon: float, budget: int) -> Iterator[tuple[str, Mask]]:
    """Yield the selections of the other methods that are expected to keep the time budget together."""
    spent = dp_time(len(states))
    if spent <= budget:
        yield "dp", dynamic_programming(states, capacity)
    else:
        spent = 0
    table = table_bytes(states, capacity, epsilon)
    if table <= LARGEST_TABLE and spent + fptas_time(len(states), table) <= budget:
        yield "fptas", approximate(states, capacity, epsilon)
