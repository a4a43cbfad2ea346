"""Read Parquet and Arrow, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.events.convert import plain
from fastcep.events.types import is_known
from fastcep.io.formats import Format
from fastcep.io.read.bad_rows import Piece
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.options import Options
from fastcep.io.read.streams import ByteStream, regular

__all__ = ["pieces_of", "read_arrow", "read_parquet"]

MAGIC = b"ARROW1"


def read_parquet(stream: ByteStream, schema: Schema, form: Format, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open Parquet; at most one row group is in memory. Standard input is copied to a temporary file first.

    Parameters
    ----------
    stream
        The bytes; closed in the end.
    schema
        Says which columns are read.
    form, options
        How many rows a batch has at most.

    Returns
    -------
    tuple
        The columns' layout, and the pieces.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    OSError, pyarrow.ArrowException
        If the file is broken; while iterating, after the rows before.
    """
    mapped = regular(stream.path) and stream.compression is None
    if mapped:
        stream.close()
    file = pq.ParquetFile(stream.path if mapped else stream.spool(), memory_map=mapped, page_checksum_verification=True)
    names = file.schema_arrow.names
    try:
        layout = resolve(schema, names, stream.label)
    except BaseException:
        file.close(force=True)
        raise
    wanted = [layout.names[number] for number in layout.numbers]
    which = [names[:number].count(names[number]) for number in layout.numbers]  # of several with one name

    def pieces() -> Iterator[Piece]:
        try:
            for group in range(file.num_row_groups):  # one by one: all before a damaged one are read
                for batch in file.iter_batches(max(options.chunk_rows, 8192), [group], wanted):
                    at = [batch.schema.get_all_field_indices(name)[k] for name, k in zip(wanted, which, strict=True)]
                    yield _piece([batch.column(k) for k in at], batch.num_rows, layout)
        finally:
            file.close(force=True)
            stream.close()

    return layout, pieces()


def read_arrow(stream: ByteStream, schema: Schema, form: Format, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open Arrow IPC, in the file format (Feather too) or the stream format; a file is mapped into memory.

    Parameters, results and errors are those of `read_parquet`; batches are as the file has them.
    """
    if regular(stream.path) and stream.compression is None:
        stream.close()
        file: Any = pa.memory_map(stream.path)
        framed = file.read(6) == MAGIC
        opened: Any = pa.ipc.open_file if framed else pa.ipc.open_stream
        file.seek(0)
        layout = resolve(schema, opened(file).schema.names, stream.label)

        def batches() -> Iterator[pa.RecordBatch]:
            with file:
                file.seek(0)
                reader = opened(file, options=pa.ipc.IpcReadOptions(included_fields=list(layout.numbers)))
                parts = (reader.get_batch(k) for k in range(reader.num_record_batches)) if framed else iter(reader)
                yield from parts

        return layout, pieces_of(batches(), layout)
    try:
        head = stream.peek(8)
        if head.startswith(b"FEA1"):
            raise DataError(f"{stream.label}: is Feather version 1; write it as version 2, or as Parquet")
        # Behind its mark the file format is a stream.
        source: Any = _Readable(stream, 8 if head.startswith(MAGIC) else 0)
        reader = pa.ipc.open_stream(source)
        layout = resolve(schema, reader.schema.names, stream.label)
    except BaseException:
        stream.close()
        raise

    def streamed() -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                yield batch.select(list(layout.numbers))
        finally:
            stream.close()

    return layout, pieces_of(streamed(), layout)


def pieces_of(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[Piece]:
    """Make pieces of batches that have the needed columns only, in the order of `layout.numbers`."""
    for batch in batches:
        yield _piece(batch.columns, batch.num_rows, layout)


def _piece(columns: Sequence[Any], rows: int, layout: Layout) -> Piece:
    """Decode the columns, so that rows can be taken from them; a type that no role takes is left to the engine."""
    return Piece(layout.place([plain(column) if is_known(column.type) else column for column in columns], rows))


class _Readable:
    """A `ByteStream` as the file object that Arrow asks for."""

    closed = False

    def __init__(self, stream: ByteStream, skip: int) -> None:
        self._stream, self._held = stream, b""
        self.read(skip)

    def read(self, size: int) -> bytes:
        parts = [self._held]
        count = len(self._held)
        while count < size and (part := self._stream.read(size - count)):
            parts.append(part)
            count += len(part)
        data = b"".join(parts)
        self._held = data[size:]
        return data[:size]
