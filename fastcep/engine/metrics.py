"""What an engine tells about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastcep._core.match import Matcher
from fastcep.engine.reorder import Reorderer
from fastcep.engine.returns import Returns
from fastcep.events import EventRing, StringTable

__all__ = ["collect", "shared_bytes"]


def shared_bytes(ring: EventRing | None, strings: StringTable, order: Reorderer | None) -> int:
    """Bytes that an engine holds for all queries together."""
    return strings.nbytes + (0 if ring is None else ring.nbytes) + (0 if order is None else order.nbytes)


def collect(
    names: Sequence[str],
    matchers: Sequence[Matcher],
    returns: Sequence[Returns | None],
    ring: EventRing | None,
    strings: StringTable,
    order: Reorderer | None,
) -> dict[str, Any]:
    """The part of ``Engine.metrics`` that its parts know."""
    results = [item for item in returns if item is not None]
    by_query = {name: matcher.nbytes for name, matcher in zip(names, matchers, strict=True)}
    keys = sum(matcher.keys for matcher in matchers)
    rows = sum(matcher.rows_stored for matcher in matchers)
    return {
        "relevant_events": sum(matcher.relevant for matcher in matchers),
        "matches": sum(matcher.matches for matcher in matchers),
        "matches_by_query": {name: matcher.matches for name, matcher in zip(names, matchers, strict=True)},
        "rows_visited": sum(matcher.rows_visited for matcher in matchers),
        "rows_created": sum(matcher.rows_created for matcher in matchers),
        "live_partial_matches": sum(matcher.live for matcher in matchers),
        "peak_partial_matches": sum(matcher.peak for matcher in matchers),
        "dropped_partial_matches": sum(matcher.lost for matcher in matchers),
        "stored_rows": rows,
        "negated_events": sum(matcher.negated_events for matcher in matchers),
        "waiting_matches": sum(matcher.waiting for matcher in matchers),
        "keys": keys,
        "strings": len(strings),
        "arithmetic_nulls": _sum(matchers, results, "arithmetic_nulls"),
        "function_errors": _sum(matchers, results, "function_errors"),
        "held_events": 0 if order is None else order.held_events,
        "late_events": 0 if order is None else order.late_events,
        "late_waiting": 0 if order is None else order.late_waiting,
        "memory_bytes": sum(by_query.values()) + shared_bytes(ring, strings, order),
        "memory_by_query": by_query,
        "bytes_per_key": sum(matcher.key_bytes for matcher in matchers) / keys if keys else 0.0,
        "bytes_per_row": sum(matcher.row_bytes for matcher in matchers) / rows if rows else 0.0,
        "bytes_per_event": ring.nbytes / len(ring) if ring is not None and len(ring) else 0.0,
    }


def _sum(matchers: Sequence[Matcher], returns: Sequence[Returns], counter: str) -> int:
    return sum(getattr(part, counter) for part in (*matchers, *returns))
