"""From the order in which classes are dropped to chances: how much of it a demand asks for.

Steps that save something together are a *level*; level 0 drops nothing. A demand is met by all levels that save no
more than it, and of the next one by a chance with which the rest is saved. What is dropped without a loss is dropped
whenever anything is demanded.
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

_FREE = 1e-9  # share of the matches that may be lost by what loses nothing


@dataclass(frozen=True)
class TableSizes:
    """Sizes of a query's tables: variables and classes of their events, states, classes and slices."""

    members: int
    event_classes: int
    states: int
    classes: int
    slices: int


@dataclass(frozen=True)
class Selection:
    """What is dropped for a demand.

    Attributes
    ----------
    binds, cells
        Chances by variable and class of the event, and by state, class and slice.
    kept, saved
        Shares of the matches that are left and of the work that is saved.
    """

    binds: Floats
    cells: Floats
    kept: float
    saved: float


class DropOrder:
    """Of one query.

    Parameters
    ----------
    steps
        In order.
    flow
        What they are of.
    shape
        Of its tables.

    Attributes
    ----------
    saved, kept
        float64[levels]: shares of the work and of the matches, ascending and descending.
    """

    def __init__(self, steps: Sequence[Step], flow: Flow, shape: TableSizes) -> None:
        binds = np.zeros((shape.members, shape.event_classes), bool)
        cut = np.full((shape.states, shape.classes), shape.slices, np.int16)
        saved, kept = [0.0], [1.0]
        self._binds, self._cuts, self._slices = [binds.copy()], [cut.copy()], np.arange(shape.slices)
        for number, step in enumerate(steps):
            if step.events:
                binds[step.of, step.number] = True
            else:
                cut[step.of, step.number] = min(step.slice, cut[step.of, step.number])
            behind = steps[number + 1] if number + 1 < len(steps) else None
            together = behind is not None and (step.saved, step.kept) == (behind.saved, behind.kept)
            if together or step.saved <= saved[-1]:  # what saves nothing more goes with the next that does
                continue
            saved.append(step.saved)
            kept.append(min(step.kept, kept[-1]))
            self._binds.append(binds.copy())
            self._cuts.append(cut.copy())
        self.saved, self.kept = np.array(saved), np.array(kept)
        self._born = [self._reached(flow, *dropped) for dropped in zip(self._binds, self._cuts, strict=True)]
        self.free = int(np.flatnonzero(self.kept >= 1 - _FREE)[-1])

    @staticmethod
    def _reached(flow: Flow, binds: Bits, cut: npt.NDArray[np.int16]) -> Bits:
        """Which groups are still born, by state and class: the births of the others need not be refused.

        So what is let through to explore goes on to the end, if it was let through once.
        """
        child = flow.child
        kinds = binds[:, : flow.event_stride].reshape(-1)
        begun = cut[:, : flow.stride].reshape(-1) > 0
        comes = ~kinds[child["kind"]] & ((child["source"] < 0) | begun[child["source"]])
        reached = np.zeros(cut.shape, bool)
        reached[:, : flow.stride] = (np.bincount(child["target"], comes, begun.size) > 0).reshape(-1, flow.stride)
        return reached

    def beside(self, loss: float) -> float:
        """The demand that loses least, where events are cut off and lose a share of the matches if it is 0.

        What is cut off is taken to be less by the share of the work that is saved.
        """
        return float(self.saved[np.argmin(1 - self.kept + loss * (1 - self.saved))])

    def choose(self, demand: float) -> Selection:
        """What is dropped to save a share of the work."""
        last = len(self.saved) - 1
        level = min(max(int(np.searchsorted(self.saved, demand, "right")) - 1, self.free), last)
        upper, part = min(level + 1, last), 0.0
        if upper > level and demand > self.saved[level]:
            part = float((demand - self.saved[level]) / (self.saved[upper] - self.saved[level]))
        own, more = (self._slices >= self._cuts[of][:, :, None] for of in (level, upper))
        return Selection(
            (1 - part) * self._binds[level] + part * self._binds[upper],
            self._born[level][:, :, None].astype(np.float64) * ((1 - part) * own + part * more),
            float((1 - part) * self.kept[level] + part * self.kept[upper]),
            float((1 - part) * self.saved[level] + part * self.saved[upper]),
        )  # fmt: skip
