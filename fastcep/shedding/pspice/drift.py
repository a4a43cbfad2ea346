"""Drift of a stream from a model of pSPICE: children that the matcher counts while load is shed, and those expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.shedding.counts.chain_states import MOST_NUMBERS
from fastcep.shedding.hybrid.flow_keys import field_of
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
    """Compares the number of children by state of the parent and of the child with the model.

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
        False if there is nothing to compare, or if the matcher does not know ages.
    """

    def __init__(self, model: PSpiceModel, window: float, slices: int) -> None:
        self._model, self._slices = model, slices
        self.expect(window)
        self.is_known = model.knows_age() and self.per_event > 0
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
        """Expect windows with this number of events from now on."""
        chain, occupancy = self._model.chain(), Occupancy(self._model, window, self._slices)
        rows = occupancy.rows()
        self._begun, self._children = occupancy.births, rows[:, :, None] * chain.children[:, None, :]
        # A state without partial matches only reports matches; those of a source are in one column.
        self._reports = np.flatnonzero(occupancy.births + self._children.sum(axis=(0, 1)) == 0)
        if len(self._reports):
            self._children[:, :, self._reports[0]] = rows * chain.matches[:, None]
        self.per_event = float(self._begun.sum() + self._children.sum())

    def note_drops(self, cells: npt.NDArray[np.bool_]) -> None:
        """Note the cells of which partial matches are dropped from now on: bool[states, slices]."""
        self._dropped[1] |= cells

    def end_window(self) -> None:
        """Begin another window: what was dropped in the one before it may still be missing."""
        self._dropped[0], self._dropped[1] = self._dropped[1], False

    def add(self, flows: Flows, events: int) -> None:
        """Add the counts of the last ``events`` events, about a window of them; see `QueryView.flows`."""
        keys, counts = flows[:2]
        intact = ~(self._leads.T @ np.logical_or.accumulate(self._dropped.any(axis=0), axis=1))
        source, child, age = field_of(keys, "source"), self._state(keys, "target"), field_of(keys, "slice")
        parent = np.where(source > 0, self._state(keys, "source", 1) + 1, 0)
        counted = np.where(parent == 0, True, intact[np.maximum(parent - 1, 0), np.minimum(age, intact.shape[1] - 1)])
        shape = self._sums.shape[1:]
        found = np.bincount(parent * shape[1] + child, counts * counted, shape[0] * shape[1])[: shape[0] * shape[1]]
        found = found.reshape(shape)
        if len(self._reports):
            found[:, self._reports[0]] = found[:, self._reports].sum(axis=1)
            found[:, self._reports[1:]] = 0.0
            found[0, self._reports] = 0.0  # matches of single events
        wanted = events * np.vstack([self._begun, (self._children * intact[:, :, None]).sum(axis=1)])
        self._sums[:2] *= _KEPT
        self._sums[2:] *= _KEPT**2
        self._sums += np.stack([found, wanted, found * found, found * wanted, wanted * wanted])
        self._windows += 1

    def _state(self, keys: npt.NDArray[np.uint64], name: str, first: int = 0) -> npt.NDArray[np.int64]:
        """Return the states of the chain in a field of keys, in which the states of the plan count from ``first``."""
        state, of_class = field_of(keys, name), field_of(keys, f"{name}_class")
        places = self._model.chain_states.of_class(MOST_NUMBERS)
        return np.asarray(places[np.maximum(state - first, 0), of_class])

    @property
    def value(self) -> float | None:
        """Largest relative difference from the model of the common pairs of states, less `_ERRORS` standard errors.

        None: unknown.
        """
        if not self.is_known or self._windows < _WINDOWS:
            return None
        found, wanted, squares, products, wanted_squares = self._sums
        larger = np.maximum(np.maximum(found, wanted), 1e-9)
        ratio = np.divide(found, wanted, out=np.zeros_like(found), where=wanted > 0)
        error = np.sqrt(np.maximum(squares - 2 * ratio * products + ratio**2 * wanted_squares, 0.0))
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
