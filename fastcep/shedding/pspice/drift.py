"""Drift of a stream from a model of pSPICE: children that the matcher counts while load is shed, and those expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.query import ast
from fastcep.shedding.hybrid.flow_keys import field_of
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.pspice.occupancy import Occupancy
from fastcep.stored import AMOUNT, COUNT, grid, record

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["Drift"]

Floats = npt.NDArray[np.float64]

#: Share of the counts that is kept when those of another window are added.
_KEPT = 0.95

#: Least share of all expected children that a pair of states must have to count, and largest relative standard
#: deviation of the sampled count.
_COMMON, _UNSURE = 0.05, 0.1

#: Number of windows before the drift counts.
_WINDOWS = 8


class Drift:
    """Compares the number of children by state of the parent and of the child with the model.

    Counts are those of `QueryView.flows`: estimates of what they would be if nothing were dropped. The last windows
    count most.

    Parameters
    ----------
    model
        Model of the query.
    window, slices
        Number of events in a window, and of its slices.

    Attributes
    ----------
    per_event
        Expected number of children per event.
    """

    def __init__(self, model: PSpiceModel, window: float, slices: int) -> None:
        chain, rows = model.chain(), Occupancy(model, window, slices).rows().sum(axis=1)
        expected = np.vstack([chain.births / chain.events, rows[:, None] * chain.children])
        # A state without partial matches only reports matches; those of a source are in one column.
        self._reports = np.flatnonzero(expected.sum(axis=0) == 0)
        if len(self._reports):
            expected[1:, self._reports[0]] = rows * chain.matches
        self._expected, self.per_event = expected, float(expected.sum())
        # Explicit windows may overlap, and the matcher shares partial matches among them, which the model counts apart.
        self._known = not isinstance(model.query.window, ast.ExplicitWindow) and self.per_event > 0
        self._found, self._squares = np.zeros((2, *self._expected.shape))
        self._events, self._windows = 0.0, 0

    def add(self, flows: Flows, events: int) -> None:
        """Add the counts of the last ``events`` events, about a window of them."""
        keys, counts, squares = flows[:3]
        pairs = field_of(keys, "source") * self._expected.shape[1] + field_of(keys, "target")
        for total, values in ((self._found, counts), (self._squares, squares)):
            total *= _KEPT
            total += np.bincount(pairs, values, total.size)[: total.size].reshape(total.shape)
        self._events = _KEPT * self._events + events
        self._windows += 1

    @property
    def value(self) -> float | None:
        """Largest relative difference from the model, of the common pairs of states; None: unknown."""
        if not self._known or self._windows < _WINDOWS:
            return None
        wanted = self._events * self._expected
        found, squares = self._found.copy(), self._squares.copy()
        for total in (found, squares) if len(self._reports) else ():
            total[:, self._reports[0]] = total[:, self._reports].sum(axis=1)
            total[:, self._reports[1:]] = 0.0
        larger = np.maximum(wanted, found)
        sure = np.sqrt(squares) <= _UNSURE * np.maximum(larger, 1e-9)
        counted = sure & (larger >= _COMMON * larger.sum())
        return float((np.abs(found - wanted) / np.maximum(larger, 1e-9))[counted].max(initial=0.0))

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "found": self._found.tolist(), "squares": self._squares.tolist(), "events": self._events,
            "windows": self._windows,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        counts = grid(AMOUNT, *self._expected.shape)
        record({"found": counts, "squares": counts, "events": AMOUNT, "windows": COUNT})(dict(state), "drifts")
        self._found, self._squares = np.array(state["found"]), np.array(state["squares"])
        self._events, self._windows = state["events"], state["windows"]
