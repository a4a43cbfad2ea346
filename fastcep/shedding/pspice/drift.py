"""Drift of a stream from a model of pSPICE: children that the matcher counts while load is shed, and on the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.shedding.pspice.children import children_by_age
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.pspice.occupancy import Occupancy
from fastcep.stored import AMOUNT, COUNT, FLAG, grid, record

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["Drift"]

Floats = npt.NDArray[np.float64]

#: Share of the counts that is kept when those of another window are added.
_KEPT = 0.95

#: Least share of all children, and least number of them, that a pair of states must have to count.
_COMMON, _FEWEST = 0.01, 30.0

#: Number of standard errors by which a difference is reduced.
_ERRORS = 2.0

#: Number of windows before the drift counts.
_WINDOWS = 8


class Drift:
    """Compares the number of children by state of the parent and of the child with that on the history.

    Only the children of *intact* cells are compared: those of parents of a state and age slice such that neither they
    nor partial matches that lead to them are dropped. Their number does not depend on what is shed. The children of
    others could only be estimated from the few of them that are kept. Children that are refused count as well.

    The last windows count most. The standard error of a count follows from how much it varies between windows.

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
    is_known
        False if there is nothing to compare with, or if the matcher does not know ages.
    """

    def __init__(self, model: PSpiceModel, window: float, slices: int) -> None:
        self._model, self._slices = model, slices
        self.expect(window)
        self.is_known = model.knows_age() and model.children is not None and self.per_event > 0
        states = len(model.states)
        leads = np.eye(states, dtype=bool) | (model.chain().children > 0)
        for _ in range(states):
            leads = leads @ leads
        self._leads = leads
        #: Counted and expected children, and the sums over windows of their squares and products, by parent and child.
        self._sums: Floats = np.zeros((5, states + 1, states))
        self._windows = 0
        self._dropped = np.zeros((2, states, slices), bool)  # cells dropped in the window before, and in this one

    def expect(self, window: float) -> None:
        """Expect windows with this number of events from now on: more children, as the matrix gives more parents."""
        history, now = (Occupancy(self._model, size, self._slices) for size in (self._model.window, window))
        states = len(self._model.states)
        counted = self._model.children
        per_event = np.zeros((states + 1, states, self._slices)) if counted is None else counted.by_slice(self._slices)
        before, after = ([item.births.sum(), *item.rows().sum(axis=1)] for item in (history, now))
        grown = np.divide(after, before, out=np.ones(states + 1), where=np.asarray(before) > 0)
        self._per_event = per_event * grown[:, None, None]
        # A state without partial matches only reports matches; those of a source are in one column.
        chain = self._model.chain()
        self._reports = np.flatnonzero(chain.births + chain.children.sum(axis=0) == 0)
        self._join_reports(self._per_event)
        self.per_event = float(self._per_event.sum())

    def note_drops(self, cells: npt.NDArray[np.bool_]) -> None:
        """Note the cells of which partial matches are dropped from now on: bool[states, slices]."""
        self._dropped[1] |= cells

    def end_window(self) -> None:
        """Begin another window: what was dropped in the one before it may still be missing."""
        self._dropped[0], self._dropped[1] = self._dropped[1], False

    def add(self, flows: Flows, events: int) -> None:
        """Add the counts of the last ``events`` events, about a window of them; see `QueryView.flows`."""
        intact = ~(self._leads.T @ np.logical_or.accumulate(self._dropped.any(axis=0), axis=1))
        counts = np.concatenate([np.ones((1, self._slices)), intact])[:, None, :]  # a birth has no parent
        counted = children_by_age(flows, self._model.chain_states, self._slices)
        self._join_reports(counted)
        found, wanted = (counted * counts).sum(axis=2), events * (self._per_event * counts).sum(axis=2)
        self._sums[:2] *= _KEPT
        self._sums[2:] *= _KEPT**2
        self._sums += np.stack([found, wanted, found * found, found * wanted, wanted * wanted])
        self._windows += 1

    def _join_reports(self, children: Floats) -> None:
        """Join the columns of states that only report matches, and leave out matches of single events."""
        if len(self._reports):
            children[:, self._reports[0]] = children[:, self._reports].sum(axis=1)
            children[:, self._reports[1:]] = 0.0
            children[0, self._reports] = 0.0

    @property
    def value(self) -> float | None:
        """Largest relative difference from the history of the common pairs of states, less `_ERRORS` standard errors.

        None: unknown.
        """
        counted = self._model.children
        if counted is None or not self.is_known or self._windows < _WINDOWS:
            return None
        found, wanted, squares, products, wanted_squares = self._sums
        larger = np.maximum(np.maximum(found, wanted), 1e-9)
        ratio = np.divide(found, wanted, out=np.zeros_like(found), where=wanted > 0)
        error = np.sqrt(np.maximum(squares - 2 * ratio * products + ratio**2 * wanted_squares, 0.0))
        # What is expected has an error as well: that of the mean of the windows of the history.
        weights, weight_squares = ((1 - kept**self._windows) / (1 - kept) for kept in (_KEPT, _KEPT**2))
        error *= np.sqrt(1 + weights**2 / weight_squares / counted.windows)
        difference = (np.abs(found - wanted) - _ERRORS * error) / larger
        counts = larger >= max(_COMMON * float(larger.sum()), _FEWEST)
        return float(difference[counts].max(initial=0.0))

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {"sums": self._sums.tolist(), "windows": self._windows, "dropped": self._dropped.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        sums, dropped = grid(AMOUNT, *self._sums.shape), grid(FLAG, *self._dropped.shape)
        record({"sums": sums, "windows": COUNT, "dropped": dropped})(dict(state), "drifts")
        self._sums, self._windows = np.array(state["sums"], float), state["windows"]
        self._dropped = np.array(state["dropped"], bool)
