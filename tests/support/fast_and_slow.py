"""Results of the fast path and the slow path of an engine, for tests that compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fastcep as fc
from support.state_transfer import COUNTERS, quiet

#: Counters that do not depend on the division into batches.
ALWAYS = ("events", "relevant_events", "matches", "waiting_matches", "open_windows", "watermark")
#: Counters in which two engines agree if they get the same calls.
SAME = (*COUNTERS, "rows_visited", "stored_rows", "keys", "negated_events", "strings", "dropped_partial_matches")


def engine(queries: Any, *, fast: bool = True) -> fc.Engine:
    made = quiet(fc.Engine, queries)
    if not fast:
        made._loop.is_direct = False
    return made


def rows(matches: fc.Matches) -> list[tuple[str, list[Any]]]:
    """Return matches by query, as text: in text NaN equals itself."""
    return [(name, [repr(row) for row in matches.query(name).to_arrow().to_pylist()]) for name in matches.counts()]


def run_calls(live: fc.Engine, calls: Sequence[Callable[[fc.Engine], fc.Matches]]) -> tuple[list[Any], dict[str, Any]]:
    """Return the result of every call, and the counters before the end."""
    found = [rows(call(live)) for call in calls]
    metrics = live.metrics()
    return [*found, rows(live.flush())], metrics


def joined(found: list[Any]) -> dict[str, list[Any]]:
    """Concatenate the matches of all calls, by query."""
    out: dict[str, list[Any]] = {}
    for call in found:
        for name, matches in call:
            out.setdefault(name, []).extend(matches)
    return out


def counters(metrics: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: metrics[name] for name in names}
