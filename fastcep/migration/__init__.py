"""State shedding for migration: choose the partial states to send before a deadline, and simulate the transfer.

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastcep.extras import load_name

if TYPE_CHECKING:
    from fastcep.migration.capacity import capacity_of
    from fastcep.migration.operators.aggregate import WindowAggregate
    from fastcep.migration.operators.join import WindowJoin
    from fastcep.migration.partition.engine_partition import partition
    from fastcep.migration.selection import Plan, plan
    from fastcep.migration.simulation.scenarios import scenario
    from fastcep.migration.simulation.transfers import EventFlow, Transfer, simulate
    from fastcep.migration.states import States

__all__ = [
    "EventFlow", "Plan", "States", "Transfer", "WindowAggregate", "WindowJoin", "capacity_of", "partition", "plan",
    "scenario", "simulate",
]  # fmt: skip

_MODULE_OF = {
    "EventFlow": "simulation.transfers",
    "Plan": "selection",
    "States": "states",
    "Transfer": "simulation.transfers",
    "WindowAggregate": "operators.aggregate",
    "WindowJoin": "operators.join",
    "capacity_of": "capacity",
    "partition": "partition.engine_partition",
    "plan": "selection",
    "scenario": "simulation.scenarios",
    "simulate": "simulation.transfers",
}


# Importing the folder `partition` binds its name in this module, once. After that, the name can be the function.
import_module(f"{__name__}.partition")
globals().pop("partition", None)


def __getattr__(name: str) -> Any:
    return load_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted(__all__)
