"""The engine: batches of events in, matches out.

``Engine`` validates a batch whole before any of it is taken, numbers its events, appends what later reads need to the
event ring, and lets each query's compiled matcher run over it without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.match import Matcher
from fastcep.engine.link import Linker
from fastcep.engine.matches import Matches
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import collect, shared_bytes
from fastcep.engine.order import check_order, one_event
from fastcep.engine.output import no_matches, take_matches
from fastcep.engine.queries import Buildable, built_queries
from fastcep.engine.reorder import make_reorderer
from fastcep.engine.returns import Returns
from fastcep.engine.strings import UnusedStrings
from fastcep.engine.times import nanoseconds
from fastcep.engine.windows import WindowBounds
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, EventRing, Schema, StringTable, parse_duration
from fastcep.events.export import empty_events, events_to_arrow
from fastcep.events.units import INT64_MIN, format_time
from fastcep.kernels import Kernels
from fastcep.plan import explain, make_plan
from fastcep.query import ast


class Engine:
    """Find the matches of one or more queries in a stream.

    Parameters
    ----------
    queries
        A query (from :func:`fastcep.parse` or the builder), or several over one schema with different names.
    attributes
        Return the time and every attribute of all matched events, see :func:`fastcep.with_attributes`.
    allowed_lateness
        How far an event may be behind the latest one, such as ``"5s"`` or a timedelta: events are held back that long
        and put in order; those later still go to :meth:`late`. None: the input must be in order.
    idle_timeout
        Wall-clock time without input after which :meth:`poll` gives what is held back, and after which one of several
        sources does not hold back the others.
    late_limit
        How many late events may wait for :meth:`late`.
    clock
        Gives nanoseconds that only grow, for ``idle_timeout``.
    memory_limit
        Bytes that the engine may hold, or text such as ``"512MiB"``; None for no limit. The input and the matches
        that were returned are not counted.
    on_memory_limit
        ``"raise"``: a query that needs more than its share loses its partial matches, and the call raises
        `MemoryLimitError` when its batch is done; the engine can go on.

    Raises
    ------
    ValidationError
        If queries disagree on the schema or share a name, call a function that is not registered or that Numba
        cannot compile, or have a column of ``attributes`` with the name of another, or if an option is wrong.

    Notes
    -----
    Memory: partial matches live as long as their first event is inside the window; ``metrics()["memory_bytes"]`` states
    what is held. ``WITHIN UNBOUNDED`` keeps them for good, so the engine warns.
    """

    def __init__(
        self,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable],
        *,
        attributes: bool = False,
        allowed_lateness: str | timedelta | None = None,
        idle_timeout: str | timedelta | None = None,
        late_limit: int = 1_000_000,
        clock: Callable[[], int] = monotonic_ns,
        memory_limit: str | int | None = None,
        on_memory_limit: str = "raise",
    ) -> None:
        built = built_queries(queries, attributes)
        self._schema: Schema = built[0].schema
        self._reorder = make_reorderer(self._schema, allowed_lateness, idle_timeout, late_limit, clock)
        self._own_numbers = self._schema.sequence is not None or self._reorder is not None
        self._strings = StringTable()
        self._plans = tuple(make_plan(query) for query in built)
        self._link = Linker(self._strings)
        for query in built:
            self._link.prepare(query)
        self._matchers = tuple(Matcher(plan, self._link) for plan in self._plans)
        self._windows = tuple(
            None if plan.windows is None else WindowBounds(plan, self._link) for plan in self._plans
        )
        self._defers = any(state.deferred for plan in self._plans for state in plan.states)
        kept = sorted({column for plan in self._plans for column in plan.ring_columns if column >= 0})
        keeps = self._own_numbers or any(plan.ring_columns or plan.query.returns for plan in self._plans)
        self._ring = EventRing(kept, self._schema) if keeps else None
        self._returns = tuple(
            Returns(query, self._ring, self._strings, self._link) if query.returns and self._ring is not None else None
            for query in built
        )
        shared = shared_bytes(self._ring, self._strings, self._reorder)
        names = [query.name for query in built]
        self._memory = MemoryLimit(memory_limit, on_memory_limit, self._matchers, names, shared)
        self._position = 0
        self._time: int | None = None
        self._sequence: int | None = None
        self._ended = False
        self._busy = Lock()
        self._unused = UnusedStrings(self._strings, self._schema, kept)
        self._kernels = Kernels([*self._matchers, *(returns for returns in self._returns if returns is not None)])

    # ----------------------------------------------------------------- input

    def process(
        self,
        data: Any,
        *,
        origin: str = "batch",
        first_row: int = 0,
        rows: npt.NDArray[np.int64] | None = None,
        source: str | None = None,
    ) -> Matches:
        """Take a batch of events and return the matches that they complete.

        Parameters
        ----------
        data
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, polars, pandas, duckdb), or a
            mapping of column names to arrays. Times must not run backwards, or ``allowed_lateness`` is set: then the
            matches of events held back come with a later call.
        origin, first_row
            Name of the input and the number of the batch's first row in it, for error messages.
        rows
            Numbers of the batch's rows after `first_row`, int64[n], if rows between them were left out.
        source
            With ``allowed_lateness``: which of several inputs this is. The slowest of them decides what is late. An
            empty batch announces its source, so that the others wait for it.

        Raises
        ------
        SchemaError, DataError
            If the data does not fit the schema; the batch is refused whole, what was accepted before stays.
        ValidationError
            After :meth:`flush`; if more than ``late_limit`` late events would wait (nothing of the batch is taken).
        MemoryLimitError
            If a query needed more memory than its share; its ``matches`` are those of the call.
        """
        with self._alone():
            batch = EventBatch.from_data(self._schema, data, self._strings, origin, first_row, rows)
            order = self._reorder
            held = 0 if order is None else order.held_events
            if not self._memory.has_room(len(batch), self._ring, held, self._beside(batch)):
                self._forget_strings(batch)
            self._memory.check_batch(len(batch), self._ring, held, self._beside(batch), origin)
            if self._reorder is not None:
                return self._take(self._reorder.push(batch, origin, first_row, source))
            if source is not None:
                raise ValidationError(f"source={source!r} needs Engine(…, allowed_lateness=…), which merges sources")
            check_order(batch, self._time, self._sequence, origin, first_row)
            return self._take(batch)

    def send(self, type: str, /, **values: Any) -> Matches:
        """Take one event.

        Parameters
        ----------
        type
            The event's type.
        **values
            Its attributes by name (left out = null) and its time, under the time column's name or as ``time`` (and
            likewise the sequence number, or ``seq``, when the schema names a column for it).

        Raises
        ------
        SchemaError, DataError
            If the event does not fit the schema.
        """
        return self.process(one_event(self._schema, type, values), origin="event")

    @contextmanager
    def _alone(self, *, ended: bool = False) -> Iterator[None]:
        """Hold the engine for one call: the GIL is released while it runs, so that another thread could come in."""
        if not self._busy.acquire(blocking=False):
            raise ValidationError("the engine is busy in another thread; use it from one thread at a time")
        try:
            if self._ended and not ended:
                raise ValidationError("the stream was ended by flush(); make a new Engine for another stream")
            yield
        finally:
            self._busy.release()

    # ------------------------------------------------------------------- run

    def compile(self, timeout: str | timedelta = "30s") -> bool:
        """Wait, at most for ``timeout``, until the generated kernels are in use; they come by themselves, but later.

        Returns
        -------
        bool
            Whether all conditions run as generated code; if not, ``metrics()["kernels"]`` says why.
        """
        with self._alone():
            return self._kernels.wait(parse_duration(timeout))

    def _beside(self, batch: EventBatch) -> int:
        """Bytes held beside the ring and the partial matches, when the batch has been taken."""
        held = 0 if self._reorder is None else batch.nbytes
        return shared_bytes(None, self._strings, self._reorder) + held

    def _take(self, batch: EventBatch | None, *, complete: bool = False) -> Matches:
        """Match the events that are next in the stream, if there are any."""
        self._kernels.swap()
        if batch is None:  # what is held back has grown
            self._memory.divide(shared_bytes(self._ring, self._strings, self._reorder), self._position)
        if batch is not None:
            self._match(batch)
        if self._defers:
            self._decide(complete)
        found = no_matches(self._plans, self._returns) if batch is None and not self._defers else self._found()
        if self._unused.due:
            self._forget_strings()
        return self._memory.settle(found)

    def _found(self) -> Matches:
        numbers = self._ring if self._own_numbers else None
        parts = zip(self._plans, self._matchers, self._returns, strict=True)
        return Matches([take_matches(*part, numbers) for part in parts])

    def _decide(self, complete: bool) -> None:
        """Decide the matches that wait for a time which the watermark has passed; if the stream is complete, all."""
        clock = self._watermark()
        if self._ended and self._time is not None:
            clock = self._time if clock is None else max(clock, self._time)
        for number, matcher in enumerate(self._matchers):
            live = matcher.lost
            if complete:
                done = matcher.finish(self._ring)
            else:
                done = clock is None or matcher.advance(clock, self._position, self._ring)
            if not done:
                self._memory.gave_up(number, self._position, matcher.lost - live)

    def _match(self, batch: EventBatch) -> None:
        ring, position = self._ring, self._position
        if len(batch):
            if ring is not None:
                other = shared_bytes(None, self._strings, self._reorder)
                self._memory.make_room(ring, len(batch), other, position)
                ring.append(batch)
            self._memory.divide(shared_bytes(ring, self._strings, self._reorder), position)
            for number, matcher in enumerate(self._matchers):
                live = matcher.lost
                windows = self._windows[number]
                bounds = None if windows is None else windows.find(batch, position, ring)
                taken = matcher.process(batch, position, ring, bounds)
                if taken < len(batch):
                    self._memory.gave_up(number, position + taken, matcher.lost - live)
            self._position += len(batch)
            self._time = int(batch.time[-1])
            if batch.sequence is not None:
                self._sequence = int(batch.sequence[-1])

    def _watermark(self) -> int | None:
        """The time that no later event is taken from before; None at first."""
        if self._reorder is None:
            return self._time
        return None if self._reorder.watermark == INT64_MIN else self._reorder.watermark

    def _oldest(self) -> int:
        """Position before which no live partial match needs an event."""
        needed = [matcher.first_needed for matcher in self._matchers]
        return min((position for position in needed if position is not None), default=self._position)

    def _forget_strings(self, batch: EventBatch | None = None) -> None:
        """Free the texts that nothing holds, not ``batch`` either."""
        if self._time is not None:
            self._sweep(self._time)
        self._unused.forget(self._matchers, self._ring, self._reorder, batch)

    def _sweep(self, time: int) -> None:
        """Drop the partial matches whose window ends before ``time``, and the events that none needs."""
        for matcher in self._matchers:
            matcher.advance(time, self._position, self._ring)
        if self._ring is not None:
            self._ring.reclaim(self._oldest())

    def advance(self, time: int | datetime) -> Matches:
        """Move the stream's clock (the watermark) without an event: what comes later must not be older.

        Parameters
        ----------
        time
            int, nanoseconds since the epoch, or a datetime (naive = UTC).

        Returns
        -------
        Matches
            Those of events that were held back until this time, and those that are decided before it.

        Raises
        ------
        ValidationError
            If the time is before the one already reached, or after :meth:`flush`.
        """
        moment = nanoseconds(time)
        with self._alone():
            reached = self._watermark()
            if reached is not None and moment < reached:
                raise ValidationError(
                    f"cannot move the clock back from {format_time(reached)} to {format_time(moment)}"
                )
            batch = None
            if self._reorder is not None:
                batch = self._reorder.advance(moment)
            elif self._defers:
                self._time = moment
            found = self._take(batch)
            self._time = moment
            self._sweep(moment)
            return found

    def poll(self) -> Matches:
        """Return the matches of held events if no input has come for ``idle_timeout``; else nothing.

        The watermark goes to the largest time seen, so that an older event is late from then on.

        Raises
        ------
        ValidationError
            Without ``idle_timeout``, or after :meth:`flush`.
        """
        with self._alone():
            if self._reorder is None or not self._reorder.may_idle:
                raise ValidationError('poll() needs a time to wait: Engine(…, idle_timeout="2s", allowed_lateness=…)')
            return self._take(self._reorder.poll())

    def late(self) -> pa.Table:
        """Return the late events since the last call, also after :meth:`flush`.

        Returns
        -------
        pyarrow.Table
            In order of arrival: time, type, sequence number and attributes, named as in the input. An attribute that
            the event's type does not have is null.
        """
        with self._alone(ended=True):
            late = self._reorder.take_late() if self._reorder is not None else None
            return events_to_arrow(late if late is not None else empty_events(self._schema), self._strings)

    def flush(self, *, complete: bool = True) -> Matches:
        """End the stream: return what was waiting for its end and drop all state but late events.

        ``complete=False`` says that the stream broke off: matches that wait for a time after its last event are lost.
        """
        with self._alone():
            batch = self._reorder.finish() if self._reorder is not None else None
            self._ended = True
            found = self._take(batch, complete=complete)
            for matcher in self._matchers:
                matcher.clear()  # so that nothing is decided any more
                matcher.finish(self._ring)
            if self._ring is not None:
                self._ring.reclaim(self._position)
            return found

    # ----------------------------------------------------------------- views

    def explain(self, format: str = "text") -> str:
        """The plans: states, edges, keys, predicates, registers; ``format`` is text, json, mermaid, dot or svg."""
        return explain(self._plans, format=format)

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges since the engine was made.

        Returns
        -------
        dict
            ``events``, ``relevant_events`` (that some variable may bind), ``matches``, ``matches_by_query``,
            ``rows_visited``, ``rows_created``, ``live_partial_matches`` (exact), ``peak_partial_matches`` (sum
            of the queries' peaks), ``dropped_partial_matches`` (for want of memory), ``stored_rows`` (dead ones not
            yet removed included), ``negated_events`` (kept for ``NEG``), ``waiting_matches`` (for the time that
            decides them; they count as partial matches), ``keys``, ``strings``, ``arithmetic_nulls`` (overflows,
            integer divisions by zero), ``function_errors`` (exceptions in users' functions), ``watermark`` (ns; None
            at first), ``held_events``, ``late_events`` (all so far), ``late_waiting`` (for :meth:`late`),
            ``memory_bytes``, ``memory_limit`` (None without), ``memory_by_query``, ``bytes_per_key`` (of the indexes),
            ``bytes_per_row`` (starts and chains included), ``bytes_per_event`` (of the event ring), and ``kernels``: of
            the ``total`` programs how many run as ``generated`` code, are ``pending`` or ``failed``, and the
            ``reason``.
            Every event that arrived is in one of ``events``, ``held_events`` and ``late_events``.
        """
        names = [plan.query.name for plan in self._plans]
        parts = collect(names, self._matchers, self._returns, self._ring, self._strings, self._reorder)
        own = {"events": self._position, "watermark": self._watermark(), "memory_limit": self._memory.bytes}
        return own | parts | {"kernels": self._kernels.metrics()}
