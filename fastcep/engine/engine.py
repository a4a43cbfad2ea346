"""`Engine`: find matches in batches of events. ``stream`` implements its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matcher.send import compiled
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import collect
from fastcep.engine.order import one_event
from fastcep.engine.queries import Buildable, built_queries, warn_unbounded
from fastcep.engine.query_methods import QueryMethods
from fastcep.engine.reorder import make_reorderer
from fastcep.engine.results.matches import Matches
from fastcep.engine.results.timeouts import take_timed_out
from fastcep.engine.run_methods import RunMethods
from fastcep.engine.state_methods import StateMethods
from fastcep.engine.state_transfer import StateTransfer
from fastcep.engine.stream import Stream
from fastcep.engine.thread_pool import make_pool
from fastcep.engine.times import duration_text, nanoseconds
from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.events.export import empty_events, events_to_arrow
from fastcep.events.units import format_time
from fastcep.option_types import Clock, Index, MemoryLimitAction, Store
from fastcep.overload.costs import CostTable
from fastcep.overload.options import idle_clock, make_control, shedding_options
from fastcep.overload.protocols import Detector, Shedder
from fastcep.plan import explain
from fastcep.query import ast


class Engine(QueryMethods, RunMethods, StateMethods):
    """Find the matches of one or more queries in a stream.

    Parameters
    ----------
    queries
        A query (from :func:`fastcep.parse` or the builder), or several over one schema with different names.
    attributes
        Return the time and every attribute of all matched events, see :func:`fastcep.with_attributes`.
    allowed_lateness
        How far an event may be behind the latest one, such as ``"5s"`` or a timedelta. Events are held back that long
        and put in order; later ones go to :meth:`late`. None: an event older than the latest one is an error, or
        with `idle_timeout` late, as with ``"0s"``.
    idle_timeout
        Wall-clock time without input after which :meth:`poll` releases held events, and after which one of several
        sources no longer holds back the others.
    late_limit
        Number of late events that may wait for :meth:`late`.
    clock
        Clock that measures latencies: ``wall``, real time, or ``virtual``, the time that `cost_table` assigns to the
        counted operations, the same on every machine. A function that returns nanoseconds and never decreases
        replaces the wall clock.
    memory_limit
        Bytes that the engine may hold, or text such as ``"512MiB"``; None for no limit. Input data and returned
        matches do not count.
    on_memory_limit
        ``"raise"``: a query that needs more than its share loses its partial matches, and the call raises
        `MemoryLimitError` at the end of the batch; the engine remains usable. ``"shed"``: `shedder` drops the least
        valuable partial matches when 90 % of the limit is in use; a query that still exceeds its share loses its
        partial matches without an error.
    timed_out
        Keep the partial matches whose window ends for :meth:`timed_out`. Explicit windows are isolated then.
    timed_out_limit
        Number of partial matches that may wait for :meth:`timed_out`; beyond it the engine takes no more events.
    store
        Storage of partial matches: ``rows``, one row for each; ``factorised``, the events that they consist of, if the
        query allows it (:meth:`explain` shows the reason if not); ``auto``: if the query allows both, both run on the
        first events and the cheaper one is kept. The matches are the same. Engines that exchange key groups need the
        same store.
    index
        Equalities of WHERE that look up rows: ``full``, all, including computed ones (``a.v + b.v = c.v``); ``key``,
        those between plain attributes (``a.id = b.id``); ``off``, none. The other equalities are tested row by row. The
        matches are the same. Only ``full`` allows the factorised store; ``off`` leaves no key to divide the state by.
        Contiguity and events of negated variables always use keys. A partial match with a null key joins nothing, so
        it is stored (and times out) only if that attribute is not a key.
    threads
        Number of threads that match, including the calling one. Each has some keys of every keyed query, and some of
        the other queries. Matches and their order are those of one thread.
    latency_bound
        The latency that an event may have, such as ``"500us"`` (a number is in nanoseconds). The engine measures it,
        and `shedder` keeps it.
    shedder
        Chooses what to drop when the engine is overloaded: a shedder of :mod:`fastcep.shedding`, or its spelling, such
        as ``"hybrid"``. ``"auto"`` sheds at random at first, and by a model that it fits on the stream later; without
        ``latency_bound`` or ``on_memory_limit="shed"`` it does nothing. None or ``"none"``: latencies are measured and
        nothing is dropped.
    model
        Model for a shedder that is given by its spelling and takes one: a `Model`, the folder of one, or a list of
        these, one per query.
    detector
        Decides when the engine is overloaded: one detector, or several, of which the highest demand counts. None: the
        default detectors of the shedder, for the processing latency, for the queue (if calls pass `arrivals`), and for
        memory with ``on_memory_limit="shed"``.
    cost_table
        ``measured``, ``paper``, a `CostTable`, or a file written by ``fastcep calibrate``.

    Raises
    ------
    ValidationError
        If queries disagree on the schema or share a name, call a function that is not registered or that Numba
        cannot compile, or have a column of ``attributes`` with the name of another column, or if an option is invalid,
        including more than one thread for a single query that is not keyed.

    Notes
    -----
    Memory: a partial match lives as long as its first event is inside the window; ``metrics()["memory_bytes"]`` shows
    the bytes in use. ``WITHIN UNBOUNDED`` keeps partial matches forever, so the engine warns. It also warns about
    explicit windows that each wait for a closing event of their own.
    """

    def __init__(
        self,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable],
        *,
        attributes: bool = False,
        allowed_lateness: str | timedelta | None = None,
        idle_timeout: str | timedelta | None = None,
        late_limit: int = 1_000_000,
        clock: Clock | Callable[[], int] = "wall",
        memory_limit: str | int | None = None,
        on_memory_limit: MemoryLimitAction = "raise",
        timed_out: bool = False,
        timed_out_limit: int = 1_000_000,
        store: Store = "auto",
        index: Index = "full",
        threads: int = 1,
        latency_bound: str | timedelta | float | None = None,
        shedder: Shedder | str | None = "auto",
        model: Any = None,
        detector: Detector | Sequence[Detector] | None = None,
        cost_table: CostTable | str | Path = "measured",
    ) -> None:
        checked = built_queries(queries, attributes)
        for query in checked:
            warn_unbounded(query)
        control = make_control(
            clock, cost_table, latency_bound, shedder, detector, model=model, threads=threads,
            sheds_memory=on_memory_limit == "shed",
        )  # fmt: skip
        reorder = make_reorderer(checked[0].schema, allowed_lateness, idle_timeout, late_limit, idle_clock(clock))
        memory = MemoryLimit(memory_limit, on_memory_limit)
        self._stream = Stream(
            checked, attributes, reorder, memory, timed_out, timed_out_limit, store, index, make_pool(threads), control
        )
        self._loop = self._stream.loop
        self._timed_out = timed_out
        options = {
            "attributes": attributes,
            "allowed_lateness": duration_text(allowed_lateness),
            "idle_timeout": duration_text(idle_timeout),
            "late_limit": late_limit,
            "memory_limit": memory.bytes,
            "on_memory_limit": on_memory_limit,
            "timed_out": timed_out,
            "timed_out_limit": timed_out_limit,
            "store": store,
            "index": index,
            **shedding_options(control),
        }
        self._transfer = StateTransfer(self._stream, options)

    def __repr__(self) -> str:
        names = ", ".join(repr(item.query.name) for item in self._stream.queries)
        return f"Engine({names or 'no queries'}: {self._loop.position:,} events)"

    # ----------------------------------------------------------------- input

    def process(
        self,
        data: Any,
        *,
        origin: str = "batch",
        first_row: int = 0,
        rows: npt.NDArray[np.int64] | None = None,
        source: str | None = None,
        arrivals: npt.ArrayLike | None = None,
    ) -> Matches:
        """Process a batch of events and return the matches that they complete.

        Parameters
        ----------
        data
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, polars, pandas, duckdb), or a
            mapping of column names to arrays. Times must not run backwards unless ``allowed_lateness`` is set; then
            later calls return the matches of events that this one holds back.
        origin, first_row
            Name of the input, and the number of the batch's first row in it, for error messages.
        rows
            Row numbers after `first_row`, int64[n], if some rows of the input were left out.
        source
            With ``allowed_lateness``: the name of this input among several. The slowest input determines which events
            are late. An empty batch announces its source, so that the others wait for it.
        arrivals
            Arrival time of each event, int64[n], ns on the engine's clock, ascending. The wait since then is part of
            the event latency. None: events arrive when the call processes them.

        Raises
        ------
        SchemaError, DataError
            If the data does not fit the schema. The whole batch is rejected; earlier batches are not affected.
        ValidationError
            After :meth:`flush`, or if more than ``late_limit`` late events would wait. The whole batch is rejected.
        MemoryLimitError
            If a query needed more memory than its share. The error's ``matches`` are those of the call.
        QueryError
            If a query failed for another reason; also with ``matches``. The other queries have processed the batch.

        Notes
        -----
        Signal handlers run between two events, at least about every 25 ms (docs/reliability.md). An exception that a
        handler raises, such as ``KeyboardInterrupt`` on Ctrl-C, ends the call, and the next call returns the matches
        that were found. ``metrics()["events"]`` counts the processed events; if some of the batch were not, a note on
        the exception states how many were. With ``allowed_lateness`` the engine keeps the remaining events of the batch
        and matches them in the next call.
        """
        plain = rows is None and source is None and arrivals is None
        if not plain or self._loop.process(data, self._stream) is None:
            self._stream.process(data, origin, first_row, rows, source, arrivals)
        return self._stream.returned()

    @compiled
    def send(self, type: str, /, **values: Any) -> Matches:
        """Process one event and return the matches that it completes.

        Parameters
        ----------
        type
            Name of the event's type.
        **values
            The attributes by name (an omitted one is null) and the time, under the name of the time column or as
            ``time``. If the schema has a sequence column, also the sequence number, under its name or as ``seq``.

        Raises
        ------
        SchemaError, DataError
            If the event does not fit the schema.
        """
        return self.process(one_event(self._stream.schema, type, values), origin="event")

    # ------------------------------------------------------------------- run

    def compile(self, timeout: str | timedelta = "30s") -> bool:
        """Wait up to ``timeout`` until the generated kernels are in use; without this call they are used later.

        Returns
        -------
        bool
            True if all conditions run as generated code; if not, ``metrics()["kernels"]`` has the reason.
        """
        with self._stream.exclusive():
            return self._stream.queries.kernels.wait(parse_duration(timeout))

    def advance(self, time: int | datetime) -> Matches:
        """Move the stream's clock (the watermark) without an event; later events must not be older.

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
            If the time is before the current one, or after :meth:`flush`.
        """
        moment = nanoseconds(time)
        with self._stream.exclusive():
            reached = self._stream.watermark()
            if reached is not None and moment < reached:
                raise ValidationError(
                    f"cannot move the clock back from {format_time(reached)} to {format_time(moment)}; give the time "
                    "of the last event or a later one"
                )
            batch = None
            if self._stream.reorder is not None:
                batch = self._stream.reorder.advance(moment)
            elif self._stream.queries.defers:
                self._loop.time = moment
            try:
                self._stream.take(batch)
            finally:
                if not self._loop.matches_wait:  # no signal ended the call before all held events were matched
                    self._loop.time = moment
                    self._stream.queries.sweep(moment, self._loop.position)
            self._stream.deliver_after_call()
        return self._stream.returned()

    def poll(self) -> Matches:
        """Return the matches of held events if no input has come for ``idle_timeout``, otherwise no matches.

        The watermark moves to the largest time seen, so that an older event is late from then on.

        Raises
        ------
        ValidationError
            Without ``idle_timeout``, or after :meth:`flush`.
        """
        with self._stream.exclusive():
            if self._stream.reorder is None or self._stream.reorder.idle_seconds is None:
                raise ValidationError('poll() needs a time to wait: Engine(…, idle_timeout="2s")')
            self._stream.take(self._stream.reorder.poll())
        return self._stream.returned()

    def late(self) -> pa.Table:
        """Return the late events since the last call, also after :meth:`flush`.

        Returns
        -------
        pyarrow.Table
            Time, type, sequence number and attributes, named as in the input, in order of arrival. An attribute that
            the event's type does not have is null.
        """
        stream = self._stream
        with stream.exclusive(ended=True):
            late = stream.reorder.take_late() if stream.reorder is not None else None
            return events_to_arrow(late if late is not None else empty_events(stream.schema), stream.strings)

    def timed_out(self, query: str | None = None) -> pa.Table:
        """Return the partial matches whose window has ended since the last call, also after :meth:`flush`.

        Parameters
        ----------
        query
            The name of the query whose partial matches are returned; those of the others keep waiting. None: all.

        Returns
        -------
        pyarrow.Table
            Columns: ``query``, ``window_id``, ``timed_out_at`` (the end of the window; for ``WITHIN n EVENTS`` the time
            of the event that pushed it out), ``bound`` (int64, number of bound variables), ``waits_for``
            (list<string>, the variables that the pattern allows next), then a column per variable as in
            :meth:`Matches.to_arrow`. Order: time, query, end of the window (windows closed by events first, event by
            event), window (for ``WITHIN n EVENTS``: first event), birth order. Partial matches that were themselves
            reported as matches are not included.

        Raises
        ------
        ValidationError
            Without ``timed_out=True``, if there is no such query, or if a column has different types in two queries;
            take them query by query then. Nothing is lost.
        """
        with self._stream.exclusive(ended=True):
            if not self._timed_out:
                raise ValidationError("timed_out() needs Engine(…, timed_out=True), which keeps them")
            waiting = self._stream.queries.timed_out
            if query is not None:
                of_query = self._stream.queries[query].timed_out
                waiting = [] if of_query is None else [of_query]
            return take_timed_out(waiting)

    def flush(self, *, complete: bool = True) -> Matches:
        """End the stream: return the matches that waited for its end, and drop all state except late events.

        ``complete=False`` means that the stream broke off: matches that wait for a time after its last event are lost.
        """
        with self._stream.exclusive(ended=self._loop.matches_wait or self._loop.unreturned is not None):
            if self._loop.ended:  # a signal ended the call that found the matches
                self._stream.give()
            else:
                self._end(complete)
        return self._stream.returned()

    def _end(self, complete: bool) -> None:
        batch = self._stream.reorder.finish() if self._stream.reorder is not None else None
        self._loop.ended = True
        try:
            self._stream.take(batch, complete=complete)
        finally:
            if self._loop.matches_wait:  # a signal ended this call; it can be repeated
                self._loop.ended = False
            else:
                self._stream.queries.end(self._loop.position, complete=complete)
                self._loop.close()
                if self._stream.queries.control is not None:
                    self._stream.queries.control.end()
        self._stream.deliver_after_call()

    def listen(self, listener: Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], None]) -> None:
        """Call a function with the latencies of all events, one stretch of the stream at a time.

        Parameters
        ----------
        listener
            Called with the processing latencies and the event latencies, float64[n], ns.

        Raises
        ------
        ValidationError
            If the engine does not measure latencies.
        """
        if self._stream.queries.control is None:
            raise ValidationError("listen() is for latencies: Engine(…, latency_bound='…') measures them")
        self._stream.queries.control.listeners.append(listener)

    def now(self) -> int:
        """Return the time on the clock that measures latencies, ns.

        Raises
        ------
        ValidationError
            If the engine does not measure latencies.
        """
        if self._stream.queries.control is None:
            raise ValidationError("now() is for latencies: Engine(…, latency_bound='…') measures them")
        return self._stream.queries.control.clock.now()

    # ----------------------------------------------------------------- views

    def explain(self, format: str = "text") -> str:
        """Return the plans: states, edges, keys, predicates, registers. ``format``: text, json, mermaid, dot or svg."""
        queries = self._stream.queries
        return explain([item.plan for item in queries], format=format, threads=queries.threads)

    def metrics(self) -> dict[str, Any]:
        """Return counters and gauges since the engine was created.

        Returns
        -------
        dict
            ``events``, ``relevant_events`` (that some variable may bind), ``matches``, ``matches_by_query``,
            ``rows_visited``, ``rows_created``, ``live_partial_matches`` (exact), ``peak_partial_matches`` (sum of the
            peaks of all queries, or of their parts), ``dropped_partial_matches`` (for lack of memory), ``stored_rows``
            (including dead ones), ``negated_events`` (kept for ``NEG``), ``waiting_matches``, ``keys``, ``strings``,
            ``arithmetic_nulls`` (overflows, integer divisions by zero), ``function_errors`` (exceptions in users'
            functions), ``watermark`` (ns; None at first), ``held_events``, ``late_events``, ``late_waiting``,
            ``foreign_events`` (of key groups that the engine does not have), ``memory_bytes``, ``memory_limit``,
            ``memory_by_query``, ``bytes_per_key``, ``bytes_per_row``, ``bytes_per_event``, ``threads``, ``kernels``
            (number of programs in ``total``, and of those ``generated``, ``pending`` and ``failed``; the ``reason``),
            ``queries`` (by name: ``weight``, ``store``, ``since``, the position of its first event, ``parts``, into
            which its keys are divided, and its share of the counters) and ``shedding`` (latencies, and what was dropped
            when and why, see docs/shedding.md; None without a latency bound or shedder). Removing a query removes its
            counts. Every event that arrived is in one of ``events``, ``held_events`` and ``late_events``. See
            docs/api.md.
        """
        stream, queries = self._stream, self._stream.queries
        progress = {"events": self._loop.position, "watermark": stream.watermark(), "memory_limit": stream.memory.bytes}
        control = queries.control
        return progress | collect(queries, stream.strings, stream.reorder) | {
            "kernels": queries.kernels.metrics(), "shedding": None if control is None else control.metrics(),
        }  # fmt: skip
