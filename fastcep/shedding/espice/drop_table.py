"""Drop probabilities by type and position: the cells of the lowest utility first, in each part of a window.

Order of dropping:

1. the utility;
2. the exact number of matches per event, which the utility rounds;
3. the total contribution of the type: of two types whose events are in no match at a position, the one goes first whose
   events are in fewer matches altogether;

and types that a negated variable can bind come last. Cells that are equal in all of these are a *group*. Of the group
at the threshold only the missing fraction is dropped, at random (ALGORITHMS: espice).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from fastcep.overload.survival import survival
from fastcep.shedding.espice.cumulative import BEST, cumulative_utility, utility_threshold
from fastcep.shedding.espice.model import Cells, ESpiceModel

__all__ = ["DropTable", "parts_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def parts_of(bins: int, partitions: int) -> Ints:
    """Return the partition of each bin: int64[bins], ascending from 0. There are no more partitions than bins."""
    return np.arange(bins) * min(partitions, bins) // bins


class DropTable:
    """Drop probabilities for windows of a size.

    Parameters
    ----------
    model
        Model of the query.
    size
        Number of events in a window.
    literal
        Whether to take the paper's utility, and to drop all events up to the threshold (eSPICE, section 3.2).

    Attributes
    ----------
    cells
        Cells of the model for this size.
    """

    def __init__(self, model: ESpiceModel, size: float, *, literal: bool = False) -> None:
        self._model, self._literal = model, literal
        self._latest: tuple[tuple[float, int], Floats] | None = None  # of `probabilities`, with its arguments
        self.cells: Cells = model.cells(size, literal=literal)
        self._groups: Ints | None = None if literal else self._ordered()

    def probabilities(self, demand: float, partitions: int = 1) -> Floats:
        """Return the drop probability of an event by type and bin: float64[types, bins], C order.

        From each partition of a window, ``x = demand * p_size`` events are dropped (eSPICE, section 3.4), where
        ``p_size`` is the number of events in the partition that can be bound.

        Parameters
        ----------
        demand
            Share of the events to drop, from 0 to 1.
        partitions
            Number of partitions of a window, of about equal numbers of positions.
        """
        if self._latest is None or self._latest[0] != (demand, partitions):
            part = parts_of(self.cells.events.shape[1], partitions)
            drops = self._literal_drops(demand, part) if self._literal else self._fractional_drops(demand, part)
            self._latest = (demand, partitions), np.ascontiguousarray(drops)
        return self._latest[1]

    def _fractional_drops(self, demand: float, part: Ints) -> Floats:
        order = self._groups
        assert order is not None
        groups, parts = int(order.max(initial=0)) + 1, int(part[-1]) + 1
        place = part[None, :] * groups + order
        amount = np.bincount(place.ravel(), self.cells.events.ravel(), parts * groups).reshape(parts, groups)
        before = np.cumsum(amount, axis=1) - amount
        wanted = demand * amount.sum(axis=1, keepdims=True)
        full = (before < wanted).astype(np.float64)  # of groups without events in the history
        chances = np.divide(wanted - before, amount, out=full, where=amount > 0).clip(0.0, 1.0)
        return np.asarray(chances.ravel()[place])

    def _literal_drops(self, demand: float, part: Ints) -> Floats:
        drops = np.zeros(self.cells.events.shape)
        for number in range(int(part[-1]) + 1):
            utility, events = self.cells.utility[:, part == number], self.cells.events[:, part == number]
            threshold = utility_threshold(cumulative_utility(utility, events), demand * float(events.sum()))
            drops[:, part == number] = utility <= threshold
        return drops

    def _ordered(self) -> Ints:
        """Return the place of each cell in the order of dropping; equal cells have the same: int64[types, bins]."""
        cells = self.cells
        shape = cells.events.shape
        keys = [
            np.broadcast_to(self._model.negated[:, None], shape), cells.utility, cells.rate,
            np.broadcast_to(self._model.matched.sum(axis=1)[:, None], shape),
        ]  # fmt: skip
        flat = [np.ascontiguousarray(key).ravel() for key in keys]
        order = np.lexsort(flat[::-1])
        new = np.zeros(len(order), bool)
        for key in flat:
            new[1:] |= key[order][1:] != key[order][:-1]
        groups = np.empty(len(order), np.int64)
        groups[order] = np.cumsum(new)
        return groups.reshape(shape)

    def kept(self, drops: Floats) -> float:
        """Return the expected share of the matches that drop probabilities by type and bin keep.

        Random drops hit each event of a match independently, so they count for every variable. Drops for certain hit
        events of the same cells in all matches: a match that has lost one event of a type has often lost others as
        well, so they count once for each set of types.
        """
        matched, certain = self.cells.matched, drops >= 1
        left = np.where(certain, 0.0, matched)
        number = {name: place for place, name in enumerate(self._model.query.schema.type_names)}
        counted: set[tuple[str, ...]] = set()

        def share(above: Floats, below: Floats, types: tuple[str, ...]) -> float:
            rows = [number[name] for name in types]
            total = float(below[rows].sum())
            return float(above[rows].sum()) / total if total > 0 else 1.0

        def keep_uncertain(types: tuple[str, ...]) -> float:
            return share(left * (1 - drops), left, types)

        def keep_certain(types: tuple[str, ...]) -> float:
            if types in counted:
                return 1.0
            counted.add(types)
            return share(left, matched, types)

        pattern = self._model.query.pattern
        return survival(pattern, keep_uncertain) * survival(pattern, keep_certain, repeats=False)

    def shortfall(self, demand: float, partitions: int) -> float:
        """Return the share of the events to drop that are not of low utility, summed over the partitions.

        Utilities are divided into two classes of importance, low and high, such that the variance within the classes is
        least (Otsu's method).
        """
        events = self.cells.events
        low = np.where(self.cells.utility <= self._low, events, 0.0).sum(axis=0)
        part = parts_of(events.shape[1], partitions)
        wanted = demand * np.bincount(part, events.sum(axis=0))
        missing = np.maximum(wanted - np.bincount(part, low), 0.0)
        return float(missing.sum() / max(float(wanted.sum()), 1e-9))

    @cached_property
    def _low(self) -> int:
        """Largest utility of the class of low importance."""
        held = np.bincount(self.cells.utility.ravel(), self.cells.events.ravel(), BEST + 1)
        weight, moment = np.cumsum(held), np.cumsum(held * np.arange(BEST + 1))
        rest = weight[-1] - weight
        between = np.zeros(BEST + 1)
        both = (weight > 0) & (rest > 0)
        gap = moment[both] / weight[both] - (moment[-1] - moment[both]) / rest[both]
        between[both] = weight[both] * rest[both] * gap**2
        return int(np.argmax(between))
