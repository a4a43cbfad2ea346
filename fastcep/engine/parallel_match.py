"""Match a batch in several threads: every part of every query takes one slice of the batch before any takes the next.

The calling thread records which queries ran out of memory or failed when the batch is done, in the order of queries and
parts, so the record does not depend on which thread was faster.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

__all__ = ["PARALLEL_FROM", "ParallelMatch"]

#: Threads share a batch that is expected to have at least this many relevant events. To wake a thread and wait for it
#: takes 40 to 90 us, a relevant event of the limit queries about 0.1 us. The calling thread alone matches smaller
#: batches, with the same result.
PARALLEL_FROM = 2048


@dataclass(slots=True, eq=False)
class _OutOfMemory:
    """A query, or parts of it, ran out of memory in a batch."""

    event: int  #: position of the first event for which there was no memory
    dropped: int  #: partial matches that were dropped
    limited: bool  #: the memory limit was reached, not the machine's memory


class ParallelMatch:
    """Runs the matchers of all queries over a batch, in several threads.

    Call `begin`, `take` for each slice of the batch, then `end`.

    Parameters
    ----------
    running
        The queries.
    pool
        The threads.
    """

    def __init__(self, running: Sequence[RunningQuery], pool: ThreadPool) -> None:
        self._running, self._pool = running, pool

    def begin(self, events: Batch, ring: object, out: Collection[int], batch_size: int) -> None:
        """Start a batch, or a piece of one that has ``batch_size`` events.

        Queries whose number is in ``out`` do not take part.
        """
        self._events, self._ring = events, ring
        self._active = [item for number, item in enumerate(self._running) if number not in out]
        self._at_once = _expected(self._active, batch_size) >= PARALLEL_FROM
        self._tasks = [(item, part) for item in self._active for part in parts_of_query(item.matcher)]
        self._out_of_memory: dict[RunningQuery, _OutOfMemory] = {}
        self._failed: dict[RunningQuery, Exception] = {}

    def take(self, first: int, last: int, shared: bool) -> None:
        """Let every part take the events ``first:last``; one that fails does not stop the others."""
        events = self._events
        lost_before = [part.lost for _, part in self._tasks]
        calls = [partial(_process, part, events, self._ring, first, last, shared) for _, part in self._tasks]
        outcomes = run(self._pool, calls, self._at_once)
        for (item, part), outcome, before in zip(self._tasks, outcomes, lost_before, strict=True):
            if isinstance(outcome, Exception):
                self._failed.setdefault(item, outcome)
            elif outcome < last:
                event = events.position + outcome
                record = self._out_of_memory.setdefault(item, _OutOfMemory(event, 0, True))
                record.event = min(record.event, event)
                record.dropped += part.lost - before
                record.limited &= part.refused
        for item in {item for item, _ in self._tasks} & self._failed.keys():
            item.matcher.drop(events.last_time)
            item.matcher.forget_windows()
        self._tasks = [
            (item, part)
            for (item, part), outcome in zip(self._tasks, outcomes, strict=True)
            if item not in self._failed and outcome == last
        ]

    def end(self, faults: Faults) -> None:
        """Record in ``faults`` what went wrong in the batch."""
        for item in self._active:
            if item in self._out_of_memory:
                record = self._out_of_memory[item]
                faults.note_out_of_memory(item.name, record.event, record.dropped, limited=record.limited)
            if item in self._failed:
                faults.note_error(item.name, self._failed[item])


def _expected(running: Sequence[RunningQuery], events: int) -> float:
    """Estimate how many of a number of events will be relevant, summed over the queries, from the events so far."""
    if events * len(running) < PARALLEL_FROM:
        return 0
    expected = 0.0
    for item in running:
        so_far = max(part.events for part in parts_of_query(item.matcher))
        expected += events * (item.matcher.relevant / so_far if so_far else 1)
    return expected


def _process(part: Matcher, events: Batch, ring: object, first: int, last: int, shared: bool) -> int | Exception:
    """Let a matcher take events; return the event up to which it did, or the exception."""
    try:
        return part.process(events, ring, first, last, shared)
    except Exception as error:
        return error
