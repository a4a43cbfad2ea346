"""Separate the invalid rows of a piece from the valid ones."""

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
from fastcep.io.read.times import convert_times, convert_times_or_integers
from fastcep.io.read.values import failures, not_text

__all__ = ["screened", "with_times", "with_valid_text"]


_BINARY_TYPES: dict[Any, Any] = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip


def with_valid_text(piece: Piece, layout: Layout) -> Piece:
    """Separate rows with text that is not UTF-8, which Parquet and Arrow files can hold.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a column is damaged in another way.
    """
    faulty_columns: dict[int, int] = {}
    for k in range(len(layout.numbers)):
        array: Any = piece.batch.column(layout.column(k))
        if _is_ascii(array):
            continue
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            if array.type not in _BINARY_TYPES:
                raise
            raw = pa.Array.from_buffers(_BINARY_TYPES[array.type], len(array), array.buffers(), offset=array.offset)
            raw.validate(full=True)
            for index in not_text(raw):
                faulty_columns.setdefault(index, k)

    def describe(row: int, index: int, k: int) -> BadRow:
        raw = piece.batch.column(layout.column(k))[index].cast(pa.large_binary()).as_py()
        found = repr(raw.decode("utf-8", "backslashreplace"))
        values = {str(layout.key(k)): raw}
        return BadRow(layout.label, row, layout.key(k), found, "UTF-8 text", "fix the value", values)

    return _without_rows(piece, faulty_columns, describe)


def _is_ascii(array: Any) -> bool:
    """Return whether all strings of an array are ASCII and none is null; ten times faster than a full validation."""
    if array.type not in (pa.string(), pa.large_string()) or array.null_count or array.buffers()[0] is not None:
        return False
    array.validate()
    offsets, data = texts(array)
    first, last = int(offsets[0]), int(offsets[-1])
    return bool((offsets[1:] >= offsets[:-1]).all()) and data[first:last].tobytes().isascii()


def with_times(piece: Piece, layout: Layout, schema: Schema, *, has_types: bool = True) -> Piece:
    """Convert the times as `convert_times` does, and separate rows with text that is not a time.

    Attributes of files without types, such as CSV, may also be integers in the unit of the schema.
    """
    for k in layout.time_columns:
        piece = _with_times_of(piece, layout, schema, k, has_types)
    return piece


def _with_times_of(piece: Piece, layout: Layout, schema: Schema, k: int, has_types: bool) -> Piece:
    column = layout.column(k)

    def convert(times: Any) -> Any:
        if has_types or layout.dtypes[k] == "time":
            return convert_times(times, schema.time_format, schema.time_zone)
        return convert_times_or_integers(times, schema.time_format, schema.time_zone, schema.time_unit)

    raw = piece.batch.column(column)
    try:
        times = convert(raw)
    except pa.ArrowInvalid:
        key = layout.key(k)
        expected = f"a time of the format {schema.time_format!r}" if schema.time_format else _ISO
        declare = "the format" if schema.time_format else "declare its format (FORMAT, time_format)"
        remedy = f"fix the value or {declare}"

        def describe(row: int, index: int, k: int) -> BadRow:
            found = repr(str(raw[index].as_py()))
            return BadRow(layout.label, row, key, found, expected, remedy, layout.values(piece.batch, index))

        piece = _without_rows(piece, dict.fromkeys(failures(raw, convert), k), describe)
        raw = piece.batch.column(column)
        times = convert(raw)
    if times is raw:
        return piece
    return replace(piece, batch=piece.batch.set_column(column, piece.batch.schema.names[column], times))


_ISO = "an ISO 8601 time from 1677 to 2262, such as 2018-05-01 07:30:00"


def screened(piece: Piece, layout: Layout, schema: Schema, order: Order | None) -> Piece:
    """Separate the rows that an engine would reject; see `fastcep.events.row_screening.screen`."""
    faults = {fault.row: fault for fault in screen(schema, piece.batch, layout.label, 0, order)}

    def describe(row: int, index: int, k: int) -> BadRow:
        fault = faults[index]
        values = layout.values(piece.batch, index)
        return BadRow(layout.label, row, fault.column, fault.found, fault.expected, fault.remedy, values)

    return _without_rows(piece, dict.fromkeys(faults, 0), describe)


def _without_rows(piece: Piece, faulty_columns: dict[int, int], describe: Any) -> Piece:
    """Move rows of the batch to the bad ones, given the column at fault by index of the row."""
    if not faulty_columns:
        return piece
    keep = np.ones(piece.batch.num_rows, dtype=bool)
    keep[list(faulty_columns)] = False
    rows = piece.rows()
    return piece.without(keep, [describe(int(rows[index]), index, k) for index, k in faulty_columns.items()])
