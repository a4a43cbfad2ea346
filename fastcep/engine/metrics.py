"""Collect the metrics of an engine from its parts."""

from __future__ import annotations

from typing import Any

from fastcep.engine.partitioned_matcher import parts_of_query
from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.engine.running_query import RunningQuery
from fastcep.events import StringTable

__all__ = ["collect", "shared_bytes"]


def shared_bytes(queries: QuerySet, strings: StringTable, reorder: Reorderer | None) -> int:
    """Return the bytes that an engine holds for all queries together."""
    return strings.nbytes + queries.nbytes + queries.earlier.nbytes + (0 if reorder is None else reorder.nbytes)


def collect(queries: QuerySet, strings: StringTable, reorder: Reorderer | None) -> dict[str, Any]:
    """Return the entries of ``Engine.metrics`` that queries, strings and reorderer count."""
    running, ring = queries.running, queries.ring
    matchers = [item.matcher for item in running]
    by_query = {item.name: item.nbytes for item in running}
    keys = sum(matcher.keys for matcher in matchers)
    rows = sum(matcher.rows_stored for matcher in matchers)
    return {
        "relevant_events": sum(matcher.relevant for matcher in matchers),
        "matches": sum(matcher.matches for matcher in matchers),
        "matches_by_query": {item.name: item.matcher.matches for item in running},
        "rows_visited": sum(matcher.rows_visited for matcher in matchers),
        "rows_created": sum(matcher.rows_created for matcher in matchers),
        "live_partial_matches": sum(matcher.live for matcher in matchers),
        "peak_partial_matches": sum(matcher.peak for matcher in matchers),
        "dropped_partial_matches": sum(matcher.lost for matcher in matchers),
        "stored_rows": rows,
        "negated_events": sum(matcher.negated_events for matcher in matchers),
        "waiting_matches": sum(matcher.waiting for matcher in matchers),
        "timed_out_waiting": sum(map(len, queries.timed_out)),
        "open_windows": sum(matcher.open_windows for matcher in matchers),
        "keys": keys,
        "strings": len(strings),
        "prev_bytes": queries.earlier.nbytes,
        "arithmetic_nulls": sum(_with_returns(item, "arithmetic_nulls") for item in running),
        "function_errors": sum(_with_returns(item, "function_errors") for item in running),
        "held_events": 0 if reorder is None else reorder.held_events,
        "late_events": 0 if reorder is None else reorder.late_events,
        "late_waiting": 0 if reorder is None else reorder.late_waiting,
        "foreign_events": queries.foreign_events,
        "memory_bytes": sum(by_query.values()) + shared_bytes(queries, strings, reorder),
        "memory_by_query": by_query,
        "bytes_per_key": sum(matcher.key_bytes for matcher in matchers) / keys if keys else 0.0,
        "bytes_per_row": sum(matcher.row_bytes for matcher in matchers) / rows if rows else 0.0,
        "bytes_per_event": ring.nbytes / len(ring) if ring is not None and len(ring) else 0.0,
        "threads": queries.threads,
        "queries": {item.name: _query_metrics(item) for item in running},
    }


def _query_metrics(item: RunningQuery) -> dict[str, Any]:
    return {
        "weight": item.query.weight,
        "store": item.plan.store,
        "since": item.since,
        "parts": len(parts_of_query(item.matcher)),
        "relevant_events": item.matcher.relevant,
        "matches": item.matcher.matches,
        "live_partial_matches": item.matcher.live,
        "dropped_partial_matches": item.matcher.lost,
        "arithmetic_nulls": _with_returns(item, "arithmetic_nulls"),
        "function_errors": _with_returns(item, "function_errors"),
        "memory_bytes": item.nbytes,
    }


def _with_returns(item: RunningQuery, counter: str) -> int:
    """Return a counter of a query's conditions plus the same counter of its RETURN."""
    of_returns: int = 0 if item.returns is None else getattr(item.returns, counter)
    of_conditions: int = getattr(item.matcher, counter)
    return of_conditions + of_returns
