"""CSV from standard input as it comes: every complete row that has arrived is handed on, and silence is noticed."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from fastcep.errors import DataError, ValidationError
from fastcep.events import Schema
from fastcep.io.layout import Layout, resolve
from fastcep.io.source import Source, _checked
from fastcep.io.text import INTEGER, TYPES, _reader, _records

__all__ = ["open_live"]

LABEL = "standard input"
PIECE = 1 << 20  # bytes parsed at once, where more than that waits
LONGEST = 1 << 26  # bytes of one row


def open_live(schema: Schema, *, wait: float, on_quiet: Callable[[], None], chunk_rows: int = 65_536) -> Source:
    """Open standard input, CSV, for a stream that may fall silent.

    Parameters
    ----------
    schema
        What the events look like.
    wait
        Seconds of silence after which `on_quiet` is called, again and again.
    on_quiet
        Called while the iteration waits for input.
    chunk_rows
        Rows of each batch at most, at least 1.

    Returns
    -------
    Source
        Iterator of batches as from `open_source`. Waits for the first row already here, to know the columns.

    Raises
    ------
    ValidationError
        If ``chunk_rows`` is below 1, or standard input is no file of the system.
    SchemaError, DataError
        As from `open_source`.
    """
    if chunk_rows < 1:
        raise ValidationError(f"chunk_rows={chunk_rows}: expected at least 1")
    try:
        number = sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        raise ValidationError("standard input cannot be waited for: it is not connected to a file or a pipe") from None
    pieces = _pieces(number, wait, on_quiet)
    head, rows = b"", []
    for piece in pieces:
        head += piece
        rows = [row for row, _ in zip(_records(head, LABEL), range(2), strict=False)]
        if len(rows) > schema.header:
            break
    if not rows:
        if schema.header:
            raise DataError(f"{LABEL}: is empty, expected a line with the names of the columns")
        return Source("-", iter(()))
    layout = resolve(schema, rows[0] if schema.header else [""] * len(rows[0]), LABEL)
    row = rows[-1] if len(rows) > schema.header else []
    at = layout.numbers[layout.time]
    integer = schema.time_format is None and INTEGER.fullmatch(row[at] if at < len(row) else "")
    types = [TYPES["int64" if integer else "string"] if d == "time" else TYPES[d] for d in layout.dtypes]
    batches = _batches(head, pieces, layout, types, schema.header)
    return Source("-", _cut(_checked(layout, batches, schema), chunk_rows))


def _pieces(number: int, wait: float, on_quiet: Callable[[], None]) -> Iterator[bytes]:
    """Yield what has arrived, in whole rows."""
    rest = bytearray()
    while True:
        if not select.select([number], [], [], wait)[0]:
            on_quiet()
            continue
        data = os.read(number, PIECE)
        more = bool(data)
        while data:
            rest += data
            full = len(rest) >= PIECE or not select.select([number], [], [], 0)[0]
            data = b"" if full else os.read(number, PIECE)
        end = _end_of_rows(rest) if more else len(rest)
        if end:
            yield bytes(rest[:end])
            del rest[:end]
        if not more:
            return
        if len(rest) > LONGEST:
            raise DataError(f"{LABEL}: a row is longer than {LONGEST:,} bytes; is a quote not closed?")


def _end_of_rows(text: bytearray) -> int:
    """Where the last complete row ends: after a line end outside of quotes; 0 if there is none."""
    end = text.rfind(b"\n") + 1
    while end and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


def _batches(
    head: bytes, pieces: Iterator[bytes], layout: Layout, types: list[Any], header: bool
) -> Iterator[pa.RecordBatch]:
    row = 0
    piece: bytes | None = head
    while piece is not None:
        if piece.strip():
            try:
                for batch in _reader(pa.BufferReader(piece), layout, types, header, False, None):
                    yield layout.place(batch.columns, batch.num_rows)
                    row += batch.num_rows
            except pa.ArrowInvalid as error:
                raise DataError(f"{LABEL}, at row {row} or later: a value cannot be read ({error})") from error
            header = False
        piece = next(pieces, None)


def _cut(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
