"""What is behind an engine's calls: the stream so far, the queries, and one batch after the other through both.

A batch is validated whole before any of it is taken; its events are numbered, what later reads need goes into the event
ring, and each query's compiled matcher runs over it without the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.input.batch import Batch
from fastcep._core.matcher.event_loop import EventLoop
from fastcep._core.matcher.matcher import Matcher
from fastcep.engine.matches import Matches
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import shared_bytes as bytes_of_all
from fastcep.engine.order import check_order, single_events
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
from fastcep.overload.options import event_arrivals
from fastcep.query import ast

__all__ = ["Stream"]

_BUSY = "the engine is busy in another thread; use it from one thread at a time"
#: Events of a batch that are matched at once where memory is limited.
_PIECE = 1 << 13


class Stream:
    """The events so far, the queries, and what takes one batch after the other through both.

    `EventLoop` is the compiled part. It is open unless an option or a query needs Python between events
    (`choose_path`); then `_match` hands a batch to the matchers piece by piece.

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
    timed_out, timed_out_limit
        Whether partial matches that have timed out are given out, and how many may wait for that.
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
        timed_out_limit: int,
        store: str,
        index: str,
        pool: ThreadPool | None = None,
        control: Control | None = None,
    ) -> None:
        self.schema: Schema = queries[0].schema
        self.attributes = attributes
        self.reorder = reorder
        self.memory = memory
        self.faults = memory.faults
        self._timed_out_limit = timed_out_limit
        self.strings = StringTable()
        numbered = self.schema.sequence is not None or reorder is not None
        self.queries = QuerySet(
            self.schema, self.strings, numbered=numbered, timed_out=timed_out, store=store, index=index,
            pool=pool, limited=memory.bytes is not None, control=control,
        )  # fmt: skip
        self.unused = UnusedStrings(self.strings, self.schema)
        if control is not None and memory.sheds:
            control.memory = self.memory_use
        self._signals = Signals()
        self._found: list[Matches] = []  # before the end of a call, also of one that a signal's handler ended
        self.loop = EventLoop(
            self.queries, self.faults, make_intake(self.schema, self.strings),
            single_events(self.schema, self.strings), self.strings,
        )  # fmt: skip
        self.loop.string_limit = self.unused.limit
        first = [self.queries.prepare(query, 0) for query in queries]
        check_parted([item.plan for item in first], pool)
        self.run(first)

    @contextmanager
    def exclusive(self, *, ended: bool = False) -> Iterator[None]:
        """Hold the engine for one call: the GIL is released while it runs, so that another thread could come in.

        Signal handlers run where `Signals.deliver` is called, and at the end.
        """
        with self._signals as signals:
            if not self.loop.enter():
                raise ValidationError(_BUSY)
            try:
                if signals.torn:
                    raise ValidationError(
                        "a signal that came twice ended an earlier call of the engine between a shedder or a listener "
                        "and the queries, which may stand behind different events; restore a snapshot"
                    )
                if self.loop.ended and not ended:
                    raise ValidationError("the stream was ended by flush(); make a new Engine for another stream")
                yield
            finally:
                if signals.torn:
                    self.loop.close()
                self.loop.leave()

    def run(self, running: Sequence[RunningQuery]) -> None:
        """Run these queries from now on."""
        self.memory.check_queries(running, self.shared_bytes())
        self.queries.use(running, self.loop.position)
        self.memory.hold(running)
        self.choose_path()

    def stop(self, old: RunningQuery, rest: Sequence[RunningQuery], complete: bool) -> Matches:
        """Run the rest, without one of the queries; give the matches that it has left."""
        self.memory.check_queries(rest, self.shared_bytes())
        if complete:
            self.queries.decide_one(old, None, self.loop.position, self.faults)
        found = Matches([self.queries.found_by(old, self.faults)])
        self.run(rest)
        return self.handed(found)

    def asked(self) -> list[ast.Query]:
        """Return the queries, in order."""
        return [item.query for item in self.queries]

    def shared_bytes(self, events: int = 0) -> int:
        """Bytes that are held for all queries together, in a batch of so many events."""
        return bytes_of_all(self.queries, self.strings, self.reorder) + self.queries.more_lists(events)

    def memory_use(self) -> tuple[int, int]:
        """Bytes that are held, and that may be."""
        held = sum(item.nbytes for item in self.queries) + self.shared_bytes()
        return held, self.memory.bytes or 0

    def bytes_beside(self, batch: EventBatch, held: int) -> int:
        """Bytes held beside the ring and the partial matches, when the batch has been taken, and ``held`` events."""
        kept = 0 if self.reorder is None else batch.nbytes
        ring = 0 if self.queries.ring is None else self.queries.ring.nbytes
        return self.shared_bytes(len(batch) + held) - ring + kept

    def process(
        self,
        data: Any,
        origin: str,
        first_row: int,
        rows: npt.NDArray[np.int64] | None,
        source: str | None,
        arrivals: npt.ArrayLike | None,
    ) -> Matches:
        """Convert and check a batch, and match it; see `Engine.process`."""
        with self.exclusive():
            self._check_timed_out()
            batch = EventBatch.from_data(self.schema, data, self.strings, origin, first_row, rows)
            held = 0 if self.reorder is None else self.reorder.held_events
            if not self.memory.has_room(len(batch), self.queries.ring, held, self.bytes_beside(batch, held)):
                self.forget_strings(batch)
            self.memory.check_batch(len(batch), self.queries.ring, held, self.bytes_beside(batch, held), origin)
            if self.reorder is not None:
                if arrivals is not None:
                    raise ValidationError("arrivals do not go with allowed_lateness: give events in order")
                return self.take(self.reorder.push(batch, origin, first_row, source))
            if source is not None:
                raise ValidationError(f"source={source!r} needs Engine(…, allowed_lateness=…), which merges sources")
            check_order(batch, self.loop.time, self.loop.sequence, origin, first_row)
            if self.queries.control is not None:
                self.queries.control.arrive(event_arrivals(arrivals, batch, rows))
            elif arrivals is not None:
                raise ValidationError("arrivals are for latencies: Engine(…, latency_bound='…') measures them")
            if not self.loop.is_open or not len(batch):
                return self.take(batch)
        matches: Matches | None = self.loop.process_batch(Batch(batch, 0), self)
        if matches is None:  # another thread came in between
            raise ValidationError(_BUSY)
        return matches

    def _check_timed_out(self) -> None:
        waiting = sum(map(len, self.queries.timed_out))
        if waiting > self._timed_out_limit:
            raise ValidationError(
                f"{waiting:,} partial matches that have timed out wait for timed_out(), more than "
                f"timed_out_limit={self._timed_out_limit:,}; call timed_out(), or raise the limit"
            )

    def take(self, batch: EventBatch | None, *, complete: bool = False) -> Matches:
        """Match the events that are next in the stream, if there are any."""
        queries = self.queries
        queries.kernels.swap()
        if batch is None:  # what is held back has grown
            self.memory.divide(queries, self.shared_bytes(), self.loop.position)
        elif len(batch):
            self._match(batch)
        if queries.defers:
            clock = self.watermark()
            if self.loop.ended and self.loop.time is not None:
                clock = self.loop.time if clock is None else max(clock, self.loop.time)
            queries.decide(clock, self.loop.position, self.faults, complete=complete)
        return self.give()

    def _match(self, batch: EventBatch) -> None:
        """Match a batch piece by piece; if the handler of a signal raises, the rest of the batch is not taken.

        Where memory is limited, the size of a piece must not depend on how long events take: what is dropped when
        memory runs short depends on it.
        """
        taken, size = 0, len(batch)
        limited, control = self.memory.bytes is not None, self.queries.control
        while taken < size:
            rest = size - taken
            number = self.loop.pieces.begin(rest, TRIED if self.queries.trials else 1)
            if limited:
                number = min(rest, _PIECE)
            piece = batch if number == size else batch.slice(taken, taken + number)
            if control is not None:
                control.begin(taken)
            self._match_piece(piece, size)
            self.loop.pieces.end(number)
            taken += number
            if taken < size:
                self._read_events()
            try:
                self._signals.deliver()
            except BaseException as error:
                if self.reorder is not None:
                    self.reorder.put_back(batch.slice(taken, size))
                self.interrupted(error, taken, size)
                raise

    def _match_piece(self, batch: EventBatch, size: int) -> None:
        """Match a piece of a batch that has ``size`` events in all."""
        queries, position = self.queries, self.loop.position
        if queries.ring is not None:
            other = self.shared_bytes(len(batch)) - queries.ring.nbytes
            self.memory.make_room(queries, len(batch), other, position)
            queries.ring.append(batch)
        self.loop.position += len(batch)  # at once: it says what is in the ring, whatever happens to the matchers
        self.loop.time = int(batch.time[-1])
        if batch.sequence is not None:
            self.loop.sequence = int(batch.sequence[-1])
        self.memory.divide(queries, self.shared_bytes(len(batch)), position)
        trials = queries.trials
        try:
            queries.match(batch, position, self.faults, size)
        finally:
            if trials != queries.trials:
                self.choose_path()

    def watermark(self) -> int | None:
        """The time that no later event is taken from before; None at first."""
        if self.reorder is None:
            return self.loop.time
        return None if self.reorder.watermark == INT64_MIN else self.reorder.watermark

    def forget_strings(self, batch: EventBatch | None = None) -> None:
        """Free the texts that nothing holds, not ``batch`` either."""
        if self.loop.time is not None:
            self.queries.sweep(self.loop.time, self.loop.position)
        self.unused.forget(self.queries, self.reorder, batch)
        self.loop.string_limit = self.unused.limit

    # ----------------------------------------------------------------- the short way

    def choose_path(self) -> None:
        """Let what is usual go the short way, unless an option or a query needs what that does not know."""
        queries = self.queries
        limited = self.reorder is not None or self.memory.bytes is not None or queries.owned is not None
        limited |= queries.pool is not None or queries.control is not None
        if limited or any(item.windows is not None or item.timed is not None for item in queries):
            self.loop.close()
        else:
            whole = [matcher for matcher in queries.matchers if isinstance(matcher, Matcher)]  # all: there are no parts
            self.loop.open(
                whole, queries.filters, queries.ring, queries.nothings, Matches, queries.layout,
                queries.is_plain, queries.defers,
                [item.trial.matcher for item in queries if item.trial is not None], TRIED,
            )  # fmt: skip

    def give(self) -> Matches:
        """Give what was found, or the error on what went wrong."""
        with self._signals:
            found = self.queries.found(self.faults)
            if self.unused.due:
                self.forget_strings()
            return self.handed(found)

    def handed(self, found: Matches) -> Matches:
        """Return these matches after those that wait; if the handler of a signal raises, the next call returns them."""
        found = Matches.joined([*self._found, found])
        self._found = [found]
        try:
            self._signals.deliver()
        except BaseException as error:
            self.loop.matches_wait = True
            error.add_note("fastcep: the call was carried out; the matches that it found come with the next call")
            raise
        self._found, self.loop.matches_wait = [], False
        return self.faults.settle(found)

    def _read_events(self) -> None:
        """Read what matches need of events that may leave the ring with the next ones."""
        if not self.queries.is_plain:
            self._found.append(self.queries.found(self.faults))

    def interrupted(self, error: BaseException, taken: int, size: int) -> None:
        """Keep what a call has found whose matching an error ended after ``taken`` of its ``size`` events."""
        with self._signals:
            if self.queries.ring is not None:
                self.queries.ring.cut(self.loop.position)
            self._read_events()
            self.loop.matches_wait = True
            rest = f"hand over the other {size - taken:,} again"
            if self.reorder is not None:
                rest = f"the other {size - taken:,} are held back and come first in the next call"
            error.add_note(
                f"fastcep: {taken:,} of {size:,} events were taken; {rest if taken < size else 'these are all'}. The "
                "matches that were found come with the next call"
            )

    def check_given(self) -> None:
        """Refuse to move state while matches wait, which are no part of it."""
        if any(map(len, self._found)) or any(matcher.output_pending for matcher in self.queries.matchers):
            raise ValidationError(
                "matches wait that were found by a call which a signal ended, and they are no part of the state; take "
                "them first: process() the rest of the events, or none"
            )

