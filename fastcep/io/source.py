"""Open a file as a stream of record batches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from fastcep.errors import DataError, ValidationError
from fastcep.events import Schema
from fastcep.io.columnar import read_arrow, read_parquet
from fastcep.io.layout import Layout, first_failure
from fastcep.io.text import read_csv
from fastcep.io.times import convert_times

__all__ = ["Source", "open_source"]

Reader = Callable[[str, Schema, int], tuple[Layout, Iterator[pa.RecordBatch]]]

READERS: dict[str, Reader] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
}


class Source:
    """An open input: iterate over it for its record batches; `open_source` makes one.

    Attributes
    ----------
    path
        The path as given, ``"-"`` for standard input.
    rows_read
        Rows of the batches handed out so far.
    """

    def __init__(self, path: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.path = path
        self.rows_read = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self.rows_read += batch.num_rows
        return batch

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; iteration ends."""
        self._batches.close()  # type: ignore[attr-defined]  # a generator
        self._batches = iter(())


def open_source(path: str | PathLike[str], schema: Schema, *, chunk_rows: int = 65_536) -> Source:
    """Open a file for reading in constant memory.

    The ending tells the format: ``.csv``, ``.csv.gz``, ``.parquet`` or ``.arrow`` (file or stream); ``"-"`` is CSV on
    standard input. Only the columns that the schema needs are read. An empty CSV field is null. A time column of
    text is converted to UTC (see `fastcep.io.times.convert_times`).

    Parameters
    ----------
    path
        The file, or ``"-"``.
    schema
        What the events look like. ``schema.header`` says whether CSV has a line of names.
    chunk_rows
        Rows of each batch, at least 1; the last may hold fewer.

    Returns
    -------
    Source
        Iterator of ``pyarrow.RecordBatch``, also a context manager. Each batch is ready for
        ``EventBatch.from_data(schema, …)``.

    Raises
    ------
    DataError
        If there is no such file or it cannot be opened. While iterating: if a value cannot be read as its type (the
        message names file, row from 0 and column), or the file is broken.
    SchemaError
        If a column that the schema needs is missing.
    ValidationError
        If the format is unknown or ``chunk_rows`` is below 1.
    """
    name = fspath(path)
    if chunk_rows < 1:
        raise ValidationError(f"chunk_rows={chunk_rows}: expected at least 1")
    reader = read_csv if name == "-" else _reader(name)
    try:
        layout, batches = reader(name, schema, chunk_rows)
    except (OSError, pa.ArrowException) as error:
        raise _broken(name, 0, error) from error
    return Source(name, _rechunk(_checked(layout, batches, schema), chunk_rows))


def _reader(name: str) -> Reader:
    file = Path(name)
    reader = READERS.get("".join(file.suffixes[-2:]).lower()) or READERS.get(file.suffix.lower())
    if reader is None:
        raise ValidationError(f"cannot read {name!r}: expected a name that ends in {', '.join(READERS)}, or '-'")
    if file.is_dir():
        raise DataError(f"{name}: found a folder, expected a file")
    if not file.exists():
        around = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        near = difflib.get_close_matches(file.name, around, 1)
        hint = f"; did you mean {str(file.parent / near[0])!r}?" if near else "; check the path"
        raise DataError(f"{name}: no such file{hint}")
    return reader


def _checked(layout: Layout, batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """Convert the times; turn what goes wrong in reading into DataError."""
    column = layout.numbers[layout.time] if layout.positional else layout.time
    row = 0
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (OSError, pa.ArrowException) as error:
            raise _broken(layout.label, row, error) from error
        raw = batch.column(column)

        def convert(times: Any) -> Any:
            return convert_times(times, schema.time_format, schema.time_zone)

        try:
            times = convert(raw)
        except pa.ArrowInvalid as error:
            bad = first_failure(raw, convert)
            raise DataError(_bad_time(layout, row + bad, raw[bad].as_py(), schema)) from error
        if times is not raw:
            batch = batch.set_column(column, batch.schema.names[column], times)
        row += batch.num_rows
        yield batch


def _bad_time(layout: Layout, row: int, value: object, schema: Schema) -> str:
    expected = (
        f"a time of the format {schema.time_format!r}; mend the value or the format"
        if schema.time_format
        else "an ISO 8601 time such as 2018-05-01 07:30:00; mend the value or declare its format"
    )
    return f"{layout.label}, row {row}, column {layout.title(layout.time)}: found {str(value)!r}, expected {expected}"


def _broken(name: str, row: int, error: Exception) -> DataError:
    return DataError(f"{name}: cannot be read after {row} rows; is it cut off or of another format? ({error})")


def _rechunk(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            held.append(batch.slice(start, rows - count))
            start += rows - count
            yield _joined(held)
            held, count = [], 0
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
