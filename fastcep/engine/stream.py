"""The stream of an engine: convert, check and order batches, and hand them to the compiled loop.

A batch is validated as a whole before any event of it is taken. Events then get their positions, and the compiled loop
(`fastcep._core.matcher.event_loop`) matches them. Where options need Python between events, the loop calls back here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.input.batch import Batch
from fastcep._core.matcher.event_loop import EventLoop
from fastcep._core.matcher.signals import Signals
from fastcep.engine.faults import Faults
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import shared_bytes as bytes_of_all
from fastcep.engine.order import check_order, single_events
from fastcep.engine.parallel_match import ParallelMatch
from fastcep.engine.partitioned_matcher import check_threads, parts_of_query
from fastcep.engine.query_set import QuerySet, Replanned
from fastcep.engine.reorder import Reorderer
from fastcep.engine.results.matches import Matches
from fastcep.engine.running_query import RunningQuery
from fastcep.engine.store_trial import TRIED
from fastcep.engine.strings import UnusedStrings
from fastcep.engine.thread_pool import ThreadPool
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.export import events_to_arrow
from fastcep.events.layout import make_batch_reader
from fastcep.events.units import INT64_MIN
from fastcep.option_types import Index
from fastcep.overload.clock import VirtualClock, WallClock
from fastcep.overload.control import Control
from fastcep.overload.options import event_arrivals
from fastcep.overload.protocols import Detector, Shedder
from fastcep.overload.renewal import EngineSetting, Renewal, RenewingShedder
from fastcep.query import ast

__all__ = ["Stream"]

#: Number of events of a piece where memory is limited. It must not depend on time: what is dropped for lack of memory
#: depends on it.
_PIECE = 1 << 13
_BUSY = "the engine is busy in another thread; use it from one thread at a time"


class Stream:
    """The events so far, the queries, and the compiled loop.

    `EventLoop` is the compiled loop; `configure` sets what it runs, and what it calls here between events.

    Parameters
    ----------
    queries
        One or more queries over one schema.
    attributes
        Whether queries that are added later return all attributes.
    reorder
        Puts events in order; None if they must arrive in order.
    memory
        The memory limit.
    timed_out, timed_out_limit
        Whether partial matches that have timed out are reported, and how many may wait for that.
    store
        Store of partial matches.
    index
        Equalities that are indexed.
    pool
        Threads that share the work; None for the calling thread alone.
    control
        Overload control, which keeps latency and memory within bounds; None for none.
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
        index: Index,
        pool: ThreadPool | None = None,
        control: Control | None = None,
    ) -> None:
        self.schema: Schema = queries[0].schema
        self.attributes = attributes
        self.reorder = reorder
        self.memory = memory
        self.faults: Faults = memory.faults
        self._timed_out_limit = timed_out_limit
        self.strings: StringTable = StringTable()
        numbered = self.schema.sequence is not None or reorder is not None
        self.queries: QuerySet = QuerySet(
            self.schema, self.strings, numbered=numbered, timed_out=timed_out, store=store, index=index,
            pool=pool, limited=memory.bytes is not None, control=control,
        )  # fmt: skip
        self.unused: UnusedStrings = UnusedStrings(self.strings, self.schema)
        if control is not None and memory.sheds:
            control.memory = self.memory_use
        self._store, self._index = store, index
        if control is not None:
            if isinstance(control.shedder, RenewingShedder):
                control.shedder.begin(self._setting(control))
            self._begin_renewal(control)
            control.sleep.is_allowed, control.sleep.switch = self.may_sleep, self.switch
            control.set_asleep(self.may_sleep())
        self._signals = Signals()
        self._completes = False
        self.suspended = ""  # why no call is possible now, for an error
        self._waiting: list[Matches] = []  # of a call that goes on, or that a signal ended
        self.loop: EventLoop = EventLoop(
            self.queries, self.faults, make_batch_reader(self.schema, self.strings),
            single_events(self.schema, self.strings), self.strings, self._signals,
        )  # fmt: skip
        self.loop.string_limit = self.unused.limit
        first = [self.queries.prepare(query, 0) for query in queries]
        check_threads([item.plan for item in first], pool)
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
                if self.suspended:
                    raise ValidationError(self.suspended)
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
        self.configure()

    def begin_at(self, position: int, stores: Sequence[str] | None) -> None:
        """Number the events from ``position`` on, where they begin in a longer stream; call it before any event.

        ``stores`` are those that the queries have without a trial; None: as the options say.
        """
        assert self.loop.time is None
        self.loop.position, self.queries.ring = position, None
        self.run([self.queries.prepare(query, position) for query in self.query_list()])
        if stores is not None:
            self.queries.settle(stores, position)
            self.configure()

    def stop(self, old: RunningQuery, rest: Sequence[RunningQuery], complete: bool) -> None:
        """Run the rest, without one of the queries; keep the matches that this query has left, for `returned`."""
        self.memory.check_queries(rest, self.shared_bytes())
        if complete:
            self.queries.decide_one(old, None, self.loop.position, self.faults)
        matches = Matches([self.queries.take_matches_of(old, self.faults)])
        self.run(rest)
        self.keep_matches(matches)

    def _setting(self, control: Control) -> EngineSetting:
        return EngineSetting(isinstance(control.clock, VirtualClock), control.table, self._store, self._index)

    def _begin_renewal(self, control: Control) -> None:
        """Let a shedder that changes while the engine runs see the events of the stream."""
        control.renewal = Renewal(control.shedder, partial(events_to_arrow, strings=self.strings), self.replan)

    def change_shedder(self, shedder: Shedder | None, detectors: Sequence[Detector]) -> None:
        """Use another shedder from now on; partial matches stay."""
        control = self.queries.control
        assert control is not None
        old, slept = control.shedder, control.sleep.asleep
        control.shedder = shedder
        sleeps = control.sleep.asleep = (slept or old is None) and self.may_sleep()
        try:
            if isinstance(shedder, RenewingShedder):
                shedder.begin(self._setting(control))
            new = self.queries.replanned()
        finally:
            control.shedder, control.sleep.asleep = old, slept
        control.change(shedder, detectors)
        control.set_asleep(sleeps)
        self._continue(new)
        self._begin_renewal(control)

    def replan(self) -> None:
        """Plan the queries again for new classes of the shedder; partial matches stay.

        It may be called between two events of a batch.
        """
        control = self.queries.control
        assert control is not None
        if control.sleep.asleep:
            self.queries.renew_standby()
            return
        new = self.queries.replanned()
        self._waiting.append(self.queries.take_matches(self.faults))
        control.change(control.shedder, ())
        self._continue(new)

    def may_sleep(self) -> bool:
        """Return whether the overload control may sleep now.

        It is ready to shed if memory is limited, because waking takes memory, and while key groups are elsewhere,
        because engines that exchange them must store partial matches in the same way.
        """
        control = self.queries.control
        return control is not None and control.can_sleep and self.memory.bytes is None and self.queries.owned is None

    def switch(self, asleep: bool) -> None:
        """Continue with the queries' plans for an overload control that sleeps, or for one that is ready to shed.

        It may be called between two events of a batch.
        """
        control = self.queries.control
        assert control is not None
        self._waiting.append(self.queries.take_matches(self.faults))
        new = self.queries.switched()
        control.set_asleep(asleep)
        self._continue(new, same_shedder=True)

    def wake(self) -> None:
        """Wake the overload control, if it sleeps: the queries have the plans that are ready to shed."""
        if self.queries.control is not None and self.queries.control.sleep.asleep:
            self.switch(False)

    def _continue(self, new: Sequence[Replanned], *, same_shedder: bool = False) -> None:
        """Run the queries with other plans, also within a batch."""
        self.queries.use_plans(new, self.loop.position, same_shedder=same_shedder)
        self.memory.hold(self.queries.running)
        self.configure()

    def query_list(self) -> list[ast.Query]:
        """Return the queries, in order."""
        return [item.query for item in self.queries]

    def shared_bytes(self, events: int = 0) -> int:
        """Return the bytes held for all queries together, during a batch with this many events."""
        return bytes_of_all(self.queries, self.strings, self.reorder) + self.queries.list_growth(events)

    def memory_use(self) -> tuple[int, int]:
        """Return the bytes that are held, and the limit."""
        held = sum(item.nbytes for item in self.queries) + self.shared_bytes()
        return held, self.memory.bytes or 0

    def bytes_beside(self, batch: EventBatch, held: int) -> int:
        """Return the bytes held besides the ring and partial matches, once the batch and ``held`` events are taken."""
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
    ) -> None:
        """Convert and check a batch, and match it; `returned` has the matches. See `Engine.process`."""
        with self.exclusive():
            self._check_timed_out()
            if rows is None and source is None and arrivals is None and self._match_buffers(data):
                return
            batch = EventBatch.from_data(self.schema, data, self.strings, origin, first_row, rows)
            held = 0 if self.reorder is None else self.reorder.held_events
            if not self.memory.has_room(len(batch), self.queries.ring, held, self.bytes_beside(batch, held)):
                self.forget_strings(batch)
            self.memory.check_batch(len(batch), self.queries.ring, held, self.bytes_beside(batch, held), origin)
            if self.reorder is not None:
                if arrivals is not None:
                    raise ValidationError("arrivals do not go with allowed_lateness: give events in order")
                self.take(self.reorder.push(batch, origin, first_row, source))
                return
            if source is not None:
                raise ValidationError(f"source={source!r} needs Engine(…, allowed_lateness=…), which merges sources")
            check_order(batch, self.loop.time, self.loop.sequence, origin, first_row)
            if self.queries.control is not None:
                self.queries.control.arrive(event_arrivals(arrivals, batch, rows))
            elif arrivals is not None:
                raise ValidationError("arrivals are for latencies: Engine(…, latency_bound='…') measures them")
            self.take(batch)

    def _match_buffers(self, data: Any) -> bool:
        """Match a batch from its own buffers, if only the overload control needs Python; False: it must be converted.

        A shedder that records events needs converted batches. On the virtual clock it may begin to record within one.
        """
        control = self.queries.control
        if control is None or not (self._only_control and isinstance(control.clock, WallClock)):
            return False
        if control.renewal is not None and control.renewal.records:
            return False
        control.arrive(None)
        return self.loop.process_held(data, self) is not None

    def _check_timed_out(self) -> None:
        waiting = sum(map(len, self.queries.timed_out))
        if waiting > self._timed_out_limit:
            raise ValidationError(
                f"{waiting:,} partial matches that have timed out wait for timed_out(), more than "
                f"timed_out_limit={self._timed_out_limit:,}; call timed_out(), or raise the limit"
            )

    def take(self, batch: EventBatch | None, *, complete: bool = False) -> None:
        """Match the next events of the stream, if there are any; `returned` has the matches of the call.

        ``complete`` ends the stream: matches that wait for a time are decided.
        """
        self._completes = complete
        if batch is not None and len(batch):
            renewal = None if self.queries.control is None else self.queries.control.renewal
            if renewal is not None:
                renewal.begin_batch(batch)
            earlier, first = self.queries.earlier, self.loop.position
            events = earlier.extended(batch) if earlier else batch
            try:
                self.loop.process_batch(Batch(events, 0), self)
            finally:
                earlier.advance(batch, self.loop.position - first)
                if renewal is not None:
                    renewal.end_batch()
            return
        self.queries.kernels.swap()
        if batch is None:  # events that are held back may have become more
            self.memory.divide(self.queries, self.shared_bytes(), self.loop.position)
        self.decide()
        self.give()

    def prepare(self, piece: Batch) -> set[int]:
        """Prepare the queries for the next piece of a batch; return the numbers of those that cannot take it."""
        queries, size = self.queries, len(piece.source)
        if queries.ring is not None:
            other = self.shared_bytes(size) - queries.ring.nbytes
            self.memory.make_room(queries, size, other, piece.position)
            queries.ring.make_room(size)  # before the rest is divided, which counts its bytes
        self.memory.divide(queries, self.shared_bytes(size), piece.position)
        return queries.prepare_piece(piece, self.faults)

    def decide(self) -> None:
        """Decide the matches whose time has come."""
        if not self.queries.defers:
            return
        clock = self.watermark()
        if self.loop.ended and self.loop.time is not None:
            clock = self.loop.time if clock is None else max(clock, self.loop.time)
        self.queries.decide(clock, self.loop.position, self.faults, complete=self._completes)

    def watermark(self) -> int | None:
        """Return the time before which no more events are taken; None before the first event."""
        if self.reorder is None:
            return self.loop.time
        return None if self.reorder.watermark == INT64_MIN else self.reorder.watermark

    def forget_strings(self, batch: EventBatch | None = None) -> None:
        """Free the strings that neither the engine nor ``batch`` uses."""
        if self.loop.time is not None:
            self.queries.sweep(self.loop.time, self.loop.position)
        if self.queries.control is not None and self.queries.control.renewal is not None:
            self.queries.control.renewal.flush()
        self.unused.forget(self.queries, self.reorder, batch)
        self.loop.string_limit = self.unused.limit

    def configure(self) -> None:
        """Let the loop run the queries that there are, with what the engine's options need."""
        queries, limited = self.queries, self.memory.bytes is not None
        parts = [part for matcher in queries.matchers for part in parts_of_query(matcher)]
        prepares = limited or queries.owned is not None or any(item.windows is not None for item in queries)
        converts = prepares or bool(queries.earlier) or self.reorder is not None or queries.pool is not None
        direct = not converts and all(item.timed_out is None for item in queries)
        self._only_control = direct and queries.control is not None
        self.loop.open(
            parts, queries.filters, queries.ring, queries.nothings, Matches, queries.layout,
            plain=queries.is_plain, decides=queries.defers,
            direct=direct and queries.control is None,
            prepares=prepares, piece_size=_PIECE if limited else 0,
            control=queries.control,
            threads=None if queries.pool is None else ParallelMatch(queries.running, queries.pool),
            candidates=[item.trial.matcher for item in queries if item.trial is not None], trial_step=TRIED,
        )  # fmt: skip

    def give(self) -> Matches:
        """Take the matches of the call, for `returned`; handlers are delayed."""
        matches = self.queries.take_matches(self.faults)
        if self.unused.due:
            self.forget_strings()
        return self.keep_matches(matches)

    def keep_matches(self, matches: Matches) -> Matches:
        """Keep the waiting matches, then these, for `returned`; if a handler raises, the next call returns them."""
        earlier, self.loop.unreturned = self.loop.unreturned, None  # at once: another thread may be about to take them
        parts = [*self._waiting, matches] if earlier is None else [earlier, *self._waiting, matches]
        matches = self.loop.unreturned = Matches.joined(parts)
        self._waiting = []
        self.loop.failed = self.faults.any
        self.deliver_after_call()
        self.loop.matches_wait = False
        return matches

    def returned(self) -> Matches:
        """Return the matches of the call that ends, or raise the error of a query that failed.

        Every method of the engine that returns matches ends with this call. No handler of a signal runs between its
        instructions and the caller of that method, because they call nothing; if one raises before, the next call
        returns the matches.
        """
        loop = self.loop
        matches: Matches = loop.nothing if loop.unreturned is None else loop.unreturned
        failed, loop.failed, loop.unreturned = loop.failed, False, None
        return self.faults.settle(matches) if failed else matches

    def deliver_after_call(self) -> None:
        """Run the handlers of the signals that have come; what one raises gets a note that the call was carried out."""
        try:
            self._signals.deliver()
        except BaseException as error:
            self.loop.matches_wait = True
            error.add_note("fastcep: the call was carried out; the matches that it found come with the next call")
            raise

    def deliver(self) -> None:
        """Run the handlers of the signals that have come; what one raises is raised here."""
        self._signals.deliver()

    def read_events(self) -> None:
        """Take the matches, while the ring has the events that they read: they may leave it with the next ones."""
        if not self.queries.is_plain:
            self._waiting.append(self.queries.take_matches(self.faults))

    def interrupted(self, error: BaseException, taken: int, batch: Batch | None, size: int) -> None:
        """Keep the matches of a call that an error ended after ``taken`` of ``size`` events; handlers are delayed."""
        if self.queries.ring is not None:
            self.queries.ring.cut(self.loop.position)
        self.read_events()
        self.loop.matches_wait = True
        rest = f"hand over the other {size - taken:,} again"
        if self.reorder is not None and batch is not None:
            rest = f"the other {size - taken:,} are held back and come first in the next call"
            if taken < size:
                self.reorder.put_back(self.queries.earlier.original(batch.source.slice(taken, size)))
        error.add_note(
            f"fastcep: {taken:,} of {size:,} events were taken; {rest if taken < size else 'these are all'}. The "
            "matches that were found come with the next call"
        )

    def check_given(self) -> None:
        """Refuse to move state while matches wait: they are not part of the state."""
        waiting = [*self._waiting, self.loop.unreturned or ()]
        if any(map(len, waiting)) or any(matcher.output_pending for matcher in self.queries.matchers):
            raise ValidationError(
                "matches of a call that a signal ended are waiting, and they are not part of the state; take them "
                "first: process() the rest of the events, or an empty batch"
            )

