"""The engine's state as bytes: the one place that calls for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastcep.engine import Engine

if TYPE_CHECKING:
    from fastcep.query import Query

__all__ = ["new_engine", "restore", "snapshot"]


def new_engine(queries: Sequence[Query], options: Mapping[str, Any]) -> Engine:
    """Make an engine that has seen nothing."""
    return Engine(queries, **options)


def snapshot(engine: Engine) -> bytes:
    """Give all that an engine holds."""
    return engine.snapshot()


def restore(state: bytes, queries: Sequence[Query]) -> Engine:
    """Make an engine that goes on where another stood; SnapshotError if it cannot."""
    return Engine.restore(state, queries)
