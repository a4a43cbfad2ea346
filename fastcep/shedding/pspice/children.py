"""Children that partial matches of each state and age have on history, as `Drift` expects them of the stream.

The matrix of the model forgets how long a partial match took to get into its state. If all steps of a match follow each
other quickly, its partial matches are younger than the matrix predicts. So the children are counted by age, by the
matcher itself, which counts them on the stream in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import without_warnings
from fastcep.overload.protocols import Classes, QueryView
from fastcep.overload.validation import MOST_SLICES
from fastcep.query import ast
from fastcep.shedding.counts.chain_states import MOST_NUMBERS, ChainStates, classes_by_number
from fastcep.shedding.fixed_plan import MOST_EVENTS, FixedPlan, engine_with
from fastcep.shedding.hybrid.flow_keys import field_of
from fastcep.stored import Misfit

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["Children", "children_by_age", "count_children", "events_to_count"]

Floats = npt.NDArray[np.float64]

#: Number of windows whose children are counted, if the history has them, and largest number of events for them.
_WINDOWS, _MOST_EVENTS = 20, 1_000_000

_COLUMNS: dict[str, pa.DataType] = {
    "parent": pa.int32(), "child": pa.int32(), "slice": pa.int32(), "per_event": pa.float64(),
}  # fmt: skip


@dataclass(frozen=True)
class Children:
    """Mean number of children per event.

    Attributes
    ----------
    per_event
        By state of the parent (0: none, the child begins a match), by state of the child, and by slice of the parent's
        window: float64[states + 1, states, 64].
    windows
        Number of windows in which they were counted.
    """

    per_event: Floats
    windows: int

    def by_slice(self, slices: int) -> Floats:
        """Return the numbers for another number of slices: float64[states + 1, states, slices]."""
        bounds = np.linspace(0.0, MOST_SLICES, slices + 1)
        before = np.concatenate([np.zeros((*self.per_event.shape[:2], 1)), np.cumsum(self.per_event, axis=2)], axis=2)
        low = np.minimum(bounds.astype(np.int64), MOST_SLICES - 1)
        at = before[:, :, low] + (bounds - low) * self.per_event[:, :, low]
        return np.asarray(np.diff(at, axis=2))

    def table(self) -> pa.Table:
        """Return the numbers above 0 as a table, for a model."""
        parent, child, age = np.nonzero(self.per_event)
        columns = [*(place.astype(np.int32) for place in (parent - 1, child, age)), self.per_event[parent, child, age]]
        return pa.table(columns, schema=pa.schema(list(_COLUMNS.items())))

    @classmethod
    def of(cls, table: pa.Table, states: int, windows: int) -> Children:
        """Read a `table`; raise `Misfit` if it is malformed."""
        if list(zip(table.schema.names, table.schema.types, strict=True)) != list(_COLUMNS.items()):
            raise Misfit("children", "another table", f"one with the columns {', '.join(_COLUMNS)}")
        if any(table[name].null_count for name in _COLUMNS):
            raise Misfit("children", "nulls", "none")
        parent, child, age, per_event = (table[name].to_numpy() for name in _COLUMNS)
        for values, low, high in ((parent, -1, states), (child, 0, states), (age, 0, MOST_SLICES)):
            if not ((values >= low) & (values < high)).all():
                raise Misfit("children", "a state or slice that is out of range", f"numbers from {low} to {high - 1}")
        if not (np.isfinite(per_event) & (per_event > 0)).all():
            raise Misfit("children.per_event", "a number that is not above 0 or not finite", "numbers above 0")
        numbers = np.zeros((states + 1, states, MOST_SLICES))
        numbers[parent + 1, child, age] = per_event
        return cls(numbers, windows)


def children_by_age(flows: Flows, chain: ChainStates, slices: int) -> Floats:
    """Return the children that were counted (see `QueryView.flows`), indexed as those of `Children`."""
    keys, counts = flows[:2]
    places = chain.of_class(MOST_NUMBERS)
    source, target = field_of(keys, "source"), field_of(keys, "target")
    parent = np.where(source > 0, places[np.maximum(source - 1, 0), field_of(keys, "source_class")] + 1, 0)
    child = places[target, field_of(keys, "target_class")]
    age = np.where(source > 0, np.minimum(field_of(keys, "slice"), slices - 1), 0)
    shape = (len(chain.names) + 1, len(chain.names), slices)
    found = np.zeros(shape)
    np.add.at(found, (parent, child, age), counts)
    return found


def events_to_count(window: float) -> int:
    """Return on how many events, the last ones of the history, children are counted, given the size of a window.

    The first window does not count, because partial matches are missing in it.
    """
    return min(max(MOST_EVENTS, ceil((_WINDOWS + 1) * window)), _MOST_EVENTS)


def count_children(query: ast.Query, history: pa.Table) -> Children | None:
    """Run a query over history and count the children of its partial matches; None if it has less than two windows."""
    shedder = _Counting(query)
    engine = engine_with(shedder, query, CostTable("none"), "full")
    with without_warnings():
        engine.process(history)
    if not shedder.windows:
        return None
    return Children(shedder.found / shedder.events, shedder.windows)


class _Counting(FixedPlan):
    """Shedder that drops nothing and counts children, after the first window, in which partial matches are missing."""

    def __init__(self, query: ast.Query) -> None:
        super().__init__(DropPlan(), drops_matches=True)
        self.slices = MOST_SLICES
        self.windows = self.events = 0
        self.found: Any = 0.0
        self._since = 0

    def classes(self, query: ast.Query) -> dict[str, Classes]:
        """Return the classes by the number of events that the variable bound last has bound."""
        return dict(classes_by_number(query))

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a plan that counts."""
        births = np.zeros((len(views[0].plan.states), views[0].classes, views[0].slices))
        return [DropPlan(births=births, steady=True, kept=1.0, counts=1.0)]

    def learn(self, views: Sequence[QueryView]) -> None:
        """Read the counts about once in a window."""
        (view,) = views
        events = view.received - self._since
        if events < view.window_size:
            return
        flows, first = view.flows(), self._since == 0
        self._since = view.received
        if not first:
            self.found = self.found + children_by_age(flows, ChainStates.of(view.plan), MOST_SLICES)
            self.events += events
            self.windows += max(1, round(events / view.window_size))
