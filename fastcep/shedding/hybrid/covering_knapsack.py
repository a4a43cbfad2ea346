"""What to drop by the covering knapsack of the paper (hybrid, section IV-B).

An item is a cell: partial matches of a state and class, in a slice of their window. Its value is the contribution that
is lost with them, its weight their consumption; both are what is expected of the state without shedding. Chosen is what
loses least and has at least the demanded share of all weights. An event is dropped for a variable where all that it
could become is chosen.

The weights of a partial match and of those that come of it overlap, so that less is saved than is covered; the control
asks for more then. `DropOrder`, which knows what comes of what, loses less for the same latency.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.covering_knapsack import Knapsack, greedy
from fastcep.overload.costs import CostTable
from fastcep.shedding.hybrid.drop_order import Selection, TableSizes
from fastcep.shedding.hybrid.flow import Flow

__all__ = ["CoveringKnapsack"]

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

_STEPS = 1000


class CoveringKnapsack:
    """Of one query.

    Parameters
    ----------
    flow
        How partial matches come of each other.
    prices
        What operations cost.
    shape
        Of the query's tables.
    events, rows
        Whether events, and partial matches, may be dropped.
    exact
        By dynamic programming; else what has least contribution per consumption first.
    more
        float64[groups, slices]: by how much what counts of a cell's contribution is more than its mean.
    """

    def __init__(
        self, flow: Flow, prices: CostTable, shape: TableSizes, events: bool, rows: bool, exact: bool, more: Floats
    ) -> None:
        self._flow, self._prices, self._shape = flow, prices, shape
        self._events, self._rows, self._exact = events, rows, exact
        lost, spent, _, _ = flow.cascade(prices).weights()  # from each slice on: what is still to come of who is there
        self._cells = np.argwhere(spent > 0)
        self._values = (lost * more)[tuple(self._cells.T)]
        self._weights = spent[tuple(self._cells.T)]
        self._knapsack = Knapsack(max(len(self._cells), 1), _STEPS)

    def beside(self, loss: float) -> float:
        """The demand that loses least where events are cut off: it is not known here."""
        return 0.0

    def choose(self, demand: float) -> Selection:
        """What is dropped to cover a share of the weights."""
        flow, shape = self._flow, self._shape
        need = demand * float(self._weights.sum())
        solve = self._knapsack.cover if self._exact else greedy
        falls = np.zeros((flow.states * flow.stride, flow.slices), bool)
        if len(self._cells):
            chosen = np.asarray(solve(self._values, self._weights, need)) > 0
            falls[tuple(self._cells[chosen].T)] = True
        withheld = self._withheld(falls) if self._events else np.zeros(flow.members * flow.event_stride, bool)
        kept, saved = self._left(falls, withheld)
        binds = np.zeros((shape.members, shape.event_classes))
        binds[:, : flow.event_stride] = withheld.reshape(flow.members, -1)
        cells = np.zeros((shape.states, shape.classes, shape.slices))
        if self._rows:
            cells[:, : flow.stride] = falls.reshape(flow.states, flow.stride, -1)
        return Selection(binds, cells, kept, saved)

    def _withheld(self, falls: Bits) -> Bits:
        """The kinds of events all of whose children fall, and are no matches."""
        child = self._flow.child
        lives = ~falls[child["target"], child["slice"]] | (child["matched"] > 0)
        size = self._flow.members * self._flow.event_stride
        some = np.bincount(child["kind"], minlength=size) > 0
        return np.asarray(some & (np.bincount(child["kind"], lives, size) == 0), bool)

    def _left(self, falls: Bits, withheld: Bits) -> tuple[float, float]:
        """The shares of the matches that are left and of the work that is saved."""
        cascade = self._flow.cascade(self._prices)
        fixed = self._flow.fixed(self._prices)
        cost, found = cascade.cost + fixed, cascade.found
        rows = np.flatnonzero(falls.any(axis=1)).tolist() if self._rows else []
        cascade.drop(
            [(1, kind, 0) for kind in np.flatnonzero(withheld).tolist()]
            + [(0, group, int(np.argmax(falls[group]))) for group in rows]
        )
        return cascade.found / max(found, 1e-9), 1 - (cascade.cost + fixed) / max(cost, 1e-9)
