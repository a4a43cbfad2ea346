"""Test for changes of a stream: cumulative sums (CUSUM, Page 1954) of the differences of counts from their model.

There is a chart for every cell and for every pool of cells. Each step adds the standardised difference of the counts of
one window, less an allowance, in both directions. Evidence that is too weak within a window therefore adds up. For
independent normal differences, the number of false alarms per step is at most `FALSE_ALARMS`, by Siegmund's
approximation of the average run length: ``exp(2 * k * (h + 1.166)) / (2 * k ** 2)`` steps, for one direction of one
chart with allowance ``k`` and threshold ``h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.stored import AMOUNT, NUMBER, by_name, grid, whole

__all__ = ["FALSE_ALARMS", "ChangeTest"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: False alarms per step, and the allowance in standard deviations: half of the smallest change to detect.
FALSE_ALARMS, _ALLOWANCE = 1e-4, 0.5
#: Largest standardised difference of a step, so that no single step is an alarm, and the correction of the threshold
#: because sums exceed it by more than nothing.
_LARGEST, _OVERSHOOT = 5.0, 1.166
#: Smallest change that matters, as a share of the counts.
_MUCH = 0.2


class ChangeTest:
    """CUSUM charts, by number.

    Attributes
    ----------
    level
        Largest sum of a chart whose difference matters, as a share of the threshold; 1 or more is an alarm.
    """

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.int64)
        self._charts = np.empty((0, 6))  # sums upwards and downwards; since each was 0: differences, and both counts
        self.level = 0.0

    def step(self, numbers: Ints, found: Floats, wanted: Floats, variance: Floats) -> bool:
        """Add the counts of a window; return whether the stream has changed.

        Parameters
        ----------
        numbers
            Numbers of the charts, unique. New numbers begin new charts; charts without counts keep their sums.
        found, wanted, variance
            Counts, the counts that the model expects, and the variances of their difference.
        """
        every = np.union1d(self._numbers, numbers)
        charts = np.zeros((len(every), 6))
        charts[np.searchsorted(every, self._numbers)] = self._charts
        at = np.searchsorted(every, numbers)
        difference, both = found - wanted, found + wanted
        score = np.clip(difference / np.sqrt(np.maximum(variance, 1e-9)), -_LARGEST, _LARGEST)
        for side, sign in enumerate((1, -1)):
            columns = slice(2 + 2 * side, 4 + 2 * side)
            total = np.maximum(0.0, charts[at, side] + sign * score - _ALLOWANCE)
            sums = charts[at, columns] + np.stack([sign * difference, both], axis=1)
            charts[at, side] = total
            charts[at, columns] = np.where(total[:, None] > 0, sums, 0.0)
        self._numbers, self._charts = every, charts
        threshold = log(2 * len(every) * 2 * _ALLOWANCE**2 / FALSE_ALARMS) / (2 * _ALLOWANCE) - _OVERSHOOT
        matters = charts[:, (2, 4)] > _MUCH * charts[:, (3, 5)]
        self.level = float((charts[:, :2] * matters).max(initial=0.0)) / threshold
        if self.level < 1:
            return False
        self._numbers, self._charts = np.empty(0, np.int64), np.empty((0, 6))
        return True

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        charts = {str(number): chart for number, chart in zip(self._numbers, self._charts.tolist(), strict=True)}
        return {"level": self.level, "charts": charts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`; raise `Misfit` if it is invalid."""
        AMOUNT(state["level"], "change, level")
        by_name(grid(NUMBER, 6))(state["charts"], "change, charts")
        numbers = [int(number) for number in state["charts"]]
        for number in numbers:
            whole(0)(number, "change, charts")
        order = np.argsort(numbers)
        self._numbers = np.array(numbers, np.int64)[order]
        self._charts = np.array(list(state["charts"].values()), float).reshape(-1, 6)[order]
        self.level = state["level"]
