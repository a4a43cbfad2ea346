"""Operators whose state can be sent in parts: aggregates over windows of time, and joins of two streams."""

from __future__ import annotations

from fastcep.migration.operators.aggregate import WindowAggregate
from fastcep.migration.operators.join import WindowJoin
from fastcep.migration.partial_states.protocol import PartialStates

__all__ = ["WindowAggregate", "WindowJoin", "cut"]


def cut(operator: WindowAggregate | WindowJoin) -> PartialStates:
    """Return the partial states of an operator, with the utilities that it defines itself."""
    return operator.partial_states()
