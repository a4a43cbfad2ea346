"""`ParallelEngine`: an engine that divides the work among processes or threads.

Data flow of a batch: it is checked as a whole, like in an `Engine`, and converted to *plain* events, only the columns
that the queries read. The `Splitter` cuts the stream into slices. Each slice goes as a whole to the instance with the
fewest outstanding events, and each piece of the stream once to each instance that runs a slice containing it. The
instances answer with the matches that their slices own, and the `Merger` puts these in order.

Events are kept until all slices that contain them have ended: if an instance dies, its slices are run again elsewhere.

Invariant: the matches of all calls together are those of an `Engine`, in the same order, however the instances are
scheduled, and whichever of them die.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matcher.signals import Signals
from fastcep.engine import Engine, Matches
from fastcep.engine.instance_pool import InstanceCounts
from fastcep.engine.order import check_order, one_event
from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import InstanceError, ValidationError
from fastcep.events import EventBatch, StringTable, parse_duration
from fastcep.extras import load
from fastcep.option_checks import check_whole
from fastcep.option_types import Index, Store
from fastcep.parallel.adaptation.options import MOST_INSTANCES, Adaptation
from fastcep.parallel.channel import SharedMemoryError
from fastcep.parallel.instances import Starter, Workers
from fastcep.parallel.merger import Merger
from fastcep.parallel.plain_events import plain_events
from fastcep.parallel.requirements import check_functions, common_context, watched_windows
from fastcep.parallel.scheduler import Scheduler
from fastcep.parallel.splitter import Splitter
from fastcep.query import ast
from fastcep.query.plain_schema import TIME, columns_read, plain_query

if TYPE_CHECKING:
    from fastcep.parallel.adaptation.live import LiveAdaptation

__all__ = ["ParallelEngine"]

#: Largest number of events in a message. Smaller batches are gathered while the instances are busy.
_PIECE = 16_384
#: Number of slices, as a multiple of the instances, by which the oldest unfinished slice may be behind.
_AHEAD = 4


class ParallelEngine:
    """Find the matches of one or more queries in a stream, with several instances of an engine.

    The stream is cut into slices of time, which overlap by what a match may need (see docs/parallel.md); the matches,
    their order and their columns are those of an `Engine`.

    Parameters
    ----------
    queries
        As for `Engine`. Each query must allow slices of time: no ``WITHIN UNBOUNDED``, ``CONSUME consumed`` and
        ``AFTER MATCH`` only in explicit windows, ``CLOSE ON`` only with `longest_window`; :meth:`explain` shows it.
    instances
        Number of instances; or an `Adaptation`, with which the number follows the load: it is the smallest one that
        keeps the number of waiting events below a limit with a given probability.
    workers
        ``processes``, or ``threads`` of this process, which start faster and can call user functions; they share
        Python's global lock wherever an engine runs Python code.
    queue_limit
        Number of events that may wait for the instances, and of matches that may wait for older slices; :meth:`process`
        waits when there are more. A slice has at most this number of events divided by `instances`, unless its context
        is longer, so that all instances have work.
    slice_events
        Smallest number of events from the beginning of a slice to that of the next one. Fewer let the instances share
        a short stream, and more cost less for slices.
    longest_window
        Maximum length of explicit windows that events open and close (``CLOSE ON``), such as ``"10min"``; a longer
        window is an error.
    attributes, store, index
        As for `Engine`.

    Raises
    ------
    ValidationError
        If a query is invalid or cannot be cut, if an option is invalid, or if the system is not Linux.
    OSError
        If a process cannot be started.

    Notes
    -----
    Use it as a context manager, or call :meth:`close`: the instances end with it. They also end if the engine is
    dropped, and if this process ends or is killed. Memory: the events of slices that have not ended, at most about
    ``queue_limit`` and two slices with their context per instance, and the matches that wait for older slices
    (:meth:`metrics`).
    """

    def __init__(
        self,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable],
        *,
        instances: int | Adaptation = 2,
        workers: Workers = "processes",
        queue_limit: int = 1_000_000,
        slice_events: int = 16_384,
        longest_window: str | timedelta | None = None,
        attributes: bool = False,
        store: Store = "auto",
        index: Index = "full",
    ) -> None:
        if workers not in get_args(Workers):
            raise ValidationError(f"workers={workers!r}: expected 'processes' or 'threads'")
        adaptation = instances if isinstance(instances, Adaptation) else None
        if adaptation is None:
            check_whole("instances", instances, 1, MOST_INSTANCES)
        else:
            check_whole("most", adaptation.largest, 1, MOST_INSTANCES)
        first = instances if isinstance(instances, int) else instances.first
        check_whole("queue_limit", queue_limit, 1, 1 << 40)
        check_whole("slice_events", slice_events, 1, 1 << 40)
        if adaptation is not None:
            if adaptation.buffer_limit > queue_limit:
                raise ValidationError(
                    f"buffer_limit={adaptation.buffer_limit}: expected at most queue_limit, which is {queue_limit}, as "
                    "process() waits for the instances beyond it"
                )
            # Half of the limit is for the events that wait because a slice is not divided.
            slice_events = min(slice_events, max(1, adaptation.buffer_limit // (2 * adaptation.largest)))
        built = built_queries(queries, attributes)
        self._engine = Engine(built, store=store, index=index, shedder=None)  # checks the options; it gets no events
        limits, watches = watched_windows(built, longest_window)
        context = common_context([item.plan for item in self._engine._stream.queries], limits)
        if workers == "processes":
            check_functions(built)
        self._schema = built[0].schema
        self._columns = frozenset[int]().union(*map(columns_read, built))
        numbered = self._schema.sequence is not None
        plain, watches = (
            [plain_query(query, self._columns, numbered=numbered) for query in queries] for queries in (built, watches)
        )
        self._queue_limit = queue_limit
        self._slice_events = slice_events
        self._most_slice_events = None if adaptation is None else slice_events
        self._piece = _PIECE if adaptation is None else max(1, min(_PIECE, adaptation.buffer_limit // 8))
        self._splitter = Splitter(context, slice_events, self._most_events(first))
        self._merger = Merger(built, self._engine._stream.queries.nothings)
        starter = Starter(workers, plain, watches, {"store": store, "index": index})
        self._adaptation: LiveAdaptation | None = None
        if adaptation is not None:
            live = load("fastcep.parallel.adaptation.live").LiveAdaptation
            self._adaptation = live(weakref.proxy(self), adaptation, self._splitter, monotonic_ns())
        served = None if self._adaptation is None else self._adaptation.measured.add
        self._scheduler = Scheduler(starter, self._merger, len(built), served)
        self._finish = weakref.finalize(self, self._scheduler.close)  # also if nobody calls `close`
        self._gathered: list[pa.Table] = []
        self._time: int | None = None
        self._sequence: int | None = None
        self._events = 0
        self._ended = self._closed = False
        self._signals = Signals()
        try:
            self._scheduler.resize(first)
        except BaseException:
            self.close()
            raise

    # ----------------------------------------------------------------- input

    def process(
        self, data: Any, *, origin: str = "batch", first_row: int = 0, rows: npt.NDArray[Any] | None = None
    ) -> Matches:
        """Take a batch of events, and return the matches that were found since the last call.

        Parameters
        ----------
        data, origin, first_row, rows
            As for `Engine.process`.

        Raises
        ------
        SchemaError, DataError
            If the data does not fit the schema. The whole batch is rejected; earlier batches are not affected.
        InstanceError
            If a query failed in an instance, if instances died repeatedly, or if there is no shared memory. The engine
            is closed then.
        ValidationError
            After :meth:`flush` or :meth:`close`.
        """
        self._check_open()
        strings = StringTable()
        batch = EventBatch.from_data(self._schema, data, strings, origin, first_row, rows)
        check_order(batch, self._time, self._sequence, origin, first_row)
        with self._closing_after_failure():
            if len(batch):
                with self._signals:
                    self._take(batch, strings)
            try:
                self._adapt()
                self._scheduler.receive(0)
                while self._is_full:
                    with self._signals:
                        self._dispatch()
                    self._scheduler.receive(None)
            except KeyboardInterrupt as error:
                error.add_note("fastcep: the batch was taken as a whole; its matches come with later calls")
                raise
        return self._next_matches()

    def send(self, type: str, /, **values: Any) -> Matches:
        """Take one event, and return the matches that were found since the last call; see `Engine.send`."""
        return self.process(one_event(self._schema, type, values), origin="event")

    def poll(self, timeout: str | timedelta = "0s") -> Matches:
        """Return the matches that were found since the last call; errors as for :meth:`process`.

        If events wait for the instances, and no answer has come, wait for one up to `timeout`.
        """
        self._check_open()
        seconds = parse_duration(timeout) / 1e9
        with self._closing_after_failure():
            with self._signals:
                self._dispatch()
            self._adapt()
            self._scheduler.receive(seconds if self._scheduler.outstanding else 0)
        return self._next_matches()

    def flush(self, *, complete: bool = True) -> Matches:
        """End the stream: wait for all instances, and return the remaining matches.

        Parameters and errors as for `Engine.flush` and :meth:`process`. An exception that a signal handler raises, such
        as ``KeyboardInterrupt``, ends the wait; the call can be repeated.
        """
        self._check_not_closed()
        with self._closing_after_failure():
            if not self._ended:
                with self._signals:
                    self._end(complete)
            while not self._scheduler.is_idle:
                self._scheduler.receive(None)
        return self._next_matches()

    def close(self) -> None:
        """End all instances. Matches that were not returned are lost."""
        self._closed = True
        self._finish()

    def __repr__(self) -> str:
        names = ", ".join(repr(item.query.name) for item in self._engine._stream.queries)
        return f"ParallelEngine({names}: {self._events:,} events)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resize(self, instances: int) -> None:
        """Set the number of instances, also between two batches of a stream.

        New ones get the next slices. Surplus ones get no more slices, and end when they have finished theirs.

        Raises
        ------
        ValidationError
            If the number is invalid, or after :meth:`flush` or :meth:`close`.
        OSError
            If a process cannot be started.

        Notes
        -----
        With an `Adaptation`, the next decision sets the number again.
        """
        self._check_open()
        check_whole("instances", instances, 1, MOST_INSTANCES)
        with self._signals:
            self._scheduler.resize(instances)
            self._splitter.most = self._most_events(instances)

    def counts(self) -> InstanceCounts:
        """Return the numbers of instances that are ready, starting and leaving."""
        return self._scheduler.counts()

    # ----------------------------------------------------------------- views

    def explain(self, format: str = "text") -> str:
        """Return the plans, see `Engine.explain`."""
        return self._engine.explain(format)

    def metrics(self) -> dict[str, Any]:
        """Return counters and gauges since the engine was created.

        Returns
        -------
        dict
            ``events``: taken so far; ``slices``: begun so far; ``overlap``: share of the events that a second slice
            contains as well; ``waiting_events``: sent to instances, and not answered; ``kept_events``: held in case an
            instance dies, and ``kept_bytes``; ``peak_partial_matches``: the largest number in a slice that has
            ended; ``waiting_matches``: those that wait for older slices; ``restarts``: of slices whose instance
            died; ``instances``: for each its ``number``, ``process`` (id, None for a thread), ``slices`` (numbers of
            those that it runs), ``waiting_events``, ``ready`` and ``leaving``. With an `Adaptation` also
            ``adaptation``: ``wanted_instances``; and of the last decision, None before it, ``rate`` and ``forecast`` in
            events/s, ``forecast_method``, ``service_ns`` for an event, ``probability`` of at most ``buffer_limit``
            waiting events, and ``problem``, empty if the limit can be kept.
        """
        scheduler, splitter = self._scheduler, self._splitter
        return {
            "events": self._events,
            "slices": splitter.slices,
            "overlap": splitter.overlap,
            "waiting_events": self._waiting_events,
            "kept_events": scheduler.kept,
            "kept_bytes": scheduler.kept_bytes,
            "peak_partial_matches": scheduler.peak,
            "waiting_matches": self._merger.waiting,
            "restarts": scheduler.restarts,
            "instances": [
                {"number": instance.number, "process": instance.process, "slices": sorted(instance.slices),
                 "waiting_events": instance.outstanding, "ready": instance.is_ready, "leaving": instance.is_leaving}
                for instance in scheduler.instances
            ],
        } | ({} if self._adaptation is None else {"adaptation": self._adaptation.metrics()})  # fmt: skip

    # ------------------------------------------------------------------- parts

    def _most_events(self, instances: int) -> int:
        """Return the largest number of events from the beginning of a slice to that of the next one."""
        return self._most_slice_events or max(self._slice_events, self._queue_limit // instances)

    def _adapt(self) -> None:
        """Change the number of instances, if it is time to."""
        if self._adaptation is not None:
            self._adaptation.step(monotonic_ns())

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ValidationError("the engine is closed; create a new ParallelEngine")
        if self._scheduler.is_forked:
            raise ValidationError("the engine belongs to the parent of this process; create a new ParallelEngine")
        if self._signals.torn or self._scheduler.is_torn:
            raise ValidationError(
                "a signal that came twice ended an earlier call of the engine while it took or sent events; create a "
                "new ParallelEngine"
            )

    def _check_open(self) -> None:
        self._check_not_closed()
        if self._ended:
            raise ValidationError("the stream has ended with flush(); create a new ParallelEngine for another stream")

    def _next_matches(self) -> Matches:
        """Return the matches that are ready; if the handler of a signal raises, the next call returns them."""
        merger = self._merger
        with self._signals:
            matches, taken = merger.take(), merger.taken
        if merger.taken is not taken:  # a call by a handler has returned them
            return self._next_matches()
        merger.taken = []  # no handler runs from the test to the caller of the engine
        return matches

    def _take(self, batch: EventBatch, strings: StringTable) -> None:
        """Take the events of a batch; send them, or gather them while there are few and the instances are busy."""
        self._events += len(batch)
        self._time = int(batch.time[-1])
        self._sequence = None if batch.sequence is None else int(batch.sequence[-1])
        self._gathered.append(plain_events(batch, strings, self._columns))
        if self._adaptation is not None:
            self._adaptation.arrived(batch.time, monotonic_ns())
        if not self._scheduler.outstanding or sum(map(len, self._gathered)) >= self._piece:
            self._dispatch()

    def _dispatch(self) -> None:
        """Send the events that were gathered."""
        if not self._gathered:
            return
        events = pa.concat_tables(self._gathered).combine_chunks()
        self._gathered = []
        for first in range(0, len(events), self._piece):
            piece = events.slice(first, self._piece)
            times = piece[TIME].to_numpy() if len(piece) else np.empty(0, np.int64)
            self._scheduler.dispatch(piece, self._splitter.split(times))

    @property
    def _is_full(self) -> bool:
        """True if the stream is so far ahead of the instances that it has to wait."""
        scheduler = self._scheduler
        if self._waiting_events > self._queue_limit:
            return True
        ahead = scheduler.newest - self._merger.oldest > _AHEAD * len(scheduler.instances)
        return scheduler.outstanding > 0 and (ahead or self._merger.waiting > self._queue_limit)

    @property
    def _waiting_events(self) -> int:
        return self._scheduler.outstanding + sum(map(len, self._gathered))

    def _end(self, complete: bool) -> None:
        self._dispatch()
        last, begun = self._splitter.finish()
        if begun is not None:
            self._scheduler.forget(begun)
        if last is not None:
            self._scheduler.end(last, complete=complete)
        self._ended = True

    @contextmanager
    def _closing_after_failure(self) -> Iterator[None]:
        """Close the engine if an instance fails, or if there is no memory to send something to it."""
        try:
            yield
        except SharedMemoryError as error:
            self.close()
            raise InstanceError(str(error), self._merger.take()) from None
        except BaseException as error:
            # What the handler of a signal raises while an instance's error is raised has this error as its context.
            if isinstance(error, InstanceError) or isinstance(error.__context__, InstanceError):
                self.close()
            raise
