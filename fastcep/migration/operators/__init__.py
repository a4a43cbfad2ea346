"""Operators whose state can be sent in parts: aggregates over windows of time, and joins of two streams."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fastcep.migration.operators.aggregate import WindowAggregate
from fastcep.migration.operators.aggregate_assembly import start_aggregate
from fastcep.migration.operators.join import WindowJoin
from fastcep.migration.operators.join_assembly import start_join
from fastcep.migration.partition.protocol import PartialStates, StartAssembly

__all__ = ["START_ASSEMBLY", "WindowAggregate", "WindowJoin", "cut"]

#: Starts an assembly, by the kind of its operator.
START_ASSEMBLY: Mapping[str, StartAssembly] = MappingProxyType({"aggregate": start_aggregate, "join": start_join})


def cut(operator: WindowAggregate | WindowJoin) -> PartialStates:
    """Return the partial states of an operator, with the utilities that it defines itself."""
    return operator.partial_states()
