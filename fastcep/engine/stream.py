"""What is behind an engine's calls: the stream so far, the queries, and one batch after the other through both.

A batch is validated whole before any of it is taken; its events are numbered, what later reads need goes into the event
ring, and each query's compiled matcher runs over it without the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastcep._core.matcher.fast_path import FastPath
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.matches import Matches
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import shared_bytes
from fastcep.engine.order import single_events
from fastcep.engine.partitioned_matcher import check_parted
from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.signals import Signals
from fastcep.engine.store_trial import TRIED
from fastcep.engine.strings import UnusedStrings
from fastcep.engine.thread_pool import ThreadPool
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.layout import make_intake
from fastcep.events.units import INT64_MIN
from fastcep.overload.control import Control
from fastcep.query import ast

__all__ = ["Stream"]

#: Events of a batch that are matched at once where memory is limited.
_PIECE = 1 << 13


class Stream(FastPath):
    """The inner side of an engine.

    What is usual goes the short way, which is compiled (``FastPath``); the long way is here.

    Parameters
    ----------
    queries
        One or more, over one schema.
    attributes
        Whether they return all attributes; for queries that come later.
    reorder
        Puts events in order; None: they must be.
    memory
        The limit.
    timed_out
        Whether partial matches that have timed out are given out.
    store
        How partial matches are held.
    index
        By which equalities rows are found.
    pool
        Threads that share the work; None: there is only the calling one.
    control
        Keeps latency and memory within bounds; None: nothing does.
    """

    def __init__(
        self,
        queries: Sequence[ast.Query],
        attributes: bool,
        reorder: Reorderer | None,
        memory: MemoryLimit,
        timed_out: bool,
        store: str,
        index: str,
        pool: ThreadPool | None = None,
        control: Control | None = None,
    ) -> None:
        self._schema: Schema = queries[0].schema
        self._attributes = attributes
        self._reorder = reorder
        self._memory = memory
        self._faults = memory.faults
        self._strings = StringTable()
        numbered = self._schema.sequence is not None or reorder is not None
        self._queries = QuerySet(
            self._schema, self._strings, numbered=numbered, timed_out=timed_out, store=store, index=index,
            pool=pool, limited=memory.bytes is not None, control=control,
        )  # fmt: skip
        self._unused = UnusedStrings(self._strings, self._schema)
        self._many = self._unused.limit
        if control is not None and memory.sheds:
            control.memory = self._memory_use
        self._signals = Signals()
        self._found: list[Matches] = []  # before the end of a call, also of one that a signal's handler ended
        self._bind(make_intake(self._schema, self._strings), single_events(self._schema, self._strings), self._strings)
        first = [self._queries.prepare(query, 0) for query in queries]
        check_parted([item.plan for item in first], pool)
        self._run(first)

    @contextmanager
    def _alone(self, *, ended: bool = False) -> Iterator[None]:
        """Hold the engine for one call: the GIL is released while it runs, so that another thread could come in.

        Signal handlers run where `Signals.deliver` is called, and at the end.
        """
        with self._signals as signals:
            if not self._enter():
                raise ValidationError("the engine is busy in another thread; use it from one thread at a time")
            try:
                if signals.torn:
                    raise ValidationError(
                        "a signal that came twice ended an earlier call of the engine between a shedder or a listener "
                        "and the queries, which may stand behind different events; restore a snapshot"
                    )
                if self._ended and not ended:
                    raise ValidationError("the stream was ended by flush(); make a new Engine for another stream")
                yield
            finally:
                if signals.torn:
                    self._shut()
                self._leave()

    def _run(self, running: Sequence[RunningQuery]) -> None:
        """Run these queries from now on."""
        self._memory.check_queries(running, self._shared())
        self._queries.use(running, self._position)
        self._memory.hold(running)
        self._choose_way()

    def _stop(self, old: RunningQuery, rest: Sequence[RunningQuery], complete: bool) -> Matches:
        """Run the rest, without one of the queries; give the matches that it has left."""
        self._memory.check_queries(rest, self._shared())
        if complete:
            self._queries.decide_one(old, None, self._position, self._faults)
        found = Matches([self._queries.found_by(old, self._faults)])
        self._run(rest)
        return self._handed(found)

    def _asked(self) -> list[ast.Query]:
        return [item.query for item in self._queries]

    def _shared(self, events: int = 0) -> int:
        """Bytes that are held for all queries together, in a batch of so many events."""
        return shared_bytes(self._queries, self._strings, self._reorder) + self._queries.more_lists(events)

    def _memory_use(self) -> tuple[int, int]:
        """Bytes that are held, and that may be."""
        held = sum(item.nbytes for item in self._queries) + self._shared()
        return held, self._memory.bytes or 0

    def _beside(self, batch: EventBatch, held: int) -> int:
        """Bytes held beside the ring and the partial matches, when the batch has been taken, and ``held`` events."""
        kept = 0 if self._reorder is None else batch.nbytes
        ring = 0 if self._queries.ring is None else self._queries.ring.nbytes
        return self._shared(len(batch) + held) - ring + kept

    def _take(self, batch: EventBatch | None, *, complete: bool = False) -> Matches:
        """Match the events that are next in the stream, if there are any."""
        queries = self._queries
        queries.kernels.swap()
        if batch is None:  # what is held back has grown
            self._memory.divide(queries, self._shared(), self._position)
        elif len(batch):
            self._match(batch)
        if queries.defers:
            clock = self._watermark()
            if self._ended and self._time is not None:
                clock = self._time if clock is None else max(clock, self._time)
            queries.decide(clock, self._position, self._faults, complete=complete)
        return self._give()

    def _match(self, batch: EventBatch) -> None:
        """Match a batch piece by piece; if the handler of a signal raises, the rest of the batch is not taken.

        Where memory is limited, the size of a piece must not depend on how long events take: what is dropped when
        memory runs short depends on it.
        """
        taken, size = 0, len(batch)
        limited, control = self._memory.bytes is not None, self._queries.control
        while taken < size:
            rest = size - taken
            number = self._pieces.begin(rest, TRIED if self._queries.trials else 1)
            if limited:
                number = min(rest, _PIECE)
            piece = batch if number == size else batch.slice(taken, taken + number)
            if control is not None:
                control.begin(taken)
            self._match_piece(piece, size)
            self._pieces.end(number)
            taken += number
            if taken < size:
                self._read_events()
            try:
                self._signals.deliver()
            except BaseException as error:
                if self._reorder is not None:
                    self._reorder.put_back(batch.slice(taken, size))
                self._interrupted(error, taken, size)
                raise

    def _match_piece(self, batch: EventBatch, size: int) -> None:
        """Match a piece of a batch that has ``size`` events in all."""
        queries, position = self._queries, self._position
        if queries.ring is not None:
            other = self._shared(len(batch)) - queries.ring.nbytes
            self._memory.make_room(queries, len(batch), other, position)
            queries.ring.append(batch)
        self._position += len(batch)  # at once: it says what is in the ring, whatever happens to the matchers
        self._time = int(batch.time[-1])
        if batch.sequence is not None:
            self._sequence = int(batch.sequence[-1])
        self._memory.divide(queries, self._shared(len(batch)), position)
        trials = queries.trials
        try:
            queries.match(batch, position, self._faults, size)
        finally:
            if trials != queries.trials:
                self._choose_way()

    def _watermark(self) -> int | None:
        """The time that no later event is taken from before; None at first."""
        if self._reorder is None:
            return self._time
        return None if self._reorder.watermark == INT64_MIN else self._reorder.watermark

    def _forget_strings(self, batch: EventBatch | None = None) -> None:
        """Free the texts that nothing holds, not ``batch`` either."""
        if self._time is not None:
            self._queries.sweep(self._time, self._position)
        self._unused.forget(self._queries, self._reorder, batch)
        self._many = self._unused.limit

    # ----------------------------------------------------------------- the short way

    def _choose_way(self) -> None:
        """Let what is usual go the short way, unless an option or a query needs what that does not know."""
        queries = self._queries
        limited = self._reorder is not None or self._memory.bytes is not None or queries.owned is not None
        limited |= queries.pool is not None or queries.control is not None
        if limited or any(item.windows is not None or item.timed is not None for item in queries):
            self._shut()
        else:
            whole = [matcher for matcher in queries.matchers if isinstance(matcher, Matcher)]  # all: there are no parts
            self._open(
                whole, queries.filters, queries.ring, queries.nothings, Matches, queries.layout,
                queries.is_plain, queries.defers,
                [item.trial.matcher for item in queries if item.trial is not None], TRIED,
            )  # fmt: skip

    def _swap(self) -> bool:
        """Let the queries run new kernels; returns whether no more are to come."""
        self._queries.kernels.swap()
        return self._queries.kernels.settled

    def _decide(self) -> None:
        """Decide the matches that wait for a time before the last event's."""
        self._queries.decide(self._time, self._position, self._faults, complete=False)

    def _judge(self, position: int, first_time: int, time: int, out: set[int], lost: set[Matcher]) -> None:
        """See which of the stores that are tried is the cheaper one, see `QuerySet.judge`."""
        if self._queries.judge(position, first_time, time, out, lost):
            self._choose_way()

    def _give(self) -> Matches:
        """Give what was found, or the error on what went wrong."""
        with self._signals:
            found = self._queries.found(self._faults)
            if self._unused.due:
                self._forget_strings()
            return self._handed(found)

    def _handed(self, found: Matches) -> Matches:
        """Return these matches after those that wait; if the handler of a signal raises, the next call returns them."""
        found = Matches.joined([*self._found, found])
        self._found = [found]
        try:
            self._signals.deliver()
        except BaseException as error:
            self._waits = True
            error.add_note("fastcep: the call was carried out; the matches that it found come with the next call")
            raise
        self._found, self._waits = [], False
        return self._settle(found)

    def _read_events(self) -> None:
        """Read what matches need of events that may leave the ring with the next ones."""
        if not self._queries.is_plain:
            self._found.append(self._queries.found(self._faults))

    def _interrupted(self, error: BaseException, taken: int, size: int) -> None:
        """Keep what a call has found whose matching an error ended after ``taken`` of its ``size`` events."""
        with self._signals:
            if self._queries.ring is not None:
                self._queries.ring.cut(self._position)
            self._read_events()
            self._waits = True
            rest = f"hand over the other {size - taken:,} again"
            if self._reorder is not None:
                rest = f"the other {size - taken:,} are held back and come first in the next call"
            error.add_note(
                f"fastcep: {taken:,} of {size:,} events were taken; {rest if taken < size else 'these are all'}. The "
                "matches that were found come with the next call"
            )

    def _check_given(self) -> None:
        """Refuse to move state while matches wait, which are no part of it."""
        if any(map(len, self._found)) or any(matcher.found for matcher in self._queries.matchers):
            raise ValidationError(
                "matches wait that were found by a call which a signal ended, and they are no part of the state; take "
                "them first: process() the rest of the events, or none"
            )

    def _settle(self, found: Matches) -> Matches:
        """Give this, or the error on what went wrong."""
        return self._faults.settle(found)

    def _lose(self, number: int, error: Exception) -> None:
        """Note that what a query has found cannot be given."""
        self._queries.running[number].lose(error, self._faults)

    def _gave_up(self, number: int, position: int, dropped: int) -> None:
        """Note that a query had no memory for the event at a position."""
        item = self._queries.running[number]
        self._faults.gave_up(item.name, position, dropped, limited=item.matcher.refused)

    def _failed(self, number: int, error: Exception, last_time: int) -> None:
        """Note that a query cannot take a batch."""
        self._queries.running[number].fail(error, last_time, self._faults)
