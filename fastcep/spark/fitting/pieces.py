"""Pieces of a stream: slices with context on both sides, for functions that observe what becomes of partial matches.

Data flow: `pieces_of` cuts the stream of a DataFrame by time and sends each slice, with its context before and after,
to a task; `piece_of` concatenates the batches of the slice there, and determines the range of events that it owns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fastcep.events.convert import from_numpy
from fastcep.plan.slicing import Context
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME
from fastcep.shedding.hybrid.history import Piece
from fastcep.spark.columns import SLICE, Events, events_of
from fastcep.spark.functions import NO_FUNCTIONS, ShippedFunctions
from fastcep.spark.session import stage
from fastcep.spark.slice_task import without_column
from fastcep.spark.slicing.assignment import SliceAssignment, assign_slices
from fastcep.spark.slicing.cutter import PARTS, positioned, slice_counter, time_parts
from fastcep.spark.slicing.facts import KIND, facts_text
from fastcep.spark.slicing.slices import Slice, time_cut
from fastcep.spark.slicing.survey import all_events, statistics_of, with_times

__all__ = ["ORDER", "RESULT_SCHEMA", "PieceTask", "Pieces", "collect_results", "piece_of", "pieces_of", "result_rows",
           "results_of"]  # fmt: skip

#: Columns of the results of tasks: the number of the piece, and a part of the result, as values have at most 2 GiB.
RESULT_SCHEMA = "piece int, part int, result binary"
#: Columns that order the parts of results.
ORDER = ("piece", "part")
#: Maximum size of a part in bytes, and number of parts that a task returns at a time. Spark sends up to 10,000 rows to
#: Python at a time, if no other setting limits them, and a batch has at most 2 GiB.
_PART, _PARTS = 1 << 16, 256
#: Target maximum of events per piece; all partial matches of a piece are recorded in memory.
_MAX_EVENTS = 500_000
#: Maximum number of pieces; beyond 4,096 million events, they are longer.
_MAX_PIECES = 8_192


def piece_of(batches: Sequence[pa.RecordBatch], stream_slice: Slice, *, numbered: bool) -> Piece:
    """Concatenate the batches of a slice, add sequence numbers if needed, and find the range of owned events."""
    table = pa.Table.from_batches([without_column(batch, SLICE) for batch in batches]).combine_chunks()
    position = stream_slice.position
    if not numbered:
        table = table.append_column(NUMBER, from_numpy(np.arange(position, position + len(table))))
    times = table[TIME].to_numpy()
    skipped = 0
    if stream_slice.skip_to is not None:
        skipped = min(max(0, stream_slice.skip_to - position), len(table))
    if stream_slice.skip_before is not None:
        skipped = max(skipped, int(np.searchsorted(times, stream_slice.skip_before)))
    first = 0 if stream_slice.start is None else int(np.searchsorted(times, stream_slice.start))
    last = len(times) if stream_slice.stop is None else int(np.searchsorted(times, stream_slice.stop))
    return Piece(table.slice(skipped), position + skipped, (max(first - skipped, 0), max(last - skipped, 0)))


def result_rows(number: int, result: bytes) -> Iterator[pa.RecordBatch]:
    """Yield a result in parts: batches with the columns of `RESULT_SCHEMA`."""
    begins = range(0, max(len(result), 1), _PART)
    for first in range(0, len(begins), _PARTS):
        parts = [result[begin : begin + _PART] for begin in begins[first : first + _PARTS]]
        columns: dict[str, Any] = {
            "piece": pa.array([number] * len(parts), pa.int32()),
            "part": pa.array(range(first, first + len(parts)), pa.int32()), "result": pa.array(parts, pa.binary()),
        }  # fmt: skip
        yield pa.RecordBatch.from_pydict(columns)


def results_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the result of each piece, given the rows in the order of `ORDER`."""
    rows = (row for batch in batches for row in zip(*(batch.column(name) for name in (*ORDER, "result")), strict=True))
    for number, parts in groupby(rows, lambda row: row[0].as_py()):
        yield number, b"".join(result.as_buffer() for _, _, result in parts)


@dataclass(frozen=True)
class PieceTask:
    """Task that applies a function to the piece of a slice, and returns rows of `RESULT_SCHEMA`.

    Attributes
    ----------
    function
        Function from a piece to bytes.
    slices
        All slices, by number.
    numbered
        Whether events have sequence numbers.
    functions
        User functions that the query calls.
    """

    function: Callable[[Piece], bytes]
    slices: Sequence[Slice]
    numbered: bool
    functions: ShippedFunctions = NO_FUNCTIONS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the batches of one slice."""
        non_empty = [batch for batch in batches if batch.num_rows]
        if non_empty:
            self.functions.register()
            number = non_empty[0].column(SLICE)[0].as_py()
            piece = piece_of(non_empty, self.slices[number], numbered=self.numbered)
            yield from result_rows(number, self.function(piece))


@dataclass(frozen=True)
class Pieces:
    """Stream that is cut into pieces.

    Attributes
    ----------
    frame
        One partition per slice with its events in order, and the column ``slice``.
    cut
        Slices of the stream.
    numbered
        Whether events have sequence numbers.
    """

    frame: DataFrame
    cut: SliceAssignment
    numbered: bool

    def map(self, function: Callable[[Piece], bytes], functions: ShippedFunctions, name: str) -> DataFrame:
        """Apply a function to each piece, with rows of `RESULT_SCHEMA`; Spark's UI shows ``name``."""
        task = PieceTask(function, self.cut.slices, self.numbered, functions)

        def fastcep_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        fastcep_pieces.__name__ = f"fastcep_{name}"
        return self.frame.mapInArrow(fastcep_pieces, RESULT_SCHEMA)


def pieces_of(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slices: int | None,
    before: Context,
    after: Context,
    columns: Collection[int],
    last: int | None = None,
) -> Pieces:
    """Cut the stream of a DataFrame by time.

    Parameters
    ----------
    frame, query, order_by
        As for `detect`.
    slices
        Approximate number of pieces; None: two per core, and more if pieces would have too many events.
    before, after
        Context of each piece before and after its own events.
    columns
        Indexes of the schema columns that are needed.
    last
        Number of events to take, the last ones of the stream. None: all events.
    """
    slice_count_of = slice_counter(frame.sparkSession, slices, _MAX_EVENTS, _MAX_PIECES)
    events = events_of(frame, query.schema, order_by, columns)
    if last is not None:
        events = _last_of(events, last)
    statistics = statistics_of(events, [all_events(events)])
    slice_count = slice_count_of(statistics.events)
    parts = time_parts(statistics, slice_count * PARTS, events.unit)
    cut = time_cut(parts, slice_count, before, positions=True, after=after)
    cut = positioned(cut, statistics, events.unit)
    assignment = SliceAssignment(cut.slices, cut)
    facts = F.from_json(F.lit(facts_text(assignment)), KIND)
    sliced = assign_slices(with_times(events), facts, len(cut.slices), group=None, timed=True, headers=False)
    return Pieces(sliced, assignment, events.numbered)


def _last_of(events: Events, number: int) -> Events:
    """Return the last events of a stream."""
    return replace(events, frame=events.frame.orderBy("raw", *events.order, ascending=False).limit(number))


def collect_results(frame: DataFrame, name: str) -> list[bytes]:
    """Collect results on the driver in the order of the pieces; for results as small as a model."""
    with stage(frame.sparkSession, f"fastcep: {name}"):
        rows = frame.toArrow()
    # sorted here, as a sort by Spark would run the tasks twice
    ordered = rows.sort_by([(column, "ascending") for column in ORDER])
    return [result for _, result in results_of(ordered.to_batches())]
