"""Part the rows of a piece that cannot be taken from the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.events import Schema
from fastcep.events.convert import texts
from fastcep.events.row_screening import Order, screen
from fastcep.io.read.bad_rows import BadRow, Piece
from fastcep.io.read.layout import Layout
from fastcep.io.read.times import convert_times
from fastcep.io.read.values import failures, not_text

__all__ = ["screened", "sound", "timed"]


_BYTES: dict[Any, Any] = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip


def sound(piece: Piece, layout: Layout) -> Piece:
    """Part rows with texts that are not UTF-8, which Parquet and Arrow files may hold.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a column is damaged in another way.
    """
    culprits: dict[int, int] = {}
    for k in range(len(layout.numbers)):
        array: Any = piece.batch.column(layout.column(k))
        if _ascii(array):
            continue
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            if array.type not in _BYTES:
                raise
            raw = pa.Array.from_buffers(_BYTES[array.type], len(array), array.buffers(), offset=array.offset)
            raw.validate(full=True)
            for at in not_text(raw):
                culprits.setdefault(at, k)

    def describe(row: int, at: int, k: int) -> BadRow:
        raw = piece.batch.column(layout.column(k))[at].cast(pa.large_binary()).as_py()
        found = repr(raw.decode("utf-8", "backslashreplace"))
        values = {str(layout.key(k)): raw}
        return BadRow(layout.label, row, layout.key(k), found, "UTF-8 text", "mend the value", values)

    return _parted(piece, culprits, describe)


def _ascii(array: Any) -> bool:
    """Whether an array holds texts without null, all ASCII, known by what takes a tenth of a full validation."""
    if array.type not in (pa.string(), pa.large_string()) or array.null_count or array.buffers()[0] is not None:
        return False
    array.validate()
    offsets, data = texts(array)
    first, last = int(offsets[0]), int(offsets[-1])
    return bool((offsets[1:] >= offsets[:-1]).all()) and data[first:last].tobytes().isascii()


def timed(piece: Piece, layout: Layout, schema: Schema) -> Piece:
    """Convert the times as `convert_times` does, and part rows with texts that are no times."""
    at = layout.column(layout.time)

    def convert(times: Any) -> Any:
        return convert_times(times, schema.time_format, schema.time_zone)

    raw = piece.batch.column(at)
    try:
        times = convert(raw)
    except pa.ArrowInvalid:
        key = layout.key(layout.time)
        form = f"a time of the format {schema.time_format!r}" if schema.time_format else _ISO
        mend = "mend the value or the format" if schema.time_format else "mend the value or declare its format"

        def describe(row: int, index: int, k: int) -> BadRow:
            found = repr(str(raw[index].as_py()))
            return BadRow(layout.label, row, key, found, form, mend, layout.values(piece.batch, index))

        piece = _parted(piece, dict.fromkeys(failures(raw, convert), layout.time), describe)
        raw = piece.batch.column(at)
        times = convert(raw)
    if times is raw:
        return piece
    return replace(piece, batch=piece.batch.set_column(at, piece.batch.schema.names[at], times))


_ISO = "an ISO 8601 time from 1677 to 2262, such as 2018-05-01 07:30:00"


def screened(piece: Piece, layout: Layout, schema: Schema, order: Order | None) -> Piece:
    """Part the rows that an engine would refuse; see `fastcep.events.row_screening.screen`."""
    faults = {fault.row: fault for fault in screen(schema, piece.batch, layout.label, 0, order)}

    def describe(row: int, at: int, k: int) -> BadRow:
        fault = faults[at]
        values = layout.values(piece.batch, at)
        return BadRow(layout.label, row, fault.column, fault.found, fault.expected, fault.remedy, values)

    return _parted(piece, dict.fromkeys(faults, 0), describe)


def _parted(piece: Piece, culprits: dict[int, int], describe: Any) -> Piece:
    """Move rows of the batch, by index and column at fault, to the bad ones."""
    if not culprits:
        return piece
    keep = np.ones(piece.batch.num_rows, dtype=bool)
    keep[list(culprits)] = False
    rows = piece.rows()
    return piece.without(keep, [describe(int(rows[at]), at, k) for at, k in culprits.items()])
