"""Drift of a stream from a model of eSPICE: how differently the types of its events are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import QueryView
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.stored import AMOUNT, COUNT, grid, listed, record

__all__ = ["TypeDrift"]

Floats = npt.NDArray[np.float64]

#: Share of the counts that is kept when those of another window are added, and windows before the drift counts.
_KEPT, _WINDOWS = 0.9, 8
#: Number of standard errors by which the drift is reduced.
_ERRORS = 2.0


class TypeDrift:
    """Compares the share of each type among the events that the query can bind with the model.

    The matcher counts these events, also those that are dropped, so the counts do not depend on what is shed.

    Parameters
    ----------
    model
        Model of the query.
    """

    def __init__(self, model: ESpiceModel) -> None:
        expected = model.events.sum(axis=1)
        self._expected: Floats = expected / max(float(expected.sum()), 1e-9)
        self._counts: Floats = np.zeros(len(expected))
        self._seen: Floats | None = None  # counters at the last reading
        self._received, self._windows = 0, 0

    def add(self, view: QueryView) -> None:
        """Read the counters about once in a window."""
        if view.received - self._received < view.window_size and self._seen is not None:
            return
        seen = view.counted["seen"].astype(np.float64) / 256
        if self._seen is not None and (seen >= self._seen).all():
            self._counts = _KEPT * self._counts + seen - self._seen
            self._windows += 1
        self._seen, self._received = seen, view.received

    @property
    def value(self) -> float | None:
        """Total variation distance between both distributions, from 0 to 1, less `_ERRORS` standard errors.

        None: unknown.
        """
        total = float(self._counts.sum())
        if self._windows < _WINDOWS or total <= 0:
            return None
        chance = 0.5 * np.sqrt(self._expected * (1 - self._expected) / total).sum()
        distance = 0.5 * np.abs(self._counts / total - self._expected).sum()
        return max(0.0, float(distance - _ERRORS * chance))

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        seen = [] if self._seen is None else [self._seen.tolist()]
        return {"counts": self._counts.tolist(), "seen": seen, "received": self._received, "windows": self._windows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        counts = grid(AMOUNT, len(self._counts))
        record({"counts": counts, "seen": listed(counts), "received": COUNT, "windows": COUNT})(dict(state), "drifts")
        self._counts = np.array(state["counts"], float)
        self._seen = np.array(state["seen"][-1], float) if state["seen"] else None
        self._received, self._windows = state["received"], state["windows"]
