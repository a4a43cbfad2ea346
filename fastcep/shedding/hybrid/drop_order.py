"""Drop probabilities for a demand, from the order in which classes are dropped.

Steps that save work only together form a *level*; level 0 drops nothing. A demand selects all levels that save no more
than the demand, and drops the next level with the probability that saves the remainder. Levels that lose no matches by
the flow are dropped whenever there is any demand, as long as the flow can be relied on. Without a demand nothing is
dropped.

Everything that a decision needs is computed in advance: for each class, the level from which on it is dropped. A
decision finds its level by binary search and compares the tables with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fastcep.shedding.hybrid.flow import Flow, Step
from fastcep.shedding.limited_demand import demand_of_least_loss

__all__ = ["DropOrder", "Selection", "Selector", "TableSizes"]

Floats = npt.NDArray[np.float64]
Levels = npt.NDArray[np.int32]

_FREE = 1e-9  # largest share of the matches whose loss counts as none
_NEVER = np.iinfo(np.int32).max  # level of a class that is never dropped


@dataclass(frozen=True)
class TableSizes:
    """Largest numbers of event classes of a variable, and of classes of a state, in the matcher's tables."""

    event_classes: int
    classes: int


@dataclass(frozen=True)
class Selection:
    """Drop probabilities for a demand.

    Attributes
    ----------
    binds, cells
        Drop probabilities by variable and event class, and by state, class and slice.
    kept, saved
        Expected share of the matches that is kept, and of the work that is saved.
    """

    binds: Floats
    cells: Floats
    kept: float
    saved: float


class Selector(Protocol):
    """Chooses what to drop for a demand."""

    def choose(self, demand: float, sizes: TableSizes, free: bool = True) -> Selection:
        """Return a selection that saves a share of the work; its tables have the given sizes.

        With ``free`` it can save more than the demand, if that loses no matches.
        """
        ...

    def optimal_demand(self, loss: float) -> float:
        """Return the demand that loses least under a work limit that alone loses the share ``loss`` of the matches."""
        ...

    def kept_at(self, demand: float) -> float:
        """Return the share of the matches that is kept for a demand; 0: unknown."""
        ...


class DropOrder:
    """Order in which the classes of one query are dropped.

    Parameters
    ----------
    steps
        Steps in the order of dropping.
    flow
        Flow of the query.

    Attributes
    ----------
    saved, kept
        Share of the work saved (ascending), and of the matches kept (descending), by level: float64[levels].
    free
        Highest level that loses no matches.
    """

    def __init__(self, steps: Sequence[Step], flow: Flow) -> None:
        self._withheld_from = np.full((flow.members, flow.event_stride), _NEVER, np.int32)
        self._dropped_from = np.full((flow.states, flow.stride, flow.slices), _NEVER, np.int32)
        saved, kept = [0.0], [1.0]
        for number, step in enumerate(steps):
            if step.events:
                self._withheld_from[step.owner, step.number] = len(saved)
            else:
                levels = self._dropped_from[step.owner, step.number, step.slice :]
                np.minimum(levels, len(saved), out=levels)
            following = steps[number + 1] if number + 1 < len(steps) else None
            together = following is not None and (step.saved, step.kept) == (following.saved, following.kept)
            if together or step.saved <= saved[-1]:  # a step that saves nothing joins the next level
                continue
            saved.append(step.saved)
            kept.append(min(step.kept, kept[-1]))
        self.saved, self.kept = np.array(saved), np.array(kept)
        self._created_until = self._creation(flow)
        self.free = int(np.flatnonzero(self.kept >= 1 - _FREE)[-1])

    def _creation(self, flow: Flow) -> Levels:
        """Return the level from which on no partial match of a group is created any more: int32[states, classes, 1].

        Births of such a group need not be refused. A partial match that was let through to explore the stream is
        therefore not dropped again later.
        """
        child = flow.child
        no_parents = np.append(self._dropped_from[:, :, 0].reshape(-1), np.int32(_NEVER))  # the last one is for START
        until = np.minimum(self._withheld_from.reshape(-1)[child["kind"]], no_parents[child["source"]])
        created_until = np.zeros(flow.states * flow.stride, np.int32)
        np.maximum.at(created_until, child["target"], until)
        return created_until.reshape(flow.states, flow.stride, 1)

    def utility(self, sizes: TableSizes) -> Floats:
        """Return the share of the work that is saved before the partial matches of a cell are dropped.

        It is 1 if they are never dropped: float64[states, classes, slices].
        """
        states, classes, slices = self._dropped_from.shape
        utility = np.ones((states, max(sizes.classes, classes), slices))
        before = np.append(0.0, self.saved)[np.minimum(self._dropped_from, len(self.saved))]
        utility[:, :classes] = np.where(self._dropped_from == _NEVER, 1.0, before)
        return utility

    def optimal_demand(self, loss: float) -> float:
        """Return the demand that loses least under a work limit, see `demand_of_least_loss`."""
        return demand_of_least_loss(self.saved[self.free :], self.kept[self.free :], loss)

    def kept_at(self, demand: float) -> float:
        """Return the share of the matches that is kept for a demand; 0 for one that no drops save."""
        return float(np.interp(demand, self.saved, self.kept, right=0.0))

    def choose(self, demand: float, sizes: TableSizes, free: bool = True) -> Selection:
        """Return the selection that saves a share of the work; with ``free`` at least all that loses no matches."""
        last = len(self.saved) - 1
        least = self.free if free and demand > 0 else 0
        level = min(max(int(self.saved.searchsorted(demand, "right")) - 1, least), last)
        upper, part = min(level + 1, last), 0.0
        if upper > level and demand > self.saved[level]:
            part = float((demand - self.saved[level]) / (self.saved[upper] - self.saved[level]))
        chances = np.array([1.0, part, 0.0])  # dropped at both levels, at the upper one only, and at none
        binds = np.zeros((len(self._withheld_from), sizes.event_classes))
        binds[:, : self._withheld_from.shape[1]] = chances[_levels_above(self._withheld_from, level, upper)]
        states, classes, slices = self._dropped_from.shape
        cells = np.zeros((states, sizes.classes, slices))
        dropped = chances[_levels_above(self._dropped_from, level, upper)]
        cells[:, :classes] = np.where(self._created_until > level, dropped, 0.0)
        return Selection(
            binds, cells, float((1 - part) * self.kept[level] + part * self.kept[upper]),
            float((1 - part) * self.saved[level] + part * self.saved[upper]),
        )  # fmt: skip


def _levels_above(levels: Levels, lower: int, upper: int) -> npt.NDArray[np.intp]:
    """Return 0 for levels up to the lower one, 1 for others up to the upper one, 2 for the rest."""
    return (levels > lower).astype(np.intp) + (levels > upper)
