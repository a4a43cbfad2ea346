"""Drift of a stream since a model is in use: how differently the types of its events are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import QueryView
from fastcep.stored import AMOUNT, COUNT, grid, listed, record

__all__ = ["TypeDrift"]

Floats = npt.NDArray[np.float64]

#: Share of the counts that is kept when those of another window are added, and windows that are compared at least.
_KEPT, _WINDOWS = 0.9, 8
#: Number of standard errors by which the drift is reduced.
_ERRORS = 2.0


class TypeDrift:
    """Compares the shares of the types among the events that the query can bind with those of the first windows.

    The matcher counts these events, also those that are dropped, so the counts do not depend on what is shed. They
    include events outside of windows, which the model does not know, so the first windows in which load is shed are the
    reference, not the history.

    Parameters
    ----------
    types
        Number of event types.
    """

    def __init__(self, types: int) -> None:
        self._first: Floats = np.zeros(types)
        self._last: Floats = np.zeros(types)
        self._seen: Floats | None = None  # counters at the last reading
        self._received, self._windows = 0, 0

    def add(self, view: QueryView) -> None:
        """Read the counters about once in a window."""
        if view.received - self._received < view.window_size and self._seen is not None:
            return
        seen = view.counted["seen"].astype(np.float64) / 256
        if self._seen is not None and (seen >= self._seen).all():
            if self._windows < _WINDOWS:
                self._first += seen - self._seen
            else:
                self._last = _KEPT * self._last + seen - self._seen
            self._windows += 1
        self._seen, self._received = seen, view.received

    @property
    def value(self) -> float | None:
        """Total variation distance between both distributions, from 0 to 1, less `_ERRORS` standard errors.

        None: unknown.
        """
        totals = float(self._first.sum()), float(self._last.sum())
        if self._windows < 2 * _WINDOWS or min(totals) <= 0:
            return None
        shares = self._first / totals[0], self._last / totals[1]
        both = (self._first + self._last) / sum(totals)
        chance = 0.5 * float(np.sqrt(both * (1 - both) * (1 / totals[0] + 1 / totals[1])).sum())
        return max(0.0, 0.5 * float(np.abs(shares[1] - shares[0]).sum()) - _ERRORS * chance)

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        seen = [] if self._seen is None else [self._seen.tolist()]
        return {
            "first": self._first.tolist(), "last": self._last.tolist(), "seen": seen, "received": self._received,
            "windows": self._windows,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        counts = grid(AMOUNT, len(self._first))
        record({
            "first": counts, "last": counts, "seen": listed(counts), "received": COUNT, "windows": COUNT,
        })(dict(state), "drifts")  # fmt: skip
        self._first, self._last = np.array(state["first"], float), np.array(state["last"], float)
        self._seen = np.array(state["seen"][-1], float) if state["seen"] else None
        self._received, self._windows = state["received"], state["windows"]
