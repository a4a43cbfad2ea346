"""Dynamic programming over utilities that are scaled to 0..100 and rounded.

The table needs only sets that are close to the *greedy prefix*: the states by descending rounded utility per byte, up
to the first that does not fit. Let M be the largest rounded utility, 100. Among the optimal sets that consist of the
smallest states of each utility, consider the one that differs from the prefix by the fewest states. The states that it
has and the prefix has not are its *gains*; those that only the prefix has are its *losses*.

* Order gains and losses so that the sum of their utilities stays between -M + 1 and M: take a gain if the sum is at
  most 0, otherwise a loss. If a sum occurs twice, the gains and losses between the two have the same utility. The gains
  are not denser than the losses, so they are not smaller either, and undoing both gives an optimal set that differs by
  fewer states; so does the set with as many of the smallest states of each utility. Hence all sums are different, and
  it takes at most 2 M - 1 steps until no gain or no loss is left.
* If losses are left, the sum is at most 0 and ends below 0, which an optimal set excludes. If gains are left, their
  utility is less than M: the prefix together with the first state that does not fit is at least as good as any set that
  fits, so an optimal set is better than the prefix by at most M - 1 or, if it is equal to both, by M.

The utility of b losses is at most M b, and at most that of the gains, M (2 M - 1 - b) + M. So it is at most M^2, and
that of the gains is at most M^2 + M. The sums of the table stay in this range, however many states there are.

Utilities per byte are compared in float64, which is exact for states of up to 2^46 bytes.
"""

from __future__ import annotations

import numpy as np

from fastcep._core.fit.packing_knapsack import least_sizes
from fastcep.migration.greedy import Mask, fill
from fastcep.migration.states import Ints, States

__all__ = ["LEVELS", "Classes", "dynamic_programming", "scaled_utility"]

#: Largest rounded utility.
LEVELS = 100


def scaled_utility(states: States, capacity: int) -> Ints:
    """Return 100 · utility / (largest utility of a state that fits), rounded to integers; 0 for states that do not fit.

    Returns
    -------
    scaled
        int64[n], 0 to 100.
    """
    fits = states.size <= capacity
    largest = states.utility[fits].max(initial=0.0)
    if largest == 0:
        return np.zeros(len(states), np.int64)
    shares = np.where(fits, states.utility, 0.0) / largest
    return np.asarray(np.rint(LEVELS * shares), np.int64)


def dynamic_programming(states: States, capacity: int) -> Mask:
    """Choose the states with the largest sum of scaled utilities, and of these sets a smallest one.

    The rest of the capacity is filled greedily, with states whose utility is rounded to 0.

    Returns
    -------
    chosen
        bool[n].
    """
    scaled = scaled_utility(states, capacity)
    chosen = np.zeros(len(states), np.bool_)
    classes = Classes(states, np.flatnonzero(scaled > 0), scaled)
    if len(classes.items):
        prefix = classes.prefix(capacity)
        chosen[classes.items] = classes.best(prefix, capacity - int(classes.size[prefix].sum()))
    return fill(states, chosen, capacity)


class Classes:
    """States by class, the states of equal integer value; ascending by size within a class.

    Parameters
    ----------
    states
        All states.
    items
        int64[m]: the states with a value above 0.
    value
        int64[n]: the value of every state.

    Attributes
    ----------
    items
        int64[m]: the states by ascending value, then size, descending utility, key, position.
    size
        int64[m]: their sizes.
    values, starts
        int64[classes], int64[classes + 1]: values of the classes, and where each begins in `items`.
    """

    def __init__(self, states: States, items: Ints, value: Ints) -> None:
        columns = (states.key[items], -states.utility[items], states.size[items], value[items])
        self.items = items[np.lexsort(columns)]
        self.size = states.size[self.items]
        self._value = value[self.items]
        self.values, starts = np.unique(self._value, return_index=True)
        self.starts = np.append(starts, len(self.items)).astype(np.int64)

    def prefix(self, capacity: int) -> Mask:
        """Return the greedy prefix: the items by descending value per byte, up to the first that does not fit."""
        order = np.argsort(-(self._value / self.size), kind="stable")
        prefix = np.zeros(len(self.items), np.bool_)
        prefix[order] = np.cumsum(self.size[order]) <= capacity
        return prefix

    def best(self, prefix: Mask, left: int) -> Mask:
        """Return the best set that is larger than the prefix by at most ``left`` bytes; bool[m]."""
        bases = np.add.reduceat(prefix, self.starts[:-1], dtype=np.int64)
        most = int(self.values.max())
        low = -min(most * most, int(self._value[prefix].sum()))
        high = min(most * (most + 1), int(self._value[~prefix].sum()))
        least, gains = least_sizes(self.values, self.size, self.starts, bases, low, high)
        best = int(np.searchsorted(least, left, side="right")) - 1  # ascends with the value
        return self.of_counts(bases + self.gained(gains, best))

    def gained(self, gains: np.ndarray[tuple[int, ...], np.dtype[np.int16]], place: int) -> Ints:
        """Return the number of items of each class that the set at a place of the table gains; int64[classes]."""
        counts = np.zeros(len(self.values), np.int64)
        for k in range(len(counts) - 1, -1, -1):
            counts[k] = gains[k, place]
            place = max(place - int(counts[k]) * int(self.values[k]), 0)
        return counts

    def of_counts(self, counts: Ints) -> Mask:
        """Return the smallest items of each class; bool[m]."""
        ranks = np.arange(len(self.items)) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.asarray(ranks < np.repeat(counts, np.diff(self.starts)), np.bool_)
