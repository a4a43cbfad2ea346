"""State shedding for migration: choose the partial states to send before a deadline, and move them.

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastcep.extras import load_name

if TYPE_CHECKING:
    from fastcep.migration.capacity import capacity_of
    from fastcep.migration.operators.aggregate import WindowAggregate
    from fastcep.migration.operators.join import WindowJoin
    from fastcep.migration.partial_states.engine_partition import partition
    from fastcep.migration.selection import Plan, plan
    from fastcep.migration.simulation.scenarios import scenario
    from fastcep.migration.simulation.transfers import EventFlow, Transfer, simulate
    from fastcep.migration.states import States
    from fastcep.migration.transfer.receiving import Received, receive
    from fastcep.migration.transfer.report import Report
    from fastcep.migration.transfer.running import Migration
    from fastcep.migration.transfer.sending import send, start

__all__ = [
    "EventFlow", "Migration", "Plan", "Received", "Report", "States", "Transfer", "WindowAggregate", "WindowJoin",
    "capacity_of", "partition", "plan", "receive", "scenario", "send", "simulate", "start",
]  # fmt: skip

_MODULE_OF = {
    "EventFlow": "simulation.transfers",
    "Migration": "transfer.running",
    "Plan": "selection",
    "Received": "transfer.receiving",
    "Report": "transfer.report",
    "States": "states",
    "Transfer": "simulation.transfers",
    "WindowAggregate": "operators.aggregate",
    "WindowJoin": "operators.join",
    "capacity_of": "capacity",
    "partition": "partial_states.engine_partition",
    "plan": "selection",
    "receive": "transfer.receiving",
    "scenario": "simulation.scenarios",
    "send": "transfer.sending",
    "simulate": "simulation.transfers",
    "start": "transfer.sending",
}


def __getattr__(name: str) -> Any:
    return load_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted(__all__)
