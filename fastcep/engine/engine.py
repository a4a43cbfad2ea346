"""The engine: batches of events in, matches out.

``Engine`` validates a batch whole before any of it is taken, numbers its events, appends what later reads need to the
event ring, and lets each query's compiled matcher run over it without the GIL.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Protocol

import numpy as np

from fastcep._core.match import Matcher
from fastcep.engine.matches import Matches, QueryMatches
from fastcep.engine.returns import Bindings, Returns
from fastcep.errors import DataError, ValidationError
from fastcep.events import EventBatch, EventRing, Schema, StringTable
from fastcep.events.units import format_time as _show
from fastcep.plan import explain, make_plan
from fastcep.query import ast

#: Strings are counted again, and unused ones forgotten, when there are more than this many and twice the last count.
_STRINGS = 1 << 16


class Buildable(Protocol):
    """What the query builder gives: something that builds a query."""

    def build(self) -> ast.Query:
        """Return the query."""
        ...


class Engine:
    """Find the matches of one or more queries in a stream.

    Parameters
    ----------
    queries
        A query (from :func:`fastcep.parse` or the builder), or several over one schema with different names.

    Raises
    ------
    ValidationError
        If queries disagree on the schema or share a name.

    Notes
    -----
    Memory: partial matches live as long as their first event is inside the window; ``metrics()["memory_bytes"]`` states
    what is held. ``WITHIN UNBOUNDED`` keeps them for good, so the engine warns.
    """

    def __init__(self, queries: ast.Query | Buildable | Sequence[ast.Query | Buildable]) -> None:
        items = list(queries) if isinstance(queries, Sequence) and not isinstance(queries, str) else [queries]
        built = [_built(item) for item in items]
        if not built:
            raise ValidationError("an engine needs at least one query")
        self._schema: Schema = built[0].schema
        names = [query.name for query in built]
        for query in built:
            if query.schema != self._schema:
                raise ValidationError(f"query {query.name!r} has another schema than {names[0]!r}; use one engine each")
            if names.count(query.name) > 1:
                raise ValidationError(f"two queries are named {query.name!r}; give each its own name")
            if isinstance(query.window, ast.Unbounded):
                warnings.warn(
                    f"query {query.name!r} is WITHIN UNBOUNDED: its state grows with the stream",
                    UserWarning,
                    stacklevel=2,
                )
        self._strings = StringTable()
        self._plans = tuple(make_plan(query) for query in built)
        self._matchers = tuple(Matcher(plan, self._strings.intern) for plan in self._plans)
        kept = sorted({column for plan in self._plans for column in plan.ring_columns if column >= 0})
        self._ring: EventRing | None = None
        if self._schema.sequence is not None or any(plan.ring_columns for plan in self._plans):
            self._ring = EventRing(kept, self._schema)
        self._ring_strings = tuple(column for column in kept if self._schema.columns[column].dtype == "string")
        self._returns = tuple(self._returns_of(query) for query in built)
        self._position = 0
        self._time: int | None = None
        self._sequence: int | None = None
        self._ended = False
        self._busy = Lock()
        self._strings_at = _STRINGS
        self._literals = len(self._strings)

    def _returns_of(self, query: ast.Query) -> Returns | None:
        if not query.returns:
            return None
        ring = self._ring = self._ring if self._ring is not None else EventRing((), self._schema)
        codes = np.array([self._strings.intern(name) for name in self._schema.type_names], np.int64)
        return Returns(query, ring, self._strings, codes)

    # ----------------------------------------------------------------- input

    def process(self, data: Any, *, origin: str = "batch", first_row: int = 0) -> Matches:
        """Take a batch of events and return the matches that they complete.

        Parameters
        ----------
        data
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow, polars, pandas, duckdb), or a
            mapping of column names to arrays. Times must not run backwards.
        origin, first_row
            Name of the source and the number of the batch's first row in it, for error messages.

        Raises
        ------
        SchemaError, DataError
            If the data does not fit the schema; the batch is refused whole, what was accepted before stays.
        ValidationError
            After :meth:`flush`.
        """
        with self._alone():
            batch = EventBatch.from_data(self._schema, data, self._strings, origin, first_row)
            self._check_order(batch, origin, first_row)
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
        schema = self._schema
        if type not in schema.type_names:
            raise DataError(f"unknown event type {type!r}; declared are {', '.join(schema.type_names)}")
        attributes = schema.attributes(type)
        columns: dict[Any, list[Any]] = {column.source: [None] for column in schema.columns}
        given = {"time": False, "seq": schema.sequence is None}
        for name, value in values.items():
            if name in attributes:
                columns[schema.columns[schema.column_of(type, name)].source] = [value]
            elif name in ("time", schema.time):
                columns[schema.time], given["time"] = [value], True
            elif schema.sequence is not None and name in ("seq", schema.sequence):
                columns[schema.sequence], given["seq"] = [value], True
            else:
                raise DataError(
                    f"event of type {type!r} has no attribute {name!r}; expected {', '.join([*attributes, 'time'])}"
                )
        for name, there in given.items():
            if not there:
                raise DataError(f"the event of type {type!r} has no {name}; give {name}=…")
        if schema.type is not None:
            columns[schema.type] = [type if schema.codes is None else schema.codes[type]]
        if not schema.header:
            columns = {at: columns.get(at, [None]) for at in range(1 + max(map(int, columns)))}
        return self.process(columns, origin="event")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the engine for one call: the GIL is released while it runs, so that another thread could come in."""
        if not self._busy.acquire(blocking=False):
            raise ValidationError("the engine is busy in another thread; use it from one thread at a time")
        try:
            self._check_open()
            yield
        finally:
            self._busy.release()

    def _check_open(self) -> None:
        if self._ended:
            raise ValidationError("the stream was ended by flush(); make a new Engine for another stream")

    def _check_order(self, batch: EventBatch, origin: str, first_row: int) -> None:
        """Refuse a batch that runs backwards in time or sequence, before anything of it is taken."""
        if not len(batch):
            return
        time, sequence = batch.time, batch.sequence
        row = batch.first_disorder()
        if self._time is not None and time[0] < self._time:
            row, before, what = 0, self._time, "which the engine has already reached"
        elif row is not None and time[row] < time[row - 1]:
            before, what = int(time[row - 1]), "the time of the row before"
        elif row is not None or (sequence is not None and self._sequence is not None and sequence[0] <= self._sequence):
            assert sequence is not None
            last = self._sequence if row is None else sequence[row - 1]
            raise DataError(
                f"{origin}, row {first_row + (row or 0)}, column {self._schema.sequence!r}: found "
                f"{sequence[row or 0]}, expected a sequence number greater than {last}, the one before; number the "
                "events in order"
            )
        else:
            return
        raise DataError(
            f"{origin}, row {first_row + row}, column {self._schema.time!r}: time {_show(int(time[row]))} is before "
            f"{_show(before)}, {what}; sort the input by time"
        )

    # ------------------------------------------------------------------- run

    def _take(self, batch: EventBatch) -> Matches:
        ring, position = self._ring, self._position
        if len(batch):
            if ring is not None:
                ring.reclaim(self._oldest())
                ring.append(batch)
            for matcher in self._matchers:
                matcher.process(batch, position, ring)
            self._position += len(batch)
            self._time = int(batch.time[-1])
            if batch.sequence is not None:
                self._sequence = int(batch.sequence[-1])
        found = Matches([self._collect(number, batch, position) for number in range(len(self._matchers))])
        if len(self._strings) > self._strings_at:
            self._forget_strings()
        return found

    def _oldest(self) -> int:
        """Position before which no live partial match needs an event."""
        needed = [matcher.first_needed for matcher in self._matchers]
        return min((position for position in needed if position is not None), default=self._position)

    def _collect(self, number: int, batch: EventBatch, position: int) -> QueryMatches:
        values, lengths, detected, counts = self._matchers[number].take_output()
        bindings = Bindings(int(counts.sum()), values, lengths)
        returns = self._returns[number]
        returned = returns.columns(bindings) if returns is not None else {}
        if self._schema.sequence is not None and self._ring is not None:
            bindings = Bindings(bindings.n, [self._numbered(positions) for positions in values], lengths)
        times = batch.time[detected - position]
        return QueryMatches(self._plans[number].query, bindings, detected, counts, times, returned)

    def _numbered(self, positions: Any) -> Any:
        """Sequence numbers of events by position; -1 stays."""
        assert self._ring is not None
        out = np.full(len(positions), -1, np.int64)
        here = positions >= 0
        out[here] = self._ring.take("seq", positions[here])[0]
        return out

    def _forget_strings(self) -> None:
        """Free the codes that no partial match, no event in the ring and no literal holds (rows first swept)."""
        if self._time is not None:
            for matcher in self._matchers:
                matcher.advance(self._time, self._position)
        marks = np.zeros(self._strings.limit, np.uint8)
        marks[: self._literals] = 1
        for matcher in self._matchers:
            matcher.mark_codes(marks)
        if self._ring is not None:
            self._ring.reclaim(self._oldest())
            for column in self._ring_strings:
                codes, nulls = self._ring.take(column, np.arange(self._ring.head, self._ring.tail))
                marks[codes if nulls is None else codes[nulls == 0]] = 1
        self._strings.reclaim(np.flatnonzero(marks))
        self._strings_at = max(_STRINGS, 2 * len(self._strings))

    def advance(self, time: int | datetime) -> Matches:
        """Move the stream's clock without an event: later events must not be older.

        Parameters
        ----------
        time
            int, nanoseconds since the epoch, or a datetime (naive = UTC).

        Returns
        -------
        Matches
            Matches that were waiting for this time (none with today's operators).

        Raises
        ------
        ValidationError
            If the time is before the one already reached, or after :meth:`flush`.
        """
        moment = _nanoseconds(time)
        with self._alone():
            if self._time is not None and moment < self._time:
                raise ValidationError(f"cannot move the clock back from {_show(self._time)} to {_show(moment)}")
            self._time = moment
            for matcher in self._matchers:
                matcher.advance(moment, self._position)
            if self._ring is not None:
                self._ring.reclaim(self._oldest())
            return self._nothing()

    def flush(self) -> Matches:
        """End the stream: return what was waiting for its end and drop all state."""
        with self._alone():
            self._ended = True
            for matcher in self._matchers:
                matcher.clear()
            if self._ring is not None:
                self._ring.reclaim(self._position)
            return self._nothing()

    def _nothing(self) -> Matches:
        empty = np.empty(0, np.int64)
        parts = []
        for plan, returns in zip(self._plans, self._returns, strict=True):
            lengths = [empty if member.repeated else None for member in plan.query.pattern.members]
            bindings = Bindings(0, [empty] * len(lengths), lengths)
            parts.append(
                QueryMatches(plan.query, bindings, empty, empty, empty, returns.columns(bindings) if returns else {})
            )
        return Matches(parts)

    # ----------------------------------------------------------------- views

    def explain(self) -> str:
        """The plans as text: states, edges, keys, predicates, registers."""
        return "\n\n".join(explain(plan) for plan in self._plans)

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges since the engine was made.

        Returns
        -------
        dict
            ``events``, ``relevant_events`` (that some variable may bind), ``matches``, ``matches_by_query``,
            ``rows_visited``, ``rows_created``, ``live_partial_matches`` (exact), ``peak_partial_matches`` (sum
            of the queries' peaks), ``stored_rows`` (dead ones not yet removed included), ``keys``, ``strings``,
            ``arithmetic_nulls`` (overflows, integer divisions by zero), ``memory_bytes``.
        """
        matchers = self._matchers
        ring = 0 if self._ring is None else self._ring.nbytes
        memory = sum(matcher.nbytes for matcher in matchers) + self._strings.nbytes + ring
        return {
            "events": self._position,
            "relevant_events": sum(matcher.relevant for matcher in matchers),
            "matches": sum(matcher.matches for matcher in matchers),
            "matches_by_query": {
                plan.query.name: matcher.matches for plan, matcher in zip(self._plans, matchers, strict=True)
            },
            "rows_visited": sum(matcher.rows_visited for matcher in matchers),
            "rows_created": sum(matcher.rows_created for matcher in matchers),
            "live_partial_matches": sum(matcher.live for matcher in matchers),
            "peak_partial_matches": sum(matcher.peak for matcher in matchers),
            "stored_rows": sum(matcher.rows_stored for matcher in matchers),
            "keys": sum(matcher.keys for matcher in matchers),
            "strings": len(self._strings),
            "arithmetic_nulls": sum(matcher.arithmetic_nulls for matcher in matchers)
            + sum(returns.arithmetic_nulls for returns in self._returns if returns is not None),
            "memory_bytes": memory,
        }


def _built(item: object) -> ast.Query:
    if isinstance(item, ast.Query):
        return item
    build = getattr(item, "build", None)
    query = build() if callable(build) else None
    if not isinstance(query, ast.Query):
        raise ValidationError(f"found {type(item).__name__}, expected a query: fastcep.parse(text, schema) gives one")
    return query


def _nanoseconds(time: object) -> int:
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000
    if isinstance(time, bool) or not isinstance(time, int | np.integer):
        raise ValidationError(f"found {time!r}, expected a time: int nanoseconds since the epoch, or a datetime")
    if not -(2**63) <= time < 2**63:
        raise ValidationError(f"time {time} is outside of int64 nanoseconds")
    return int(time)


__all__ = ["Engine"]
