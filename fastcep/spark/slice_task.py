"""Tasks on the executors: an engine over the events of a slice, Arrow in, Arrow out.

Tasks are pure functions, so Spark can run slices anywhere, in any order, and repeat them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.memory.vectors import repeated
from fastcep.engine import Engine, Matches
from fastcep.engine.longest_windows import check_longest
from fastcep.engine.partitioned_matcher import created_at
from fastcep.engine.results.match_identity import identities_of
from fastcep.engine.results.query_matches import QueryMatches, read
from fastcep.errors import FastcepError, ValidationError
from fastcep.events.convert import from_numpy
from fastcep.query import ast
from fastcep.spark.columns import HEADER, SLICE
from fastcep.spark.functions import NO_FUNCTIONS, ShippedFunctions
from fastcep.spark.output_types import exact_type, spark_type, to_spark
from fastcep.spark.slicing.facts import slice_of
from fastcep.spark.slicing.slices import Slice

__all__ = [
    "ERROR", "MATCH_ID", "ORDER", "Detection", "Numbering", "Run", "by_slice", "errors_as_rows", "match_schema",
    "with_error", "without_column",
]  # fmt: skip

#: The column with the order of a match among all matches, and its fields.
ORDER = "match_order"
#: The column with the identity of a match.
MATCH_ID = "match_id"
#: The column with the message of an error, in a row without a match; null in all other rows.
ERROR = "fastcep.error"
#: ``detected`` is a time. At equal times, matches that an event completes come first, event by event (``last``), then
#: those that waited, by the number of their query and the last event that they bind. ``nth`` counts those for which all
#: of this is equal; they are in one slice, so it does not depend on the slices.
_ORDER = pa.struct([
    ("detected", pa.int64()), ("waited", pa.bool_()), ("query", pa.int64()), ("last", pa.int64()), ("nth", pa.int64()),
])  # fmt: skip
_NUMBER, _TIME = "number", "time"
_UNKNOWN = np.iinfo(np.int64).min


Ints = npt.NDArray[np.int64]


def by_slice(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Slice | None, pa.RecordBatch]]:
    """Split the batches of a partition at headers.

    Yields
    ------
    The number of the slice; its bounds if this is its first batch, otherwise None; and events without the columns
    ``slice`` and ``header``. A header without events after it in the batch comes with a batch without rows.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers, headers = batch.column(SLICE), batch.column(HEADER)
        events = batch.select([name for name in batch.schema.names if name not in (SLICE, HEADER)])
        places = np.flatnonzero(headers.is_valid().to_numpy(zero_copy_only=False)).tolist()
        if not places or places[0]:
            until = places[0] if places else batch.num_rows
            yield numbers[0].as_py(), None, events.slice(0, until)
        for place, until in zip(places, [*places[1:], batch.num_rows], strict=False):
            yield numbers[place].as_py(), slice_of(headers[place].as_py()), events.slice(place + 1, until - place - 1)


@dataclass(frozen=True)
class Numbering:
    """Task that adds sequence numbers, the positions of events in the stream, to the sorted events of slices."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Number the events of the slices of a partition, and drop slice numbers and headers."""
        position = 0
        for _, bounds, batch in by_slice(batches):
            if bounds is not None:
                position = bounds.position
            if batch.num_rows:
                yield _numbered(batch, position)
                position += batch.num_rows


def _numbered(batch: pa.RecordBatch, position: int) -> pa.RecordBatch:
    numbers = from_numpy(np.arange(position, position + batch.num_rows))
    return batch.append_column(_NUMBER, numbers)


def without_column(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return a batch without one of its columns."""
    return batch.select([name for name in batch.schema.names if name != column])


@dataclass(frozen=True)
class Detection:
    """Task that finds the matches of queries in one slice.

    Attributes
    ----------
    queries
        Queries over the columns of the batches, with sequence numbers.
    schema
        Schema of the matches, see `match_schema`.
    numbered
        Whether events have sequence numbers; otherwise their positions in the stream are used.
    options
        Options of the engine.
    functions
        User functions that the queries call.
    longest
        Query that finds windows longer than slices allow, see `longest_windows`; None: windows cannot be longer.
    """

    queries: tuple[ast.Query, ...]
    schema: pa.Schema
    numbered: bool
    options: dict[str, Any] = field(default_factory=dict)
    functions: ShippedFunctions = NO_FUNCTIONS
    longest: ast.Query | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the batches of the slices of a partition, in order."""
        run: Run | None = None
        bounds: Slice | None = None
        for number, new_bounds, batch in by_slice(batches):
            if new_bounds is not None:
                if run is not None:
                    yield from run.end()
                run, bounds = None, new_bounds
            if batch.num_rows:
                if run is None:
                    assert bounds is not None
                    run = self.start(bounds, number)
                yield from run.process(batch)
        if run is not None:
            yield from run.end()

    def start(self, bounds: Slice, number: int) -> Run:
        """Start an engine for a slice."""
        self.functions.register()
        return Run(self, bounds, f"DataFrame, slice {number}")


class Run:
    """Engine with its position in a slice."""

    def __init__(self, detection: Detection, stream_slice: Slice, origin: str) -> None:
        queries = [*detection.queries] if detection.longest is None else [*detection.queries, detection.longest]
        self._engine, self._last = Engine(queries, **detection.options), 0
        self._queries = len(detection.queries)
        self._slice, self._numbered, self._origin = stream_slice, detection.numbered, origin
        self._position, self._row = stream_slice.position, 0
        self._last_order, self._equal = np.full(4, _UNKNOWN), 0  # of the last match, and how many are equal so far
        self._schema, self._longest = detection.schema, detection.longest is not None
        self._identified = MATCH_ID in detection.schema.names
        self._sequence: Any = detection.queries[0].schema.sequence
        #: Sequence numbers of the events of the current call, and number of events of earlier calls.
        self._numbers, self._processed = np.empty(0, np.int64), 0

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Process a batch, and yield the matches that the slice owns."""
        rows, position, stream_slice = batch.num_rows, self._position, self._slice
        batch = batch if self._numbered else _numbered(batch, position)
        self._position += rows
        if stream_slice.skip_to is not None:
            batch = batch.slice(max(0, min(rows, stream_slice.skip_to - position)))
        if stream_slice.skip_before is not None and batch.num_rows:
            times = batch.column(_TIME).to_numpy()
            batch = batch.slice(int(np.searchsorted(times, stream_slice.skip_before)))
        if batch.num_rows:
            if self._longest:
                self._last = batch.column(_TIME)[-1].as_py()
            matches = self._engine.process(batch, origin=self._origin, first_row=self._row)
            self._numbers = batch.column(self._sequence).to_numpy()
            yield from self._owned_matches(matches)
            self._processed += batch.num_rows
        self._row += rows

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the pending matches that the end of the slice decides; the last slice ends with the stream."""
        matches = self._engine.flush() if self._slice.stop is None else self._engine.advance(self._slice.stop)
        yield from self._owned_matches(matches)

    def _owned_matches(self, matches: Any) -> Iterator[pa.RecordBatch]:
        parts = [read(query_matches) for query_matches in matches._parts]
        for window_matches in parts[self._queries :]:
            check_longest(window_matches, self._last if self._slice.stop is None else self._slice.stop, self._origin)
        numbers = [number for number, part in enumerate(parts[: self._queries]) if part.n]
        if not numbers:
            return
        orders = [self._order(parts[number], number) for number in numbers]
        places = _places([parts[number] for number in numbers])
        nth, first = self._counted(np.concatenate(orders, axis=1), places), 0
        for number, order in zip(numbers, orders, strict=True):
            part = parts[number]
            yield from self._owned_part(part, order, nth[first : first + part.n])
            first += part.n

    def _order(self, part: QueryMatches, query: int) -> Ints:
        """Return the fields of `_ORDER` but the last one, int64[4, matches]; ``last`` is `_UNKNOWN` for null."""
        detected = repeated(part.detected, part.counts)
        waited = detected < 0
        last = created_at(part.bindings.values, part.bindings.lengths, part.n)
        last[~waited] = self._numbers[detected[~waited] - self._processed]  # it may bind only earlier events
        if isinstance(part.query.window, ast.ExplicitWindow):
            last[waited] = _UNKNOWN  # windows that are decided at one time are ordered by opening, not by a last event
        return np.stack([repeated(part.times, part.counts), waited, np.where(waited, query, 0), last])

    def _counted(self, orders: Ints, places: Ints) -> Ints:
        """Return for each match how many before it, also of earlier calls, are equal in all fields: int64[matches].

        ``orders`` are the fields, int64[4, matches], and ``places`` the order of the matches.
        """
        rows = np.argsort(places)
        fields, numbers = orders[:, rows], np.arange(len(rows))
        changes = (np.diff(fields, axis=1) != 0).any(axis=0)
        first = np.maximum.accumulate(np.where(np.concatenate([[True], changes]), numbers, 0))
        before = self._equal if (fields[:, 0] == self._last_order).all() else 0
        nth = numbers - first + np.where(first == 0, before, 0)
        self._last_order, self._equal = fields[:, -1].copy(), int(nth[-1]) + 1
        counted = np.empty(len(rows), np.int64)
        counted[rows] = nth
        return counted

    def _owned_part(self, part: QueryMatches, order: Ints, nth: Ints) -> Iterator[pa.RecordBatch]:
        times = order[0]
        owned = np.ones(part.n, np.bool_)
        if self._slice.start is not None:
            owned &= times >= self._slice.start
        if self._slice.stop is not None:
            owned &= times < self._slice.stop
        if not owned.any():
            return
        table = self._table(part, order, nth)
        if not owned.all():
            table = table.filter(from_numpy(owned))
        yield from table.combine_chunks().to_batches()

    def _table(self, part: QueryMatches, order: Ints, nth: Ints) -> pa.Table:
        times, waited, queries, last = order
        fields = [from_numpy(times), from_numpy(waited.astype(np.bool_)), from_numpy(queries),
                  from_numpy(last, nulls=last == _UNKNOWN), from_numpy(nth)]  # fmt: skip
        ordered = pa.StructArray.from_arrays(fields, fields=list(_ORDER))
        columns = part.columns()
        if self._identified:
            identities = identities_of(pa.table(columns), part.query, _hash(part.query.name))
            columns[MATCH_ID] = from_numpy(identities.view(np.int64))
        name = pa.array([part.query.name] * part.n, pa.string())
        columns = {"query": name, **columns, ORDER: ordered}
        return pa.table(
            {
                field.name: to_spark(columns[field.name], field.type)
                if field.name in columns
                else pa.nulls(part.n, field.type)  # a column of another query
                for field in self._schema
            }
        )


def _places(parts: Sequence[QueryMatches]) -> Ints:
    """Return the places of the matches of all queries, one query after the other, in the order of one engine."""
    if len(parts) < 2:
        return np.arange(sum(part.n for part in parts))
    rows = Matches(parts)._ordered().rows
    places = np.empty(len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    return places


def with_error(schema: pa.Schema) -> pa.Schema:
    """Return the schema of matches with the column `ERROR`."""
    return schema.append(pa.field(ERROR, pa.string()))


def errors_as_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Add the column `ERROR` to matches; an error of fastcep becomes a last row, which Spark's plan raises.

    The traceback of a worker, which Spark would add to an exception, is of no use to those whose data is invalid.
    """
    try:
        for batch in batches:
            yield batch.append_column(ERROR, pa.nulls(batch.num_rows, pa.string()))
    except FastcepError as error:
        columns: dict[str, Any] = {field.name: pa.nulls(1, field.type) for field in schema}
        columns[ERROR] = pa.array([str(error)])
        yield pa.RecordBatch.from_pydict(columns, schema=with_error(schema))


def _hash(name: str) -> int:
    """Return a number of 64 bits for the name of a query, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def match_schema(engine: Engine, *, match_id: bool = False, exact: bool = False) -> pa.Schema:
    """Return the schema of the matches of an engine: that of `Matches.to_arrow` in Spark's types, and `ORDER`.

    With ``match_id``, the column `MATCH_ID` comes before `ORDER`. With ``exact``, times have the type of `exact_type`.

    Raises
    ------
    ValidationError
        If a query has a column with one of these names, or two queries have columns of one name and different types.
    """
    matches = Matches(engine._stream.queries.nothings)
    schema = matches.to_arrow().schema
    added = [pa.field(MATCH_ID, pa.int64())] * match_id + [pa.field(ORDER, _ORDER)]
    for column, purpose in ((ORDER, "order"), (MATCH_ID, "identity")):
        if column in schema.names and column in [one.name for one in added]:
            raise ValidationError(
                f"query {', '.join(map(repr, matches.counts()))} has a column {column!r}, a name reserved for the "
                f"{purpose} of matches; rename it"
            )
    of_spark = exact_type if exact else spark_type
    return pa.schema([pa.field(column.name, of_spark(column.type)) for column in schema] + added)
