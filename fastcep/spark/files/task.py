"""Task that reads the row groups of a slice and finds the matches in them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastcep.errors import DataError
from fastcep.events.convert import from_numpy
from fastcep.spark.files.cutter import FileSlice
from fastcep.spark.files.parquet import OpenFiles
from fastcep.spark.files.row_groups import RowGroup
from fastcep.spark.slice_task import Detection

__all__ = ["FILE_NUMBER", "FileDetection", "sorted_batches"]

#: Column of the position of an event in the stream, if events have no sequence numbers.
FILE_NUMBER = "fastcep.number"
#: Number of rows that the engine processes at a time: with fewer, calls cost more; with more, it needs more memory.
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class FileDetection:
    """Task that finds the matches of a query in slices of files.

    Attributes
    ----------
    detection
        Task for the events of a slice: the query has the user's schema, with sequence numbers.
    columns
        Columns of events, each with its name in the files.
    types
        Types of the columns to read, by their names in the files. Those that are not among the values of
        `columns` are only for the condition.
    time, unit
        Time column, and nanoseconds per unit.
    ties
        Columns that order events of the same time, each with the values that replace its own by their positions; None:
        the values themselves.
    add_numbers
        Whether events have no sequence numbers.
    condition
        Condition of the rows that are events; None: all are.
    """

    detection: Detection
    columns: Mapping[str, str]
    types: Mapping[str, pa.DataType]
    time: str
    unit: int
    ties: Sequence[tuple[str, Sequence[Any] | None]]
    add_numbers: bool
    condition: pc.Expression | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the slices of batches of `packed`."""
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._slice(pickle.loads(row["slice"]), row["number"])

    def _slice(self, piece: FileSlice, number: int) -> Iterator[pa.RecordBatch]:
        run = self.detection.start(piece.bounds, number)
        position = piece.bounds.position
        for table in self._tables(piece.groups):
            position, table = position + table.num_rows, self._numbered(table, position)
            for batch in self._between(table, piece).to_batches(max_chunksize=_BATCH_ROWS):
                yield from run.process(batch)
        yield from run.end()

    def _between(self, table: pa.Table, piece: FileSlice) -> pa.Table:
        """Return the events of a table, which is in order, that a slice needs."""
        if piece.begin is not None and table.num_rows and self._times(table.slice(0, 1))[0] < piece.begin:
            table = table.slice(int(np.searchsorted(self._times(table), piece.begin)))
        if piece.end is not None and table.num_rows and self._times(table.slice(table.num_rows - 1))[0] >= piece.end:
            table = table.slice(0, int(np.searchsorted(self._times(table), piece.end)))
        return table

    def _numbered(self, table: pa.Table, position: int) -> pa.Table:
        if not self.add_numbers:
            return table
        return table.append_column(FILE_NUMBER, from_numpy(np.arange(position, position + table.num_rows)))

    def _tables(self, groups: Sequence[RowGroup]) -> Iterator[pa.Table]:
        """Yield the events of row groups in order; an error of Arrow becomes one of fastcep."""
        try:
            yield from sorted_batches(groups, self._row_groups(groups), self._times, self._sorted)
        except (OSError, pa.ArrowException) as error:
            paths = ", ".join(sorted({group.path for group in groups}))
            raise DataError(
                f"cannot read {paths}: {error}; make sure that all executors see the files, and that they stay as they "
                "are until the action ends"
            ) from None

    def _row_groups(self, groups: Sequence[RowGroup]) -> Iterator[pa.Table]:
        encoded = [name for name, kind in self.types.items() if pa.types.is_dictionary(kind)]
        with closing(OpenFiles(encoded)) as files:
            for group in groups:
                yield self._events(files.get(group.path, group.footer), group.number)

    def _events(self, file: pq.ParquetFile, number: int) -> pa.Table:
        stored = file.read_row_group(number, columns=list(self.types), use_threads=False)
        table = pa.table({name: _converted(stored[name], kind) for name, kind in self.types.items()})
        if self.condition is not None:
            table = table.filter(self.condition)
        return pa.table({name: table[stored] for name, stored in self.columns.items()})

    def _times(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """Return the times in ns."""
        return self._stored_times(table) * self.unit

    def _stored_times(self, table: pa.Table) -> npt.NDArray[np.int64]:
        column: Any = table[self.time].combine_chunks()
        if pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        times: npt.NDArray[np.int64] = column.to_numpy().astype(np.int64, copy=False)
        return times

    def _sorted(self, table: pa.Table) -> pa.Table:
        """Sort a table by time and the columns that order ties, unless it is in this order."""
        times = self._stored_times(table)
        if (times[1:] > times[:-1]).all():
            return table
        if self._numbers_ascend(table, times):
            return table
        keys = {"time": from_numpy(times)}
        for number, (name, values) in enumerate(self.ties):
            column: Any = table[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if values is not None:
                column = pc.index_in(column, pa.array(list(values)))
            if column.null_count:  # nulls come first
                keys[f"v{number}"] = column.is_valid().cast(pa.int8())
            keys[f"t{number}"] = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        order: Any = pa.table(keys)
        names: Any = [(name, "ascending") for name in keys]
        return table.take(pc.sort_indices(order, sort_keys=names))

    def _numbers_ascend(self, table: pa.Table, times: npt.NDArray[np.int64]) -> bool:
        """Return whether sequence numbers show that a table is in order, as they mostly do; this saves a sort."""
        if self.add_numbers or (times[1:] < times[:-1]).any():
            return False
        column: Any = table[self.ties[0][0]]
        if column.null_count:
            return False
        numbers = column.to_numpy()
        return bool(((times[1:] > times[:-1]) | (numbers[1:] > numbers[:-1])).all())


def _converted(column: Any, kind: pa.DataType) -> Any:
    """Return a column of a type, which another file may store differently."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def sorted_batches(groups: Sequence[RowGroup], tables: Iterable[pa.Table], times_of: Any, sort: Any) -> Iterator[Any]:
    """Yield the rows of all row groups in order; rows from the first time of the next row group on wait for it.

    If many rows wait, they are sorted again only when they have doubled.
    """
    waiting: list[pa.Table] = []
    rows, enough, last = 0, 0, groups[0].last
    for number, table in enumerate(tables):
        waiting.append(table)
        rows, last = rows + table.num_rows, max(last, groups[number].last)
        following = groups[number + 1].first if number + 1 < len(groups) else last + 1
        if following <= last and rows < enough:
            continue
        table = sort(pa.concat_tables(waiting) if len(waiting) > 1 else table)
        until = table.num_rows if following > last else int(np.searchsorted(times_of(table), following))
        yield table.slice(0, until)
        rows = table.num_rows - until
        waiting = [table.slice(until)] if rows else []
        enough = 2 * rows
