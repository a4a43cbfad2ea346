"""Tasks on the executors: an engine over the events of a slice, Arrow in, Arrow out.

Tasks are pure functions, so Spark can run slices anywhere, in any order, and repeat them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.memory.vectors import repeated
from fastcep.engine import Engine
from fastcep.engine.longest_windows import check_longest
from fastcep.engine.partitioned_matcher import created_at
from fastcep.engine.results.query_matches import QueryMatches, read
from fastcep.errors import ValidationError
from fastcep.events.convert import from_numpy
from fastcep.query import ast
from fastcep.spark.functions import NO_FUNCTIONS, ShippedFunctions
from fastcep.spark.output_types import exact_type, spark_type, to_spark
from fastcep.spark.slices import Slice

__all__ = ["ORDER", "Detection", "Numbering", "match_schema", "without_column"]

#: The column with the order of a match among all matches, and its fields.
ORDER = "match_order"
_ORDER = pa.struct([("detected", pa.int64()), ("waited", pa.bool_()), ("last", pa.int64()), ("nth", pa.int64())])
_NUMBER, _SLICE, _TIME = "number", "slice", "time"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Numbering:
    """Task that adds sequence numbers, the positions of events in the stream, to the sorted events of a slice.

    Attributes
    ----------
    slices
        All slices, by number.
    """

    slices: Sequence[Slice]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Number the events of one slice, and drop the slice number."""
        position: int | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if position is None:
                position = self.slices[batch.column(_SLICE)[0].as_py()].position
            yield _numbered(batch, position)
            position += batch.num_rows


def _numbered(batch: pa.RecordBatch, position: int) -> pa.RecordBatch:
    numbers = from_numpy(np.arange(position, position + batch.num_rows))
    return without_column(batch, _SLICE).append_column(_NUMBER, numbers)


def without_column(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return a batch without one of its columns."""
    return batch.select([name for name in batch.schema.names if name != column])


@dataclass(frozen=True)
class Detection:
    """Task that finds the matches of a query in one slice.

    Attributes
    ----------
    query
        Query over the columns of `columns.Events`, with sequence numbers.
    slices
        All slices, by number.
    schema
        Schema of the output, see `match_schema`.
    numbered
        Whether events have sequence numbers; otherwise their positions in the stream are used.
    options
        Options of the engine.
    functions
        User functions that the query calls.
    longest
        Query that finds windows longer than slices allow, see `longest_windows`; None: windows cannot be longer.
    """

    query: ast.Query
    slices: Sequence[Slice]
    schema: pa.Schema
    numbered: bool
    options: dict[str, Any] = field(default_factory=dict)
    functions: ShippedFunctions = NO_FUNCTIONS
    longest: ast.Query | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the batches of one slice, in order."""
        run: _Run | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if run is None:
                self.functions.register()
                number = batch.column(_SLICE)[0].as_py()
                run = _Run(self, self.slices[number], f"DataFrame, slice {number}")
            yield from run.process(batch)
        if run is not None:
            yield from run.end()


class _Run:
    """Engine with its position in a slice."""

    def __init__(self, detection: Detection, stream_slice: Slice, origin: str) -> None:
        queries = [detection.query] if detection.longest is None else [detection.query, detection.longest]
        self._engine, self._last = Engine(queries, **detection.options), 0
        self._slice, self._numbered, self._origin = stream_slice, detection.numbered, origin
        self._position, self._row, self._nth = stream_slice.position, 0, 0
        self._schema = detection.schema
        self._windows = isinstance(detection.query.window, ast.ExplicitWindow)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows, position, stream_slice = batch.num_rows, self._position, self._slice
        batch = without_column(batch, _SLICE) if self._numbered else _numbered(batch, position)
        self._position += rows
        if stream_slice.skip_to is not None:
            batch = batch.slice(max(0, min(rows, stream_slice.skip_to - position)))
        if stream_slice.skip_before is not None and batch.num_rows:
            times = batch.column(_TIME).to_numpy()
            batch = batch.slice(int(np.searchsorted(times, stream_slice.skip_before)))
        if batch.num_rows:
            self._last = batch.column(_TIME)[-1].as_py()
            yield from self._owned_matches(self._engine.process(batch, origin=self._origin, first_row=self._row))
        self._row += rows

    def end(self) -> Iterator[pa.RecordBatch]:
        """Yield the pending matches that the end of the slice decides; the last slice ends with the stream."""
        matches = self._engine.flush() if self._slice.stop is None else self._engine.advance(self._slice.stop)
        yield from self._owned_matches(matches)

    def _owned_matches(self, matches: Any) -> Iterator[pa.RecordBatch]:
        part, *long_windows = (read(query_matches) for query_matches in matches._parts)
        for window_matches in long_windows:
            check_longest(window_matches, self._last if self._slice.stop is None else self._slice.stop, self._origin)
        if not part.n:
            return
        times = repeated(part.times, part.counts)
        owned = np.ones(part.n, np.bool_)
        if self._slice.start is not None:
            owned &= times >= self._slice.start
        if self._slice.stop is not None:
            owned &= times < self._slice.stop
        if not owned.any():
            return
        table = self._table(part, times)
        if not owned.all():
            table = table.filter(from_numpy(owned))
        yield from table.combine_chunks().to_batches()

    def _table(self, part: QueryMatches, times: Ints) -> pa.Table:
        waited = repeated(part.detected, part.counts) < 0
        last = created_at(part.bindings.values, part.bindings.lengths, part.n)
        # Explicit windows that are decided at the same time are ordered by opening, not by the last event of matches.
        unknown = waited if self._windows else None
        nth = np.arange(self._nth, self._nth + part.n)
        self._nth += part.n
        fields = [from_numpy(times), from_numpy(waited), from_numpy(last, nulls=unknown), from_numpy(nth)]
        order = pa.StructArray.from_arrays(fields, fields=list(_ORDER))
        columns = part.columns()
        name = pa.array([part.query.name] * part.n, pa.string())
        columns = {"query": name, **columns, ORDER: order}
        return pa.table({field.name: to_spark(columns[field.name], field.type) for field in self._schema})


def match_schema(engine: Engine, *, exact: bool = False) -> pa.Schema:
    """Return the schema of the matches of an engine's query: that of `Matches.to_arrow` in Spark's types, and `ORDER`.

    ``exact``: times have the type of `exact_type`.

    Raises
    ------
    ValidationError
        If the query has a column named `ORDER`.
    """
    (empty,) = engine._stream.queries.nothings
    schema = empty.table().schema
    if ORDER in schema.names:
        raise ValidationError(
            f"query {empty.query.name!r} has a column {ORDER!r}, a name reserved for the order of matches; rename it"
        )
    of_spark = exact_type if exact else spark_type
    return pa.schema([pa.field(column.name, of_spark(column.type)) for column in schema] + [pa.field(ORDER, _ORDER)])
