"""Drift of a stream from a model of pSPICE: children that the matcher counts while load is shed, and on the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.shedding.pspice.children import counted_children, relative_difference
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.pspice.occupancy import Occupancy
from fastcep.stored import AMOUNT, COUNT, FLAG, grid, record

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["Drift"]

Floats = npt.NDArray[np.float64]

#: Share of the counts that is kept when those of another window are added.
_KEPT = 0.95

#: Largest factor by which the number of parents may change with the size of windows.
_MOST_GROWTH = 4.0

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
    value
        Relative difference from the history; None: unknown, or too few windows yet.
    """

    def __init__(self, model: PSpiceModel, window: float, slices: int) -> None:
        self._model, self._slices = model, slices
        if model.children is not None:
            self._parents = _parents(model, model.children.window, slices)  # on the history
        self.expect(window)
        self.is_known = model.knows_age() and model.children is not None and self.per_event > 0
        states = len(model.states)
        leads = np.eye(states, dtype=bool) | (model.chain().children > 0)
        for _ in range(states):
            leads = leads @ leads
        self._leads = leads
        #: Counted and expected children by parent and child, the error of the latter, and the sums over windows of
        #: squares and products.
        self._sums: Floats = np.zeros((6, states + 1, states))
        self._windows = 0
        self.value: float | None = None
        self._dropped = np.zeros((2, states, slices), bool)  # cells dropped in the window before, and in this one

    def expect(self, window: float) -> None:
        """Expect windows with this number of events from now on.

        In longer windows there are more parents, as the matrix predicts. Its prediction is not exact, so the change
        counts as an error, and children of parents whose number changes by more than a factor of `_MOST_GROWTH` are not
        compared.
        """
        counted = self._model.children
        states = len(self._model.states)
        self._per_event = np.zeros((states + 1, states, self._slices))
        self._error, self._growth = np.zeros((2, states + 1, states))
        self._comparable = np.ones(states + 1, bool)
        if counted is not None:
            before, after = self._parents, _parents(self._model, window, self._slices)
            ratio = np.divide(after, before, out=np.ones(states + 1), where=before > 0)
            self._comparable = (ratio >= 1 / _MOST_GROWTH) & (ratio <= _MOST_GROWTH)
            grown = np.where(self._comparable, ratio, 1.0)[:, None]
            base = counted.by_slice(self._slices)
            self._per_event, self._error = base * grown[:, :, None], counted.error * grown
            self._growth = base.sum(axis=2) * np.abs(grown - 1)
        # A state without partial matches only reports matches; those of a source are in one column.
        chain = self._model.chain()
        self._reports = np.flatnonzero(chain.births + chain.children.sum(axis=0) == 0)
        self._per_event, self._error, self._growth = (
            self._joined(values) for values in (self._per_event, self._error, self._growth)
        )
        self.per_event = float(self._per_event.sum())

    def note_drops(self, cells: npt.NDArray[np.bool_]) -> None:
        """Note the cells of which partial matches are dropped from now on: bool[states, slices]."""
        self._dropped[1] |= cells

    def end_window(self) -> None:
        """Begin another window: what was dropped in the one before it may still be missing."""
        self._dropped[0], self._dropped[1] = self._dropped[1], False

    def add(self, flows: Flows, events: int) -> None:
        """Add the counts of the last ``events`` events, about a window of them; see `QueryView.flows`."""
        if flows[3] > 0:  # too many pairs of states and ages: some children were not counted
            return
        intact = ~(self._leads.T @ np.logical_or.accumulate(self._dropped.any(axis=0), axis=1))
        compared = np.concatenate([np.ones((1, self._slices), bool), intact])  # a birth has no parent
        compared &= self._comparable[:, None]
        parent, child, age, counts = counted_children(flows, self._model.chain_states, self._slices)
        shape = self._error.shape
        pairs = np.bincount(parent * shape[1] + child, counts * compared[parent, age], self._error.size)
        found = self._joined(pairs.reshape(shape).astype(np.float64))
        total, expected = self._per_event.sum(axis=2), (self._per_event * compared[:, None, :]).sum(axis=2)
        share = np.divide(expected, total, out=np.zeros(shape), where=total > 0)
        wanted, error = events * expected, events * np.hypot(self._error * np.sqrt(share), self._growth * share)
        self._sums[:3] *= _KEPT
        self._sums[3:] *= _KEPT**2
        self._sums += np.stack([found, wanted, error, found * found, found * wanted, wanted * wanted])
        self._windows += 1
        self.value = self._difference()

    def _joined(self, children: Floats) -> Floats:
        """Join the columns of states that only report matches, and leave out matches of single events."""
        if not len(self._reports):
            return children
        joined = children.copy()
        joined[:, self._reports[0]] = children[:, self._reports].sum(axis=1)
        joined[:, self._reports[1:]] = 0.0
        joined[0, self._reports] = 0.0
        return joined

    def _difference(self) -> float | None:
        """Relative difference from the history, see `relative_difference`. None: unknown.

        The standard error has two parts: how much the stream varies between windows, and that of the history, which is
        the same in all windows.
        """
        if not self.is_known or self._windows < _WINDOWS:
            return None
        found, wanted, history, squares, products, wanted_squares = self._sums
        ratio = np.divide(found, wanted, out=np.zeros_like(found), where=wanted > 0)
        stream = np.maximum(squares - 2 * ratio * products + ratio**2 * wanted_squares, 0.0)
        return relative_difference(found, wanted, np.sqrt(stream + history**2))

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {"sums": self._sums.tolist(), "windows": self._windows, "dropped": self._dropped.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        sums, dropped = grid(AMOUNT, *self._sums.shape), grid(FLAG, *self._dropped.shape)
        record({"sums": sums, "windows": COUNT, "dropped": dropped})(dict(state), "drifts")
        self._sums, self._windows = np.array(state["sums"], float), state["windows"]
        self._dropped = np.array(state["dropped"], bool)
        self.value = self._difference()


def _parents(model: PSpiceModel, window: float, slices: int) -> Floats:
    """Return the numbers of births and of partial matches by state, as the matrix predicts: float64[states + 1]."""
    occupancy = Occupancy(model, window, slices)
    return np.array([occupancy.births.sum(), *occupancy.rows().sum(axis=1)])
