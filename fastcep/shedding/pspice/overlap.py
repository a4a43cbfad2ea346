"""Explicit windows that overlap: how many of them are open for a partial match.

In the matcher, windows share a partial match whose first event lies in all of them. Its age is that in the latest of
these windows, and it is reported once for each of them that is still open when it completes. How many these are follows
from how often windows open: in equal distances if they open EVERY n EVENTS or EVERY t, and at random (as a Poisson
process) if they open ON an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from fastcep.query import ast

__all__ = ["Overlap"]

Floats = npt.NDArray[np.float64]

_MOST = 256  #: number of open windows, or parts of a window, that are looked at


@dataclass(frozen=True)
class Overlap:
    """Windows that are open at a time.

    Attributes
    ----------
    size
        Number of events in a window.
    gap
        Mean number of events from the opening of one window to that of the next one; infinite: windows never overlap.
    random
        Whether windows open at random.
    """

    size: float
    gap: float = np.inf
    random: bool = False

    @classmethod
    def of(cls, window: ast.Window, size: float, opened: float) -> Overlap:
        """Return the overlap of the windows of a query, given the mean number of windows that are open at an event."""
        if not isinstance(window, ast.ExplicitWindow):
            return cls(size)
        random = bool(window.opening.types)
        return cls(size, size / opened, random) if random or opened > 1 else cls(size)

    def windows(self, age: npt.ArrayLike) -> Floats:
        """Return how many open windows contain a partial match, given its age in the latest one: float64[n]."""
        left = (self.size - np.asarray(age, np.float64)) / self.gap
        return 1.0 + left if self.random else np.maximum(1.0, np.ceil(left))

    def is_latest(self, age: npt.ArrayLike) -> Floats:
        """Return the share of the windows of which this is the age and that are the latest ones: float64[n]."""
        ages = np.asarray(age, np.float64)
        return np.exp(-ages / self.gap) if self.random else (ages < self.gap).astype(np.float64)

    def weights(self) -> tuple[Floats, Floats]:
        """Return how much earlier than the latest one the open windows of a partial match opened, in events, and how
        many each of these numbers stands for: float64[n] each.
        """
        if self.random:
            step = self.size / _MOST
            earlier = (np.arange(_MOST) + 0.5) * step
            return np.concatenate([[0.0], earlier]), np.concatenate([[1.0], np.full(_MOST, step / self.gap)])
        most = max(1, ceil(self.size / self.gap))
        number = min(most, _MOST)
        step = self.gap * most / number if number > 1 else 0.0
        return np.arange(number, dtype=np.float64) * step, np.full(number, most / number, np.float64)
