"""Read Parquet and Arrow IPC, batch by batch."""

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
    """Open Parquet, with at most one row group in memory. Standard input is first copied to a temporary file.

    Parameters
    ----------
    stream
        The bytes; closed at the end.
    schema
        Names the columns to read.
    form
        Not used.
    options
        Sets the largest number of rows of a batch.

    Returns
    -------
    tuple
        Layout of the columns, and iterator over the pieces.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    OSError, pyarrow.ArrowException
        If the file is damaged; while iterating, after the rows before the damage.
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
    needed = [layout.names[number] for number in layout.numbers]
    occurrences = [names[:number].count(names[number]) for number in layout.numbers]  # if several have the same name

    def pieces() -> Iterator[Piece]:
        try:
            for group in range(file.num_row_groups):  # one by one, to read all groups before a damaged one
                for batch in file.iter_batches(max(options.chunk_rows, 8192), [group], needed):
                    columns = [
                        batch.column(batch.schema.get_all_field_indices(name)[occurrence])
                        for name, occurrence in zip(needed, occurrences, strict=True)
                    ]
                    yield _piece(columns, batch.num_rows, layout)
        finally:
            file.close(force=True)
            stream.close()

    return layout, pieces()


def read_arrow(stream: ByteStream, schema: Schema, form: Format, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open Arrow IPC, in the file format (also called Feather) or the stream format. A file is mapped into memory.

    Parameters, results and errors are those of `read_parquet`, except that batches are those of the file.
    """
    if regular(stream.path) and stream.compression is None:
        stream.close()
        file: Any = pa.memory_map(stream.path)
        has_file_format = file.read(6) == MAGIC
        open_ipc: Any = pa.ipc.open_file if has_file_format else pa.ipc.open_stream
        file.seek(0)
        layout = resolve(schema, open_ipc(file).schema.names, stream.label)

        def batches() -> Iterator[pa.RecordBatch]:
            with file:
                file.seek(0)
                reader = open_ipc(file, options=pa.ipc.IpcReadOptions(included_fields=list(layout.numbers)))
                if has_file_format:
                    yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
                else:
                    yield from reader

        return layout, pieces_of(batches(), layout)
    try:
        head = stream.peek(8)
        if head.startswith(b"FEA1"):
            raise DataError(f"{stream.label}: is Feather version 1; write it as version 2, or as Parquet")
        # After its magic bytes, the file format is a stream.
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
    """Yield a piece for each batch. Batches have only the needed columns, in the order of `layout.numbers`."""
    for batch in batches:
        yield _piece(batch.columns, batch.num_rows, layout)


def _piece(columns: Sequence[Any], rows: int, layout: Layout) -> Piece:
    """Decode the columns, so that rows can be selected. Types that no role takes stay: the engine rejects them."""
    return Piece(layout.batch([plain(column) if is_known(column.type) else column for column in columns], rows))


class _Readable:
    """A `ByteStream` as a file object for Arrow."""

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
