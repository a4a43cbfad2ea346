"""Operators whose state can be sent in parts: aggregates over windows of time, and joins of two streams."""

from fastcep.migration.operators.aggregate import WindowAggregate
from fastcep.migration.operators.join import WindowJoin

__all__ = ["WindowAggregate", "WindowJoin"]
