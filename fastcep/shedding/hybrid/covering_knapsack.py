"""Choose what to drop by the covering knapsack of the paper (hybrid, section IV-B).

An item is a cell: partial matches of a state and class, in a slice of their window. Its value is the contribution that
is lost, its weight the consumption that is saved; both are expected values of the state without shedding. The solution
loses least and covers at least the demanded share of all weights. An event is dropped for a variable if all partial
matches that it could create are in the solution.

The weights of a partial match and of its descendants overlap, so less is saved than is covered; the controller then
increases the demand. `DropOrder`, which knows the descendants, loses less for the same latency.
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
    """Covering knapsack of one query.

    Parameters
    ----------
    flow
        Flow of the query.
    costs
        Costs of operations.
    events, rows
        Whether events, and partial matches, may be dropped.
    exact
        True: dynamic programming. False: greedy, by ascending contribution per consumption.
    factor
        Ratio of the percentile to the mean of a cell's contribution: float64[groups, slices].
    """

    def __init__(
        self, flow: Flow, costs: CostTable, events: bool, rows: bool, exact: bool, factor: Floats
    ) -> None:
        self._flow, self._prices = flow, costs
        self._events, self._rows, self._exact = events, rows, exact
        lost, spent, _, _ = flow.cascade(costs).weights()  # of the partial matches in a slice, from then on
        self._cells = np.argwhere(spent > 0)
        self._values = (lost * factor)[tuple(self._cells.T)]
        self._weights = spent[tuple(self._cells.T)]
        self._knapsack = Knapsack(max(len(self._cells), 1), _STEPS)

    def optimal_demand(self, loss: float) -> float:
        """Return 0: the demand that loses least under a work limit is not known here."""
        return 0.0

    def kept_at(self, demand: float) -> float:
        """Return 0: the share of the matches that is kept for a demand is not known in advance here."""
        return 0.0

    def choose(self, demand: float, sizes: TableSizes, free: bool = True) -> Selection:
        """Return the selection that covers a share of the weights; ``free`` has no effect."""
        flow = self._flow
        need = demand * float(self._weights.sum())
        solve = self._knapsack.cover if self._exact else greedy
        dropped = np.zeros((flow.states * flow.stride, flow.slices), bool)
        if len(self._cells):
            chosen = np.asarray(solve(self._values, self._weights, need)) > 0
            dropped[tuple(self._cells[chosen].T)] = True
        withheld = self._withheld(dropped) if self._events else np.zeros(flow.members * flow.event_stride, bool)
        kept, saved = self._effect(dropped, withheld)
        binds = np.zeros((flow.members, sizes.event_classes))
        binds[:, : flow.event_stride] = withheld.reshape(flow.members, -1)
        cells = np.zeros((flow.states, sizes.classes, flow.slices))
        if self._rows:
            cells[:, : flow.stride] = dropped.reshape(flow.states, flow.stride, -1)
        return Selection(binds, cells, kept, saved)

    def _withheld(self, dropped: Bits) -> Bits:
        """Return the kinds of events whose children are all dropped and are not matches."""
        child = self._flow.child
        kept = ~dropped[child["target"], child["slice"]] | (child["matched"] > 0)
        size = self._flow.members * self._flow.event_stride
        some = np.bincount(child["kind"], minlength=size) > 0
        return np.asarray(some & (np.bincount(child["kind"], kept, size) == 0), bool)

    def _effect(self, dropped: Bits, withheld: Bits) -> tuple[float, float]:
        """Return the share of the matches that is kept, and the share of the work that is saved."""
        cascade = self._flow.cascade(self._prices)
        fixed = self._flow.fixed(self._prices)
        cost, found = cascade.cost + fixed, cascade.matches
        rows = np.flatnonzero(dropped.any(axis=1)).tolist() if self._rows else []
        cascade.drop(
            [(1, kind, 0) for kind in np.flatnonzero(withheld).tolist()]
            + [(0, group, int(np.argmax(dropped[group]))) for group in rows]
        )
        return cascade.matches / max(found, 1e-9), 1 - (cascade.cost + fixed) / max(cost, 1e-9)
