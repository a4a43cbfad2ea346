"""Task that reads the row groups of a slice and finds the matches in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastcep.errors import DataError
from fastcep.events.convert import from_numpy
from fastcep.spark.ordered_files import FileSlice, RowGroup
from fastcep.spark.slice_task import Detection

__all__ = ["FILE_NUMBER", "FileDetection", "sorted_batches"]

#: Column of the position of an event in the stream, if events have no sequence numbers.
FILE_NUMBER = "fastcep.number"


@dataclass(frozen=True)
class FileDetection:
    """Task that finds the matches of a query in slices of files.

    Attributes
    ----------
    detection
        Task for the events of a slice: the query has the user's schema, with sequence numbers.
    slices
        All slices.
    columns
        Columns to read.
    time, unit
        Time column, and nanoseconds per unit.
    ties
        Columns that order events of the same time, each with the values that replace its own by their positions; None:
        the values themselves.
    add_numbers
        Whether events have no sequence numbers.
    condition, names
        Condition of the rows that are events, and the columns that only it reads; None: all are.
    encoded
        Columns of strings with few distinct values, which are read as dictionaries.
    """

    detection: Detection
    slices: Sequence[FileSlice]
    columns: Sequence[str]
    time: str
    unit: int
    ties: Sequence[tuple[str, Sequence[Any] | None]]
    add_numbers: bool
    condition: pc.Expression | None = None
    names: Sequence[str] = ()
    encoded: Sequence[str] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the slices whose numbers the batches hold."""
        for batch in batches:
            numbers: list[Any] = batch.column(0).to_pylist()
            for number in numbers:
                yield from self._slice(self.slices[number], number)

    def _slice(self, piece: FileSlice, number: int) -> Iterator[pa.RecordBatch]:
        run = self.detection.start(piece.bounds, number)
        position = piece.bounds.position
        for table in sorted_batches(piece.groups, self._read(piece.groups), self._times, self._sorted):
            position, table = position + table.num_rows, self._numbered(table, position)
            for batch in self._between(table, piece).to_batches():
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

    def _read(self, groups: Sequence[RowGroup]) -> Iterator[pa.Table]:
        try:
            yield from self._row_groups(groups)
        except (OSError, pa.ArrowException) as error:
            paths = ", ".join(sorted({group.path for group in groups}))
            raise DataError(
                f"cannot read {paths}: {error}; make sure that all executors see the files, and that they stay as they "
                "are until the action ends"
            ) from None

    def _row_groups(self, groups: Sequence[RowGroup]) -> Iterator[pa.Table]:
        path, file = "", None
        for group in groups:
            if file is None or group.path != path:
                if file is not None:
                    file.close()
                # Engines take encoded types as they are, so they need not be decoded.
                path, file = group.path, pq.ParquetFile(group.path, read_dictionary=list(self.encoded))
                if file.metadata.num_rows != group.file_rows:
                    raise DataError(
                        f"{path}: found {file.metadata.num_rows:,} rows, expected {group.file_rows:,} as when detect "
                        "was called; call detect again after the file has changed"
                    )
            yield self._events(file, group.number)
        if file is not None:
            file.close()

    def _events(self, file: pq.ParquetFile, number: int) -> pa.Table:
        table = file.read_row_group(number, columns=[*self.columns, *self.names], use_threads=False)
        return table if self.condition is None else table.filter(self.condition).drop_columns(list(self.names))

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
        steps = np.diff(times)
        if self._numbers_ascend(table, steps):
            return table
        keys = {"time": from_numpy(times)}
        for number, (name, values) in enumerate(self.ties):
            column: Any = table[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if values is not None:
                column = pc.index_in(column, pa.array(list(values)))
            keys[f"t{number}"] = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        order: Any = pa.table(keys)
        names: Any = [(name, "ascending") for name in keys]
        options = pc.SortOptions(names, null_placement="at_start")
        return table.take(pc.sort_indices(order, options=options))

    def _numbers_ascend(self, table: pa.Table, steps: npt.NDArray[np.int64]) -> bool:
        """Return whether sequence numbers show that a table is in order, as they mostly do; this saves a sort."""
        if self.add_numbers or (steps < 0).any():
            return False
        numbers: Any = table[self.ties[0][0]]
        return not numbers.null_count and bool(((steps > 0) | (np.diff(numbers.to_numpy()) > 0)).all())


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
        waiting, rows = [table.slice(until)], table.num_rows - until
        enough = 2 * rows
