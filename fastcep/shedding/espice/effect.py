"""Effect of drops on the work and on the matches, measured on history.

The share of the events that is dropped from the windows is not the share of the work that this saves. An event that
extends no partial match costs next to nothing, and a window whose match is lost has work until its end. So a fit runs
the query over recent events, with the drops for several shares of the events, and counts the work and the matches.
A shedder reads from these which drops save the demanded share of the work. This is not in the paper, where every event
costs the same in each of its windows.

Where drops of single events save too little, whole windows are dropped at random: without a window there is no work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.results.match_identity import Identities, count_found, identities_of
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import without_warnings
from fastcep.query import ast
from fastcep.shedding.fixed_plan import FixedPlan, engine_with
from fastcep.stored import Misfit

__all__ = ["SHARES", "Effect", "measure_effect"]

Floats = npt.NDArray[np.float64]

#: Shares of the events of the windows whose drops are measured.
SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
#: Fewer matches say nothing about the share that is kept.
_FEWEST_MATCHES = 20
#: Shares of the events from which a shedder chooses.
_CHOICES = np.linspace(0.0, 1.0, 201)

_COLUMNS: dict[str, pa.DataType] = {"dropped": pa.float64(), "work": pa.float64(), "kept": pa.float64()}


@dataclass(frozen=True)
class Effect:
    """Effect of drops, by the share of the events that is dropped from each window.

    Attributes
    ----------
    dropped
        Share of the events, ascending from 0: float64[n].
    work
        Work, as a share of the work without drops: float64[n]. It may be above 1.
    kept
        Share of the matches that is found: float64[n].
    base
        Work if all windows are dropped, as a share of the work without drops.
    """

    dropped: Floats
    work: Floats
    kept: Floats
    base: float

    def drops_for(self, demand: float) -> tuple[float, float, float]:
        """Return the drops that save a share of the work and keep the most matches.

        Parameters
        ----------
        demand
            Share of the work to save, from 0 to 1.

        Returns
        -------
        dropped, whole, kept
            Share of the events to drop from each window, probability of dropping a whole window, and expected share of
            the matches that is found.
        """
        dropped = np.append(self.dropped, 1.0) if self.dropped[-1] < 1 else self.dropped
        work, kept = (
            np.interp(_CHOICES, dropped, np.append(values, end)[: len(dropped)])
            for values, end in ((self.work, self.base), (self.kept, 0.0))
        )
        room = np.maximum(1 - demand - self.base, 0.0)
        windows = np.divide(room, work - self.base, out=np.ones_like(work), where=work - self.base > room)
        best = int(np.argmax(np.round(kept * windows, 9)))
        return float(_CHOICES[best]), float(1 - windows[best]), float(kept[best] * windows[best])

    def table(self) -> pa.Table:
        """Return the effect by share as a table, for a model; `base` is a number of the model."""
        return pa.table({"dropped": self.dropped, "work": self.work, "kept": self.kept})

    @classmethod
    def of(cls, table: pa.Table, base: float) -> Effect:
        """Read a `table`; raise `Misfit` if it is malformed."""
        if list(zip(table.schema.names, table.schema.types, strict=True)) != list(_COLUMNS.items()):
            raise Misfit("effect", "another table", f"one with the columns {', '.join(_COLUMNS)}")
        if any(table[name].null_count for name in _COLUMNS):
            raise Misfit("effect", "nulls", "none")
        dropped, work, kept = (table[name].to_numpy() for name in _COLUMNS)
        if not all(np.isfinite(values).all() and (values >= 0).all() for values in (dropped, work, kept)) or not (
            len(dropped) > 1 and dropped[0] == 0 and dropped[-1] <= 1 and (np.diff(dropped) > 0).all()
        ):
            raise Misfit("effect", "numbers that are out of range", "ascending shares of events, and no negatives")
        return cls(dropped, work, kept, base)


def measure_effect(
    query: ast.Query, history: pa.Table, drops: Sequence[tuple[Floats, int, float]], cost_table: CostTable | str,
    index: Index,
) -> Effect:  # fmt: skip
    """Run a query over history with drops, and without windows, and compare work and matches with a run without drops.

    Parameters
    ----------
    query
        Query over explicit windows.
    history
        Events, in order.
    drops
        For each of `SHARES` above 0: the drop probabilities by type and bin, float64[types, bins], the number of events
        in a bin, and the expected share of the matches, which counts if the history has too few matches.
    cost_table, index
        Cost table and index option of the engines that are to shed.
    """
    truth, full = _run(query, history, DropPlan(kept=1.0), cost_table, index)
    truth.sort()
    work, kept = [1.0], [1.0]
    for probabilities, bin_size, expected in drops:
        plan = DropPlan(windows=np.ascontiguousarray(probabilities), bin=bin_size, kept=1.0)
        found, cost = _run(query, history, plan, cost_table, index)
        work.append(cost / full if full > 0 else 1.0)
        kept.append(count_found(found, truth) / len(truth) if len(truth) >= _FEWEST_MATCHES else expected)
    _, base = _run(query, history, DropPlan(whole_windows=1.0, kept=1.0), cost_table, index)
    return Effect(np.array(SHARES), np.array(work), np.array(kept), min(1.0, base / full) if full > 0 else 0.0)


def _run(
    query: ast.Query, history: pa.Table, plan: DropPlan, cost_table: CostTable | str, index: Index
) -> tuple[Identities, float]:
    """Return the identities of the matches with a drop plan, and the cost of all events on the virtual clock in ns."""
    engine = engine_with(FixedPlan(plan), query, cost_table, index)
    costs: list[Floats] = []
    engine.listen(lambda processing, _: costs.append(processing.copy()))
    with without_warnings():
        found = [identities_of(matches.to_arrow(), query) for matches in (engine.process(history), engine.flush())]
    return np.concatenate(found), fsum(np.concatenate(costs)) if costs else 0.0  # the same for any batches
