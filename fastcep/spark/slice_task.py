"""What runs where the data is: an engine over the events of a slice, Arrow in, Arrow out.

Pure functions of what they are given, so that it does not matter where, how often, and in which order slices run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep._core.memory.vectors import repeated
from fastcep.engine import Engine
from fastcep.engine.matches import QueryMatches, read
from fastcep.engine.partitioned_matcher import created_at
from fastcep.errors import ValidationError
from fastcep.events import format_duration
from fastcep.events.convert import from_numpy
from fastcep.query import ast
from fastcep.spark.functions import NO_FUNCTIONS, Shipped
from fastcep.spark.slices import Slice

__all__ = ["ORDER", "Detection", "Numbering", "longest_windows", "match_schema", "without"]

#: The column that says which place a match has among all, and its fields.
ORDER = "match_order"
_ORDER = pa.struct([("detected", pa.int64()), ("waited", pa.bool_()), ("last", pa.int64()), ("nth", pa.int64())])
_NUMBER, _SLICE, _TIME = "number", "slice", "time"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Numbering:
    """Gives events the sequence numbers that they have in the whole stream; they come in its order, slice by slice.

    Attributes
    ----------
    slices
        By number.
    """

    slices: Sequence[Slice]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Number the events of one slice, and leave out which one it is."""
        place: int | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if place is None:
                place = self.slices[batch.column(_SLICE)[0].as_py()].place
            yield _numbered(batch, place)
            place += batch.num_rows


def _numbered(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    numbers = from_numpy(np.arange(place, place + batch.num_rows))
    return without(batch, _SLICE).append_column(_NUMBER, numbers)


def without(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """A batch without one of its columns."""
    return batch.select([name for name in batch.schema.names if name != column])


@dataclass(frozen=True)
class Detection:
    """Finds the matches of a query in one slice.

    Attributes
    ----------
    query
        Over the columns of `columns.Events`, with numbers.
    slices
        By number.
    schema
        Of what is put out, see `match_schema`.
    numbered
        Whether events come with numbers; else they have those of their places.
    options
        Of the engine.
    functions
        That the query calls.
    longest
        Finds windows that are longer than slices allow for, see `longest_windows`; None: there can be none.
    """

    query: ast.Query
    slices: Sequence[Slice]
    schema: pa.Schema
    numbered: bool
    options: dict[str, Any] = field(default_factory=dict)
    functions: Shipped = NO_FUNCTIONS
    longest: ast.Query | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one slice, in order."""
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
    """An engine and where it is in its slice."""

    def __init__(self, detection: Detection, piece: Slice, origin: str) -> None:
        queries = [detection.query] if detection.longest is None else [detection.query, detection.longest]
        self._engine, self._last = Engine(queries, **detection.options), 0
        self._piece, self._numbered, self._origin = piece, detection.numbered, origin
        self._place, self._row, self._nth = piece.place, 0, 0
        self._schema = detection.schema
        self._windows = isinstance(detection.query.window, ast.ExplicitWindow)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows, place, piece = batch.num_rows, self._place, self._piece
        batch = without(batch, _SLICE) if self._numbered else _numbered(batch, place)
        self._place += rows
        if piece.skip_to is not None:
            batch = batch.slice(max(0, min(rows, piece.skip_to - place)))
        if piece.skip_before is not None and batch.num_rows:
            times = batch.column(_TIME).to_numpy()
            batch = batch.slice(int(np.searchsorted(times, piece.skip_before)))
        if batch.num_rows:
            self._last = batch.column(_TIME)[-1].as_py()
            yield from self._given(self._engine.process(batch, origin=self._origin, first_row=self._row))
        self._row += rows

    def end(self) -> Iterator[pa.RecordBatch]:
        """What waits until the slice ends; until the stream ends in the last one."""
        found = self._engine.flush() if self._piece.stop is None else self._engine.advance(self._piece.stop)
        yield from self._given(found)

    def _given(self, matches: Any) -> Iterator[pa.RecordBatch]:
        part, *longer = (read(found) for found in matches._parts)
        for found in longer:
            self._refuse(found)
        if not part.n:
            return
        times = repeated(part.times, part.counts)
        own = np.ones(part.n, np.bool_)
        if self._piece.start is not None:
            own &= times >= self._piece.start
        if self._piece.stop is not None:
            own &= times < self._piece.stop
        if not own.any():
            return
        table = self._table(part, times)
        if not own.all():
            table = table.filter(from_numpy(own))
        yield from table.combine_chunks().to_batches()

    def _refuse(self, longer: QueryMatches) -> None:
        """Refuse windows that are too long, as far as the stream shows it."""
        times = repeated(longer.times, longer.counts)
        seen = np.flatnonzero(times <= (self._last if self._piece.stop is None else self._piece.stop))
        if len(seen):
            assert isinstance(longer.query.window, ast.TimeWindow)
            allowed = format_duration(longer.query.window.nanoseconds)
            raise ValidationError(
                f"{self._origin}: the window that event {longer.bindings.values[0][seen[0]]} opens is not closed "
                f"within longest_window={allowed!r}; give a longer one"
            )

    def _table(self, part: QueryMatches, times: Ints) -> pa.Table:
        waited = repeated(part.detected, part.counts) < 0
        last = created_at(part.bindings.values, part.bindings.lengths, part.n)
        # Of explicit windows that decide at one time the first comes first, whichever event its matches end in.
        unknown = waited if self._windows else None
        nth = np.arange(self._nth, self._nth + part.n)
        self._nth += part.n
        fields = [from_numpy(times), from_numpy(waited), from_numpy(last, nulls=unknown), from_numpy(nth)]
        order = pa.StructArray.from_arrays(fields, fields=list(_ORDER))
        columns = part.columns()
        columns["detected_at"] = from_numpy(times // 1_000, pa.timestamp("us", "UTC"))
        name = pa.array([part.query.name] * part.n, pa.string())
        out = {"query": name, **columns, ORDER: order}
        return pa.table({field.name: pc.cast(out[field.name], field.type) for field in self._schema})


def longest_windows(query: ast.Query, nanoseconds: int) -> ast.Query | None:
    """A query for the windows that no event closes in so much time; None if windows do not open and close by events."""
    window = query.window
    if not isinstance(window, ast.ExplicitWindow) or not window.opening.types or not window.closing.types:
        return None
    opening, closing = window.opening, window.closing
    wheres = [where for where in (opening.where, closing.where) if where is not None]
    where = ast.Binary("AND", *wheres) if len(wheres) == 2 else next(iter(wheres), None)
    pattern = ast.Sequence((ast.Member(opening.types, opening.variable or "o"),
                            ast.Negation(closing.types, closing.variable or "c")))  # fmt: skip
    return ast.Query(f"{query.name} longest", pattern, ast.TimeWindow(nanoseconds), where, schema=query.schema)


def match_schema(engine: Engine) -> pa.Schema:
    """The columns of the matches of an engine's query, in types that Spark has: as of `Matches.to_arrow`, and `ORDER`.

    Raises
    ------
    ValidationError
        If two columns have one name.
    """
    (nothing,) = engine._stream.queries.nothings
    found = nothing.table().schema
    if ORDER in found.names:
        raise ValidationError(
            f"query {nothing.query.name!r} has a column {ORDER!r}, which is to say the order of matches; rename its own"
        )
    return pa.schema([pa.field(own.name, _plain(own.type)) for own in found] + [pa.field(ORDER, _ORDER)])


def _plain(kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind
