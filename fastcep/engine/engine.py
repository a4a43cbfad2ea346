"""The engine: batches of events in, matches out. What is behind its calls is in ``stream``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.matcher.event_loop import HasEventLoop, compiled
from fastcep.engine.matches import Matches
from fastcep.engine.memory import MemoryLimit
from fastcep.engine.metrics import collect
from fastcep.engine.order import one_event
from fastcep.engine.queries import Buildable, built_queries, check_query, warn_unbounded
from fastcep.engine.reorder import make_reorderer
from fastcep.engine.state_transfer import StateTransfer, make_like, read_snapshot
from fastcep.engine.stream import Stream
from fastcep.engine.thread_pool import make_pool
from fastcep.engine.timeouts import take_timed_out
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


class Engine(HasEventLoop):
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
        On which latencies are measured: ``wall``, real time, or ``virtual``, the time that counted operations take by
        `cost_table`, the same on every machine. A function that gives nanoseconds, which only grow, is used as the
        wall clock.
    memory_limit
        Bytes that the engine may hold, or text such as ``"512MiB"``; None for no limit. The input and the matches
        that were returned are not counted.
    on_memory_limit
        ``"raise"``: a query that needs more than its share loses its partial matches, and the call raises
        `MemoryLimitError` when its batch is done; the engine can go on. ``"shed"``: `shedder` drops what is worth
        least when 90 % of the limit are in use; a query that needs more nevertheless loses its partial matches as
        before, without an error.
    timed_out
        Keep the partial matches whose window ends for :meth:`timed_out`. Explicit windows are isolated then.
    timed_out_limit
        How many of them may wait for :meth:`timed_out` before no more events are taken.
    store
        How partial matches are held: ``rows``, one each; ``factorised``, as the events that they are made of, where the
        query allows it (:meth:`explain` tells why not); ``auto``: both are tried on the first events, where the query
        has the choice, and the cheaper one goes on. The matches are the same. Engines that exchange key groups need the
        same store.
    index
        By which equalities of WHERE rows are found: ``full``, all, computed ones too (``a.v + b.v = c.v``); ``key``,
        those between attributes as they are (``a.id = b.id``); ``off``, none. The others are tested row by row. The
        matches are the same. But for ``full`` partial matches are rows; ``off`` leaves no key to divide the state by.
        Contiguity, and events of negated variables, are found by keys in any case. A partial match whose key is null
        joins nothing, so it is stored (and times out) only where that is no key.
    threads
        How many threads match, the calling one included: each has some keys of every keyed query, and of the other
        queries some. Matches and their order are those of one thread.
    latency_bound
        The latency that an event may have, such as ``"500us"`` (a number is of nanoseconds). It is measured, and
        `shedder` holds it.
    shedder
        Chooses what is dropped when the engine is overloaded (:mod:`fastcep.shedding`); None: nothing is.
    detector
        Says when it is: one, or several of which the one that demands most counts; None: the shedder's usual ones, of
        the processing latency and of the queue (if `arrivals` are told), and of memory with ``on_memory_limit="shed"``.
    cost_table
        ``measured``, ``paper``, a `CostTable` or a file of ``fastcep calibrate``.

    Raises
    ------
    ValidationError
        If queries disagree on the schema or share a name, call a function that is not registered or that Numba
        cannot compile, or have a column of ``attributes`` with the name of another, or if an option is wrong: so are
        ``threads`` for one query that is not keyed.

    Notes
    -----
    Memory: partial matches live as long as their first event is inside the window; ``metrics()["memory_bytes"]`` states
    what is held. ``WITHIN UNBOUNDED`` keeps them for good, so the engine warns; also of explicit windows
    that each wait for a closing event of their own.
    """

    _stream: Stream

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
        shedder: Shedder | None = None,
        detector: Detector | Sequence[Detector] | None = None,
        cost_table: CostTable | str | Path = "measured",
    ) -> None:
        built = built_queries(queries, attributes)
        for query in built:
            warn_unbounded(query)
        control = make_control(
            clock, cost_table, latency_bound, shedder, detector, threads=threads, sheds_memory=on_memory_limit == "shed"
        )
        reorder = make_reorderer(built[0].schema, allowed_lateness, idle_timeout, late_limit, idle_clock(clock))
        memory = MemoryLimit(memory_limit, on_memory_limit)
        self._stream = Stream(
            built, attributes, reorder, memory, timed_out, timed_out_limit, store, index, make_pool(threads), control
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
        arrivals
            When each row's event arrived, int64[n], ns on the engine's clock, ascending: what it waited since then is
            part of its event latency. None: the events arrive when they are taken.

        Raises
        ------
        SchemaError, DataError
            If the data does not fit the schema; the batch is refused whole, what was accepted before stays.
        ValidationError
            After :meth:`flush`; if more than ``late_limit`` late events would wait (nothing of the batch is taken).
        MemoryLimitError
            If a query needed more memory than its share; its ``matches`` are those of the call.
        QueryError
            If a query failed otherwise, likewise: the others have taken the batch.

        Notes
        -----
        Handlers of signals run between two events, at least about every 25 ms (docs/reliability.md). What one raises,
        as that of Ctrl-C does ``KeyboardInterrupt``, ends the call: a note on the error says how many events of the
        batch were taken, and the matches that they completed come with the next call. With ``allowed_lateness`` the
        batch is taken, and the rest of it matched in the next call.
        """
        if rows is None and source is None and arrivals is None:
            matches: Matches | None = self._loop.process(data, self._stream)
            if matches is not None:
                return matches
        return self._stream.process(data, origin, first_row, rows, source, arrivals)

    @compiled
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
        return self.process(one_event(self._stream.schema, type, values), origin="event")

    # --------------------------------------------------------------- queries

    def add(self, query: ast.Query | Buildable) -> None:
        """Run one more query, behind the others, which keep their state.

        It sees the events from now on, also those that ``allowed_lateness`` holds back now. Conditions are interpreted
        until their kernels are compiled, as in a new engine. With a ``memory_limit`` every query's share gets smaller.

        Raises
        ------
        ValidationError
            If its schema is another, there is a query of its name, it has no room beside the others within
            ``memory_limit``, its functions cannot be used, after :meth:`flush`, or while another thread uses the
            engine. Nothing has changed then.
        """
        with self._stream.exclusive():
            built = check_query(query, self._stream.attributes, self._stream.query_list(), self._stream.schema)
            warn_unbounded(built)
            self._stream.run([*self._stream.queries, self._transfer.prepared(built)])

    def replace(self, name: str, query: ast.Query | Buildable, *, complete: bool = False) -> Matches:
        """Run a query in the place of the one called ``name``, which goes as by :meth:`remove`.

        It begins without state, as by :meth:`add`, and may have another name. The others keep their state.

        Returns
        -------
        Matches
            As of :meth:`remove`.

        Raises
        ------
        ValidationError
            As from :meth:`add` and :meth:`remove`; the old query goes on then.
        """
        with self._stream.exclusive():
            old = self._stream.queries[name]
            others = [other for other in self._stream.query_list() if other.name != name]
            built = check_query(query, self._stream.attributes, others, self._stream.schema)
            warn_unbounded(built)
            new = self._transfer.prepared(built)
            return self._stream.stop(old, [new if item is old else item for item in self._stream.queries], complete)

    def remove(self, name: str, *, complete: bool = False) -> Matches:
        """Stop a query and free what it holds; the others keep their state.

        The last one may go too: the engine then takes events, and keeps time, until queries are added.

        Parameters
        ----------
        name
            The query's.
        complete
            Decide the matches that wait for a time, as if the stream ended for this query; else they are lost.

        Returns
        -------
        Matches
            Of the query, none unless ``complete``.

        Raises
        ------
        ValidationError
            If there is no such query, after :meth:`flush`, or while another thread uses the engine.
        """
        with self._stream.exclusive():
            old = self._stream.queries[name]
            return self._stream.stop(old, [item for item in self._stream.queries if item is not old], complete)

    # ------------------------------------------------------------------- run

    def compile(self, timeout: str | timedelta = "30s") -> bool:
        """Wait, at most for ``timeout``, until the generated kernels are in use; they come by themselves, but later.

        Returns
        -------
        bool
            Whether all conditions run as generated code; if not, ``metrics()["kernels"]`` says why.
        """
        with self._stream.exclusive():
            return self._stream.queries.kernels.wait(parse_duration(timeout))

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
        with self._stream.exclusive():
            reached = self._stream.watermark()
            if reached is not None and moment < reached:
                raise ValidationError(
                    f"cannot move the clock back from {format_time(reached)} to {format_time(moment)}"
                )
            batch = None
            if self._stream.reorder is not None:
                batch = self._stream.reorder.advance(moment)
            elif self._stream.queries.defers:
                self._loop.time = moment
            try:
                found = self._stream.take(batch)
            finally:
                if not self._loop.matches_wait:  # else a signal ended it before all held events were matched
                    self._loop.time = moment
                    self._stream.queries.sweep(moment, self._loop.position)
            return self._stream.handed(found)

    def poll(self) -> Matches:
        """Return the matches of held events if no input has come for ``idle_timeout``; else nothing.

        The watermark goes to the largest time seen, so that an older event is late from then on.

        Raises
        ------
        ValidationError
            Without ``idle_timeout``, or after :meth:`flush`.
        """
        with self._stream.exclusive():
            if self._stream.reorder is None or not self._stream.reorder.may_idle:
                raise ValidationError('poll() needs a time to wait: Engine(…, idle_timeout="2s", allowed_lateness=…)')
            return self._stream.take(self._stream.reorder.poll())

    def late(self) -> pa.Table:
        """Return the late events since the last call, also after :meth:`flush`.

        Returns
        -------
        pyarrow.Table
            In order of arrival: time, type, sequence number and attributes, named as in the input. An attribute that
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
            The name of the query whose partial matches are returned; those of the others go on waiting. None: all.

        Returns
        -------
        pyarrow.Table
            By time, then query, then as their windows end (those that events close first, event by event), window (of
            ``WITHIN n EVENTS``: first event) and birth order: ``query``, ``window_id``, ``timed_out_at`` (the end of
            the window: of ``WITHIN n EVENTS`` the time of the event that pushed it out), ``bound`` (int64, how many
            variables are bound), ``waits_for`` (list<string>, those that the pattern allows next), then a column per
            variable as in :meth:`Matches.to_arrow`. What was a match itself is not among them.

        Raises
        ------
        ValidationError
            Without ``timed_out=True``, if there is no such query, or if a column has one type in one query and another
            in the next: take them query by query then. Nothing is lost.
        """
        with self._stream.exclusive(ended=True):
            if not self._timed_out:
                raise ValidationError("timed_out() needs Engine(…, timed_out=True), which keeps them")
            waiting = self._stream.queries.timed_out
            if query is not None:
                one = self._stream.queries[query].timed
                waiting = [] if one is None else [one]
            return take_timed_out(waiting)

    def flush(self, *, complete: bool = True) -> Matches:
        """End the stream: return what was waiting for its end and drop all state but late events.

        ``complete=False`` says that the stream broke off: matches that wait for a time after its last event are lost.
        """
        with self._stream.exclusive(ended=self._loop.matches_wait):
            if self._loop.ended:  # a signal ended the call that found these
                return self._stream.give()
            batch = self._stream.reorder.finish() if self._stream.reorder is not None else None
            self._loop.ended = True
            try:
                found = self._stream.take(batch, complete=complete)
            finally:
                if self._loop.matches_wait:  # a signal ended it; it can be called again
                    self._loop.ended = False
                else:
                    self._stream.queries.end(self._loop.position, complete=complete)
                    self._loop.close()
                    if self._stream.queries.control is not None:
                        self._stream.queries.control.end()
            return self._stream.handed(found)

    def listen(self, listener: Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], None]) -> None:
        """Call a function with the latencies of all events, a stretch of the stream after the other.

        Parameters
        ----------
        listener
            Gets the processing latencies and the event latencies, float64[n], ns.

        Raises
        ------
        ValidationError
            If latencies are not measured.
        """
        if self._stream.queries.control is None:
            raise ValidationError("listen() is for latencies: Engine(…, latency_bound='…') measures them")
        self._stream.queries.control.listeners.append(listener)

    def now(self) -> int:
        """The time on the clock on which latencies are measured, ns.

        Raises
        ------
        ValidationError
            If none are measured.
        """
        if self._stream.queries.control is None:
            raise ValidationError("now() is for latencies: Engine(…, latency_bound='…') measures them")
        return self._stream.queries.control.clock.now()

    # ----------------------------------------------------------------- state

    @property
    def groups(self) -> tuple[int, ...]:
        """The key groups whose events the engine takes: all, but for those that `extract` took away."""
        return self._transfer.groups

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: `TypeError`."""
        raise TypeError("an engine cannot be pickled or copied; take snapshot() and make another by Engine.restore()")

    def snapshot(self, groups: Iterable[int] | None = None) -> bytes:
        """Give the engine's state; the engine goes on as if nothing had been.

        Parameters
        ----------
        groups
            Only the state of these key groups, which `merge` can put beside others: partial matches, the events that
            they bind and those kept for ``NEG``, open windows; but no counters, late events and timed-out partial
            matches, which stay here. None: everything.

        Returns
        -------
        bytes
            See docs/reliability.md.

        Raises
        ------
        ValidationError
            If there is no such group here, or the state of a query cannot be cut by key; without queries; after
            :meth:`flush`; while another thread uses the engine.
        """
        return self._transfer.snapshot(groups)

    def extract(self, groups: Iterable[int]) -> bytes:
        """Give the state of key groups, and give them up: events of these groups are ignored from now on.

        They still count as events of the stream, so that another engine that is given the same events, and these groups
        by `merge`, finds what this one would have found.

        Parameters
        ----------
        groups
            As for `snapshot`.

        Raises
        ------
        ValidationError, MemoryLimitError
            As by `snapshot`; there is no room to make the rest anew. Nothing has changed then.
        """
        return self._transfer.extract(groups)

    def merge(self, snapshot: bytes | bytearray | memoryview) -> None:
        """Take over the key groups of a snapshot, with all that is in them.

        Engine and snapshot stand at the same event of the same stream, and none of its groups is here. What the other
        engine has counted, and late events and timed-out partial matches that wait there, stay there: take them.

        Parameters
        ----------
        snapshot
            From `extract` or `snapshot` of an engine with the same queries.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of other queries, of another place in the stream, or has groups
            that are here. Nothing has changed then.
        MemoryLimitError
            A query would need more than its share. Nothing has changed then.
        """
        self._transfer.merge(snapshot)

    @classmethod
    def restore(
        cls,
        snapshot: bytes | bytearray | memoryview,
        queries: ast.Query | Buildable | Sequence[ast.Query | Buildable] | None = None,
        *,
        clock: str | Callable[[], int] | None = None,
        memory_limit: str | int | None = "same",
        threads: int = 1,
        shedder: Shedder | None = None,
        detector: Detector | Sequence[Detector] | None = None,
    ) -> Self:
        """Make an engine that goes on where a snapshot was taken.

        Parameters
        ----------
        snapshot
            From `snapshot` or `extract`. The engine has its groups.
        queries
            Its queries, which are in the snapshot too; if they are given they must be those.
        clock
            As for the engine that it was taken of; None: the same. Other options are in the snapshot.
        memory_limit
            As for an engine; ``"same"`` is what it was.
        threads
            As for an engine. It may be another number than that of the engine that the snapshot was taken of, which
            is not in the snapshot.
        shedder, detector
            As for the engine that it was taken of, with the same options: what they had learned is in the snapshot. An
            engine made from key groups may have others, which begin anew.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another version, of other queries, or of queries that this version plans in
            another way or cannot read; functions that they call must be registered.
        MemoryLimitError
            A query would need more than its share.
        ValidationError
            `threads` is no number of threads.
        """
        make_pool(threads)  # raises if it is no number of threads
        stored = read_snapshot(snapshot)
        limit = {} if memory_limit == "same" else {"memory_limit": memory_limit}
        own = {"threads": threads, "shedder": shedder, "detector": detector, **limit}
        engine = make_like(cls, stored.header, queries, own if clock is None else {**own, "clock": clock})
        engine._transfer.resume(stored)
        return engine

    # ----------------------------------------------------------------- views

    def explain(self, format: str = "text") -> str:
        """The plans: states, edges, keys, predicates, registers; ``format`` is text, json, mermaid, dot or svg."""
        queries = self._stream.queries
        return explain([item.plan for item in queries], format=format, threads=queries.threads)

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges since the engine was made.

        Returns
        -------
        dict
            ``events``, ``relevant_events`` (that some variable may bind), ``matches``, ``matches_by_query``,
            ``rows_visited``, ``rows_created``, ``live_partial_matches`` (exact), ``peak_partial_matches`` (sum of the
            queries' peaks, or of their parts'), ``dropped_partial_matches`` (for want of memory), ``stored_rows`` (dead
            ones included), ``negated_events`` (kept for ``NEG``), ``waiting_matches``, ``keys``, ``strings``,
            ``arithmetic_nulls`` (overflows, integer divisions by zero), ``function_errors`` (exceptions in users'
            functions), ``watermark`` (ns; None at first), ``held_events``, ``late_events``, ``late_waiting``,
            ``foreign_events`` (of key groups that are not here), ``memory_bytes``, ``memory_limit``,
            ``memory_by_query``, ``bytes_per_key``, ``bytes_per_row``, ``bytes_per_event``, ``threads``, ``kernels`` (of
            the ``total`` programs how many are ``generated``, ``pending``, ``failed``; the ``reason``) and ``queries``:
            by name ``weight``, ``store``, ``since`` (the first event), ``parts`` (among which its keys are divided) and
            its share of the counters, and ``shedding`` (latencies, and what was dropped when and why, see
            docs/shedding.md; None without a latency bound or shedder). What a removed query counted is gone. See
            docs/api.md.
            Every event that arrived is in one of ``events``, ``held_events`` and ``late_events``.
        """
        stream, queries = self._stream, self._stream.queries
        own = {"events": self._loop.position, "watermark": stream.watermark(), "memory_limit": stream.memory.bytes}
        control = queries.control
        return own | collect(queries, stream.strings, stream.reorder) | {
            "kernels": queries.kernels.metrics(), "shedding": None if control is None else control.metrics(),
        }  # fmt: skip
