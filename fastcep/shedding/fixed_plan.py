"""Run a query over history under a constant overload, to measure what drop plans do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fastcep.engine.engine import Engine
from fastcep.events import EventBatch, StringTable
from fastcep.events.batch import as_table
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Detector, QueryView, Shedder
from fastcep.query import ast

__all__ = ["MOST_EVENTS", "FixedPlan", "Measuring", "Overload", "engine_with", "latest"]

#: Largest number of events to measure on, the last ones of the history.
MOST_EVENTS = 50_000
#: Latency bound in ns that no event exceeds.
_NEVER = 1e15


class Measuring(Shedder):
    """Shedder that is used for a measurement; a subclass implements `decide`."""

    name = "measuring"

    def detector(self, of: str) -> Detector:
        """Return a detector that always reports overload."""
        return Overload()

    def spec(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": self.name}


class FixedPlan(Measuring):
    """Shedder with one drop plan, which drops events from windows.

    Parameters
    ----------
    plan
        The drop plan.
    """

    in_windows = True

    def __init__(self, plan: DropPlan) -> None:
        self._plan = plan

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan."""
        return [self._plan for _ in views]


class Overload(Detector):
    """Detector that always reports overload."""

    name = "overload"

    def read(self, load: Load) -> DetectorReading:
        """Report overload."""
        return DetectorReading(0.0, amount=0.5, of_present=False)

    def spec(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": self.name}


def engine_with(shedder: Measuring, query: ast.Query, cost_table: CostTable | str, index: Index) -> Engine:
    """Return an engine on the virtual clock that always sheds, by the plans of a shedder."""
    return Engine(
        query, latency_bound=_NEVER, clock="virtual", cost_table=cost_table, index=index, store="rows",
        shedder=shedder, detector=Overload(),
    )  # fmt: skip


def latest(query: ast.Query, history: Any, events: int) -> pa.Table:
    """Return the last ``events`` events of declared types of a history."""
    table = as_table(history, "history")
    batch = EventBatch.from_data(query.schema, table, StringTable(), "history")
    return table if len(batch) <= events else table.slice(batch.row(len(batch) - events))
