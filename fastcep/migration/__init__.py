"""State shedding for migration: choose the partial states to send before a deadline, and simulate the transfer.

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastcep.migration.capacity import capacity_of
    from fastcep.migration.partition.engine_partition import partition
    from fastcep.migration.scenarios import scenario
    from fastcep.migration.selection import Plan, plan
    from fastcep.migration.simulation import Transfer, simulate
    from fastcep.migration.states import States

__all__ = ["Plan", "States", "Transfer", "capacity_of", "partition", "plan", "scenario", "simulate"]

_MODULE_OF = {
    "Plan": "selection",
    "States": "states",
    "Transfer": "simulation",
    "capacity_of": "capacity",
    "partition": "partition.engine_partition",
    "plan": "selection",
    "scenario": "scenarios",
    "simulate": "simulation",
}


# Importing the folder `partition` binds its name in this module, once. After that, the name can be the function.
import_module(f"{__name__}.partition")
globals().pop("partition", None)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
