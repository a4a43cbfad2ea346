"""Drop probabilities for a demand, from the order in which classes are dropped.

Steps that save work only together form a *level*; level 0 drops nothing. A demand selects all levels that save no more
than the demand, and drops the next level with the probability that saves the remainder. Levels that lose no matches are
dropped whenever there is any demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.shedding.hybrid.flow import Flow, Step

__all__ = ["DropOrder", "Selection", "TableSizes"]

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

_FREE = 1e-9  # largest share of the matches whose loss counts as none


@dataclass(frozen=True)
class TableSizes:
    """Sizes of a query's tables: variables, event classes, states, classes and slices."""

    members: int
    event_classes: int
    states: int
    classes: int
    slices: int


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


class DropOrder:
    """Order in which the classes of one query are dropped.

    Parameters
    ----------
    steps
        Steps in the order of dropping.
    flow
        Flow of the query.
    shape
        Sizes of the query's tables.

    Attributes
    ----------
    saved, kept
        Share of the work saved (ascending), and of the matches kept (descending), by level: float64[levels].
    free
        Highest level that loses no matches.
    """

    def __init__(self, steps: Sequence[Step], flow: Flow, shape: TableSizes) -> None:
        binds = np.zeros((shape.members, shape.event_classes), bool)
        first_dropped = np.full((shape.states, shape.classes), shape.slices, np.int16)  # slice from which on rows drop
        saved, kept = [0.0], [1.0]
        self._binds, self._first_dropped = [binds.copy()], [first_dropped.copy()]
        self._slices = np.arange(shape.slices)
        for number, step in enumerate(steps):
            if step.events:
                binds[step.owner, step.number] = True
            else:
                cell = step.owner, step.number
                first_dropped[cell] = min(step.slice, first_dropped[cell])
            following = steps[number + 1] if number + 1 < len(steps) else None
            together = following is not None and (step.saved, step.kept) == (following.saved, following.kept)
            if together or step.saved <= saved[-1]:  # a step that saves nothing joins the next level
                continue
            saved.append(step.saved)
            kept.append(min(step.kept, kept[-1]))
            self._binds.append(binds.copy())
            self._first_dropped.append(first_dropped.copy())
        self.saved, self.kept = np.array(saved), np.array(kept)
        self._born = [self._reached(flow, *level) for level in zip(self._binds, self._first_dropped, strict=True)]
        self.free = int(np.flatnonzero(self.kept >= 1 - _FREE)[-1])

    @staticmethod
    def _reached(flow: Flow, binds: Bits, first_dropped: npt.NDArray[np.int16]) -> Bits:
        """Return a mask, by state and class, of the groups that are still created.

        Births of the other groups need not be refused. A partial match that was let through to explore the stream is
        therefore not dropped again later.
        """
        child = flow.child
        withheld = binds[:, : flow.event_stride].reshape(-1)
        born = first_dropped[:, : flow.stride].reshape(-1) > 0
        created = ~withheld[child["kind"]] & ((child["source"] < 0) | born[child["source"]])
        reached = np.zeros(first_dropped.shape, bool)
        reached[:, : flow.stride] = (np.bincount(child["target"], created, born.size) > 0).reshape(-1, flow.stride)
        return reached

    def optimal_demand(self, loss: float) -> float:
        """Return the demand that loses least under a work limit that alone loses the share ``loss`` of the matches.

        The loss by the work limit is assumed to fall in proportion to the work that is saved.
        """
        return float(self.saved[np.argmin(1 - self.kept + loss * (1 - self.saved))])

    def choose(self, demand: float) -> Selection:
        """Return the selection that saves a share of the work."""
        last = len(self.saved) - 1
        level = min(max(int(np.searchsorted(self.saved, demand, "right")) - 1, self.free), last)
        upper, part = min(level + 1, last), 0.0
        if upper > level and demand > self.saved[level]:
            part = float((demand - self.saved[level]) / (self.saved[upper] - self.saved[level]))
        lower_cells, upper_cells = (self._slices >= self._first_dropped[at][:, :, None] for at in (level, upper))
        return Selection(
            (1 - part) * self._binds[level] + part * self._binds[upper],
            self._born[level][:, :, None].astype(np.float64) * ((1 - part) * lower_cells + part * upper_cells),
            float((1 - part) * self.kept[level] + part * self.kept[upper]),
            float((1 - part) * self.saved[level] + part * self.saved[upper]),
        )  # fmt: skip
