"""Open files, standard input or tables as a stream of record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import DataError, ValidationError
from fastcep.events import Schema
from fastcep.events.convert import joined
from fastcep.events.origin import TextFile
from fastcep.events.row_screening import Order
from fastcep.events.types import is_known
from fastcep.io.formats import Format, of_name, sniff
from fastcep.io.read.bad_row_split import screened, with_times, with_valid_text
from fastcep.io.read.bad_rows import BadRows, Piece
from fastcep.io.read.columnar import read_arrow, read_parquet
from fastcep.io.read.csv import read_csv
from fastcep.io.read.files import list_files
from fastcep.io.read.json_lines import read_json_lines
from fastcep.io.read.layout import Layout
from fastcep.io.read.live_input import Live, standard_input
from fastcep.io.read.objects import label_of_object, read_object
from fastcep.io.read.options import Options
from fastcep.io.read.sorting import sorted_batches
from fastcep.io.read.streams import DAMAGE, STDIN, ByteStream, label_of

__all__ = ["Source", "open_source"]

Ints = npt.NDArray[np.int64]
_Pieces = Generator[tuple[str, Piece], None, None]  # origin, piece
_Held = list[tuple[Ints, pa.RecordBatch, Piece]]  # numbers of the rows, the rows, the piece that they are from
_Chunks = Generator[tuple[str, Ints, pa.RecordBatch], None, None]  # origin, numbers of the rows, rows

READERS = {"csv": read_csv, "jsonl": read_json_lines, "parquet": read_parquet, "arrow": read_arrow}


class Source:
    """An open input, which iterates over its record batches. Made by `open_source`.

    Attributes
    ----------
    path
        The path as given, ``"-"`` for standard input; several paths are joined by commas.
    origin, rows
        File of the last batch, and the numbers of its rows in that file (int64[n]), for messages. The origin of CSV
        also gives the lines of the rows. With `sort`, the numbers count sorted rows.
    rows_read
        Number of rows of all batches so far.
    """

    def __init__(self, path: str, batches: _Chunks, inputs: _Inputs, sink: BadRows | None) -> None:
        self.path = path
        self._inputs = inputs
        self.origin: str = path
        self.rows: Ints = np.empty(0, np.int64)
        self.rows_read: int = 0
        self._batches = batches
        self._sink = sink

    @property
    def bad_rows(self) -> int:
        """Number of rows written to the file of bad rows so far."""
        return 0 if self._sink is None else self._sink.count

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            self.origin, self.rows, batch = next(self._batches)
        except BaseException:  # the end, or an error, ends the iteration
            self.close()
            raise
        self.rows_read += batch.num_rows
        return batch

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the input and the file of bad rows. The end of the iteration also closes them."""
        self._batches.close()
        self._inputs.close()
        if self._sink is not None:
            self._sink.close()


def open_source(
    data: Any,
    schema: Schema,
    *,
    chunk_rows: int = 65_536,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    sort: bool = False,
    bad_rows: str | PathLike[str] | None = None,
    ordered: bool = True,
    live: Live | None = None,
) -> Source:
    """Open events for reading in constant memory: CSV, JSON lines, Parquet, Arrow, or a table.

    Only the columns that the schema needs are read. A time column of text is converted to UTC; see
    `fastcep.io.read.times.convert_times`. docs/input.md describes the formats and bad rows.

    Parameters
    ----------
    data
        A path, ``"-"`` for standard input, a folder, a pattern such as ``"part-*.parquet"``, or a list of these; or an
        object that holds a table (pyarrow, pandas, polars, DuckDB, a mapping of names to columns).
    schema
        Schema of the events. ``schema.header`` says whether CSV has a line of column names.
    chunk_rows
        Number of rows of each batch, at least 1. The last batch of a file can have fewer.
    format
        ``"csv"``, ``"jsonl"``, ``"parquet"`` or ``"arrow"``; by default detected from the ending of the name or, for
        standard input, from the first bytes. Gzip and zstd are detected automatically.
    delimiter
        Field separator of CSV; by default a comma, or a tab for ``.tsv``.
    encoding
        Encoding of CSV and JSON lines.
    sort
        True sorts the rows of all files by time, then sequence number, then position in the input. Rows beyond 64 MB
        go to temporary files.
    bad_rows
        Path of a file of JSON lines for invalid rows; None raises an error for the first one.
    ordered
        With `bad_rows`: True treats rows out of time order as bad; False leaves them to the engine.
    live
        For standard input only: pass on each row when it arrives; with `Live.wait`, call a function during silence.

    Returns
    -------
    Source
        Iterator of ``pyarrow.RecordBatch``, also a context manager. Each batch is ready for
        ``EventBatch.from_data(schema, …)``.

    Raises
    ------
    DataError
        If a file does not exist or cannot be opened. While iterating, after the rows before: if a row is invalid and
        `bad_rows` is None (the message names file, row from 0 and column), or if the file is damaged.
    SchemaError
        If a column that the schema needs is missing.
    ValidationError
        If an option is invalid or the format is unknown; with `Live.wait`, also if standard input is compressed, or is
        not a file or pipe of the operating system.
    """
    options = Options(format, delimiter, encoding, chunk_rows)
    if isinstance(data, str | PathLike):
        paths: Sequence[Any] = [fspath(data)]
    elif isinstance(data, list | tuple) and data and all(isinstance(item, str | PathLike) for item in data):
        paths = [fspath(item) for item in data]
    else:
        paths = []
    if live is not None and paths != [STDIN]:
        raise ValidationError("live is for standard input alone, '-'; leave it out for files")
    if live is not None and sort:
        raise ValidationError("live and sort exclude each other: sorting needs all input before the first row")
    if bad_rows is not None:
        for path in paths:
            if _same_file(path, bad_rows):
                raise ValidationError(f"bad rows cannot go to {path!r}, which is the input; give another path")
    inputs = _Inputs(schema, options, paths, data, live)
    try:
        sink = BadRows(bad_rows) if bad_rows is not None else None
    except ValidationError:
        inputs.close()
        raise
    path = ",".join(paths) if paths else label_of_object(data)
    pieces = _valid_pieces(inputs, schema, sink, Order() if ordered and sink is not None and not sort else None, sort)
    if sort:
        label = f"{path} (sorted)" if path != STDIN else "standard input (sorted)"
        pieces = _numbered(label, sorted_batches((piece.batch for _, piece in pieces), schema))
    return Source(path, _rechunk(pieces, chunk_rows, live is not None), inputs, sink)


def _same_file(path: str, other: str | PathLike[str]) -> bool:
    try:
        return Path(path).samefile(other)
    except (OSError, ValueError):  # one is missing or unreadable: reading or writing it raises the error
        return False


class _Inputs:
    """The files, or the object, to read in order. The first is opened immediately."""

    def __init__(self, schema: Schema, options: Options, paths: Sequence[str], data: Any, live: Live | None) -> None:
        self._schema, self._options, self._live = schema, options, live
        self._stream: ByteStream | None = None
        self._files = (file for path in paths for file in list_files(path, options))
        if paths:
            self._first = self._next()
        else:
            self._first = (label_of_object(data), *read_object(data, schema, options))

    def __iter__(self) -> Iterator[tuple[str, Layout, Iterator[Piece]]]:
        while self._first is not None:
            yield self._first
            self._first = self._next()

    def _next(self) -> tuple[str, Layout, Iterator[Piece]] | None:
        name = next(self._files, None)
        if name is None:
            return None
        try:
            return (label_of(name), *self._open(name))
        except DAMAGE as error:
            raise _damaged(label_of(name), 0, error) from error

    def _open(self, name: str) -> tuple[Layout, Iterator[Piece]]:
        form = of_name(name, self._options.format) if name != STDIN else None
        self._stream = stream = standard_input(self._live) if self._live is not None else ByteStream(name)
        try:
            if form is not None and stream.magic and form.compression not in (None, stream.compression):
                raise DataError(
                    f"{stream.label}: cannot be read after 0 rows: expected {form.compression} data by its name, found "
                    f"{stream.magic!r}; fix the name or the file"
                )
            if form is None:
                form = Format(self._options.format or sniff(stream.peek(64)))
            return READERS[form.name](stream, self._schema, form, self._options)
        except BaseException:
            stream.close()
            raise

    def close(self) -> None:
        """Close the open file."""
        if self._stream is not None:
            self._stream.close()


def _damaged(name: str, row: int, error: Exception) -> DataError:
    return DataError(
        f"{name}: cannot be read after {row} rows, expected a complete file of the format in its name ({error}); "
        "copy or make it again, or give its real format (format='…', --format)"
    )


def _valid_pieces(inputs: _Inputs, schema: Schema, sink: BadRows | None, order: Order | None, sort: bool) -> _Pieces:
    """Convert times, and move bad rows to the sink; without a sink, raise an error for the first one."""
    for label, layout, raw in inputs:
        try:
            for piece in _checked(label, layout, raw):
                piece = with_times(piece, layout, schema)
                if sink is not None or sort:
                    piece = screened(piece, layout, schema, order)
                if sink is not None:
                    sink.add(piece.bad_with_lines())
                elif piece.bad:
                    yield label, replace(piece, batch=piece.before_first_bad(), bad=())
                    raise next(replace(piece, bad=piece.bad[:1]).bad_with_lines()).error()
                yield label, piece
        finally:
            raw.close()  # type: ignore[attr-defined]  # a generator


def _checked(label: str, layout: Layout, raw: Iterator[Piece]) -> Iterator[Piece]:
    """Number the rows of a file and check its text; convert the exceptions for damaged files to DataError."""
    row = 0
    while True:
        try:
            piece = next(raw, None)
            if piece is None:
                return
            piece = with_valid_text(piece.starting_at(row), layout)
        except DAMAGE as error:
            raise _damaged(label, row, error) from error
        row += len(piece)
        yield piece


def _numbered(label: str, batches: Iterator[pa.RecordBatch]) -> _Pieces:
    row = 0
    for batch in batches:
        yield label, Piece(batch, (), row)
        row += batch.num_rows


def _rechunk(pieces: _Pieces, rows: int, prompt: bool) -> _Chunks:
    """Split and combine pieces to batches of `rows` rows, each from one file. With `prompt`, do not combine pieces."""
    held: _Held = []
    count, origin = 0, ""
    failure: Exception | None = None
    while True:
        try:
            label, piece = next(pieces)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if label != origin and held:
            yield _joined(origin, held)
            held, count = [], 0
        origin, batch, numbers, start = label, piece.batch, piece.rows(), 0
        while count + batch.num_rows - start >= rows:
            end = start + rows - count
            held.append((numbers[start:end], batch.slice(start, end - start), piece))
            yield _joined(origin, held)
            held, count, start = [], 0, end
        if start < batch.num_rows:
            held.append((numbers[start:], batch.slice(start), piece))
            count += batch.num_rows - start
        if held and prompt:
            yield _joined(origin, held)
            held, count = [], 0
    if held:
        yield _joined(origin, held)
    pieces.close()
    if failure is not None:
        raise failure


def _joined(origin: str, parts: _Held) -> tuple[str, Ints, pa.RecordBatch]:
    origin = _origin_with_lines(origin, [piece for *_, piece in parts])
    if len(parts) == 1:
        return origin, *parts[0][:2]
    batches = [batch for _, batch, _ in parts]
    columns = []
    for k, kind in enumerate(batches[0].schema.types):
        arrays = [batch.column(k) for batch in batches]
        columns.append(joined(arrays, kind) if is_known(kind) else pa.concat_arrays(arrays))
    batch = pa.RecordBatch.from_arrays(columns, batches[0].schema.names)
    return origin, np.concatenate([numbers for numbers, *_ in parts]), batch


def _origin_with_lines(origin: str, pieces: list[Piece]) -> str:
    """Return the name of an input as a `TextFile`, if all pieces have line numbers."""
    if any(piece.lines is None for piece in pieces):
        return origin

    def line_of(row: int) -> int:
        piece = next(piece for piece in reversed(pieces) if piece.start <= row)
        assert piece.lines is not None
        return int(piece.lines.of_rows(np.array([row - piece.start]))[0])

    text_file = TextFile(origin)
    text_file.line_of = line_of
    return text_file
