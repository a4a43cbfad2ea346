"""What the short way and the long way of an engine give: for tests that compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fastcep as fc
from support.state_transfer import COUNTERS, quiet

#: Counters that are the same however the stream is cut.
ALWAYS = ("events", "relevant_events", "matches", "waiting_matches", "open_windows", "watermark")
#: And those that two engines agree in that are given the same calls.
SAME = (*COUNTERS, "rows_visited", "stored_rows", "keys", "negated_events", "strings", "dropped_partial_matches")


def engine(queries: Any, *, short: bool = True) -> fc.Engine:
    made = quiet(fc.Engine, queries)
    if not short:
        made._loop.is_direct = False
    return made


def rows(matches: fc.Matches) -> list[tuple[str, list[Any]]]:
    """By query, as text: a value that is no number equals itself then."""
    return [(name, [repr(row) for row in matches.query(name).to_arrow().to_pylist()]) for name in matches.counts()]


def go(live: fc.Engine, calls: Sequence[Callable[[fc.Engine], fc.Matches]]) -> tuple[list[Any], dict[str, Any]]:
    """What every call gives, and the counters before the end."""
    found = [rows(call(live)) for call in calls]
    told = live.metrics()
    return [*found, rows(live.flush())], told


def joined(found: list[Any]) -> dict[str, list[Any]]:
    """The matches of all calls by query, one call after the other."""
    out: dict[str, list[Any]] = {}
    for call in found:
        for name, matches in call:
            out.setdefault(name, []).extend(matches)
    return out


def counters(told: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in names}
