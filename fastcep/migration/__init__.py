"""State shedding for migration: choose the partial states to send before a deadline, and move them.

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastcep.migration.capacity import capacity_of
    from fastcep.migration.partial_states.engine_partition import partition
    from fastcep.migration.scenarios import scenario
    from fastcep.migration.selection import Plan, plan
    from fastcep.migration.simulation import Transfer, simulate
    from fastcep.migration.states import States
    from fastcep.migration.transfer.receiving import Received, receive
    from fastcep.migration.transfer.report import Report
    from fastcep.migration.transfer.running import Migration
    from fastcep.migration.transfer.sending import send, start

__all__ = [
    "Migration", "Plan", "Received", "Report", "States", "Transfer", "capacity_of", "partition", "plan", "receive",
    "scenario", "send", "simulate", "start",
]  # fmt: skip

_MODULE_OF = {
    "Migration": "transfer.running",
    "Plan": "selection",
    "Received": "transfer.receiving",
    "Report": "transfer.report",
    "States": "states",
    "Transfer": "simulation",
    "capacity_of": "capacity",
    "partition": "partial_states.engine_partition",
    "plan": "selection",
    "receive": "transfer.receiving",
    "scenario": "scenarios",
    "send": "transfer.sending",
    "simulate": "simulation",
    "start": "transfer.sending",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
