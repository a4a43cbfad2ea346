"""Pieces of a stream for pure functions that look at what becomes of it: with context on both sides, and whose is what.

Data flow: `pieces_of` cuts a DataFrame's stream by time and sends each slice, with the events that it needs before and
behind, to a task; `piece_of` puts the batches of a slice together there, and tells which of its events are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from fastcep.events.convert import from_numpy
from fastcep.plan.slicing import Context
from fastcep.query import ast
from fastcep.shedding.hybrid.history import Piece
from fastcep.spark.columns import NUMBER, SLICE, TIME, events_of
from fastcep.spark.functions import NO_FUNCTIONS, Shipped
from fastcep.spark.slice_assignment import SliceAssignment, placed
from fastcep.spark.slice_task import without
from fastcep.spark.slices import Slice, time_cut
from fastcep.spark.slicing import PARTS, slices_wanted
from fastcep.spark.survey import counted, stage, survey_of, timed

__all__ = ["FOUND", "OnPieces", "Pieces", "collected", "piece_of", "pieces_of", "row_of"]

#: The columns of results.
FOUND = "piece int, found binary"
#: Events in a piece of which all partial matches are recorded.
_MOST = 500_000


def piece_of(parts: Sequence[pa.RecordBatch], piece: Slice, *, numbered: bool) -> Piece:
    """Put together the batches of a slice, in order: with numbers, and what is its own by time."""
    table = pa.Table.from_batches([without(batch, SLICE) for batch in parts]).combine_chunks()
    if not numbered:
        table = table.append_column(NUMBER, from_numpy(np.arange(piece.place, piece.place + len(table))))
    times = table[TIME].to_numpy()
    skipped = 0
    if piece.skip_to is not None:
        skipped = min(max(0, piece.skip_to - piece.place), len(table))
    if piece.skip_before is not None:
        skipped = max(skipped, int(np.searchsorted(times, piece.skip_before)))
    first = 0 if piece.start is None else int(np.searchsorted(times, piece.start))
    last = len(times) if piece.stop is None else int(np.searchsorted(times, piece.stop))
    return Piece(table.slice(skipped), piece.place + skipped, (max(first - skipped, 0), max(last - skipped, 0)))


def row_of(number: int, found: bytes) -> pa.RecordBatch:
    """A row of `FOUND`."""
    columns: dict[str, Any] = {"piece": pa.array([number], pa.int32()), "found": pa.array([found], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class OnPieces:
    """Applies a function to the piece of each slice; its result, bytes, is a row.

    Attributes
    ----------
    function
        From a piece to bytes.
    slices
        By number.
    numbered
        Whether events come with numbers.
    functions
        That the query calls.
    """

    function: Callable[[Piece], bytes]
    slices: Sequence[Slice]
    numbered: bool
    functions: Shipped = NO_FUNCTIONS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run over the batches of one slice."""
        parts = [batch for batch in batches if batch.num_rows]
        if parts:
            self.functions.register()
            number = parts[0].column(SLICE)[0].as_py()
            piece = piece_of(parts, self.slices[number], numbered=self.numbered)
            yield row_of(number, self.function(piece))


@dataclass(frozen=True)
class Pieces:
    """A stream that is cut into pieces.

    Attributes
    ----------
    frame
        A partition per slice, with all of its events in order, and ``slice``.
    cut, numbered
        How it is cut, and whether events have numbers.
    """

    frame: DataFrame
    cut: SliceAssignment
    numbered: bool

    def map(self, function: Callable[[Piece], bytes], functions: Shipped, name: str) -> DataFrame:
        """Apply a function to each piece: a row of `FOUND` for each; ``name`` is shown in Spark's pages."""
        task = OnPieces(function, self.cut.slices, self.numbered, functions)

        def fastcep_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        fastcep_pieces.__name__ = f"fastcep_{name}"
        return self.frame.mapInArrow(fastcep_pieces, FOUND)


def pieces_of(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slices: int | None,
    before: Context,
    after: Context,
    columns: Collection[int],
) -> Pieces:
    """Cut the stream of a DataFrame by time.

    Parameters
    ----------
    frame, query, order_by
        As for `detect`.
    slices
        Into about how many; None: as many as there are cores, and so many that none is too long to be recorded.
    before, after
        What each needs beside its own events.
    columns
        Which of the schema's are needed.
    """
    slices_of = slices_wanted(frame.sparkSession, slices, _MOST)
    events = events_of(frame, query.schema, order_by, columns)
    survey = survey_of(events, lambda count: slices_of(count) * PARTS)
    events, wanted = timed(events), slices_of(survey.events)
    cut = time_cut(survey.parts, wanted, before, counted=True, after=after)
    cut = cut.placed(counted(events, cut.edges))
    whole = SliceAssignment(cut.slices, cut)
    return Pieces(placed(events, whole), whole, events.numbered)


def collected(frame: DataFrame, name: str) -> list[bytes]:
    """The results of `Pieces.map`, in the order of the pieces, on the driver: for what is no larger than a model."""
    with stage(frame.sparkSession, f"fastcep: {name}"):
        rows = frame.select("piece", "found").collect()
    return [bytes(row["found"]) for row in sorted(rows, key=lambda row: row["piece"])]  # Spark would run tasks twice
