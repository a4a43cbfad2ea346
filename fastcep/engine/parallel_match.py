"""A batch through all queries by several threads: every part of every query takes one slice before any takes the next.

Who gave way and who failed is noted by the calling thread when a batch is done, in the order of queries and parts, so
that it does not depend on which thread was faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fastcep._core.input.batch import Batch
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.faults import Faults
from fastcep.engine.partitioned_matcher import parts_of_query, run
from fastcep.engine.thread_pool import ThreadPool

if TYPE_CHECKING:
    from fastcep.engine.running_query import RunningQuery

__all__ = ["PARALLEL_FROM", "match_in_threads"]

#: Relevant events that a batch may be expected to have from which on threads share the work: waking one and waiting for
#: it takes 40 to 90 us, a relevant event of the limit queries about 0.1 us. Below, the calling thread does it all, with
#: the same result.
PARALLEL_FROM = 2048


@dataclass(slots=True, eq=False)
class _Lost:
    """Where a query, or parts of it, gave way in a batch: the first such event, what was dropped, if for the limit."""

    event: int
    dropped: int
    limited: bool


def match_in_threads(
    going: Sequence[RunningQuery], events: Batch, slices: Iterable[tuple[int, int, bool]], ring: object,
    pool: ThreadPool, faults: Faults, of: int,
) -> None:  # fmt: skip
    """Run queries over a batch; of one that fails, or a part without memory, the others do not know.

    They share the work if that is worth while for ``of`` events, of which these are a piece.
    """
    at_once = _expected(going, of) >= PARALLEL_FROM
    lost: dict[RunningQuery, _Lost] = {}
    failed: dict[RunningQuery, Exception] = {}
    tasks = [(item, part) for item in going for part in parts_of_query(item.matcher)]
    for first, last, shared in slices:
        before = [part.lost for _, part in tasks]
        calls = [partial(_taken, part, events, ring, first, last, shared) for _, part in tasks]
        outcomes = run(pool, calls, at_once)
        for (item, part), outcome, dropped in zip(tasks, outcomes, before, strict=True):
            if isinstance(outcome, Exception):
                failed.setdefault(item, outcome)
            elif outcome < last:
                note = lost.setdefault(item, _Lost(events.position + outcome, 0, True))
                note.event = min(note.event, events.position + outcome)
                note.dropped += part.lost - dropped
                note.limited &= part.refused
        for item in {item for item, _ in tasks} & failed.keys():
            item.matcher.drop(events.last_time)
            item.matcher.forget_windows()
        tasks = [
            (item, part)
            for (item, part), outcome in zip(tasks, outcomes, strict=True)
            if item not in failed and outcome == last
        ]
    for item in going:
        if item in lost:
            faults.note_out_of_memory(item.name, lost[item].event, lost[item].dropped, limited=lost[item].limited)
        if item in failed:
            faults.note_error(item.name, failed[item])


def _expected(going: Sequence[RunningQuery], events: int) -> float:
    """How many of so many events will be relevant, added up over the queries, if it goes on as before."""
    if events * len(going) < PARALLEL_FROM:
        return 0
    expected = 0.0
    for item in going:
        seen = max(part.events for part in parts_of_query(item.matcher))
        expected += events * (item.matcher.relevant / seen if seen else 1)
    return expected


def _taken(part: Matcher, events: Batch, ring: object, first: int, last: int, shared: bool) -> int | Exception:
    """Let a matcher take events; returns up to which it did, or what went wrong."""
    try:
        return part.process(events, ring, first, last, shared)
    except Exception as error:
        return error
