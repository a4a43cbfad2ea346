"""Read CSV batch by batch, with a type declared for every column."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pv

from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.io.layout import Layout, first_failure, resolve

__all__ = ["read_csv"]

pc: Any = pyarrow.compute  # its stubs know too few overloads

HEAD = 1 << 16  # bytes looked at for the header and the first row
TYPES: dict[str, Any] = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
TRUE, FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
INTEGER = re.compile(r"\s*-?\d+\s*")
STDIN = "-"


class _Joined(io.RawIOBase):
    """A stream of which the head has been read already."""

    def __init__(self, head: bytes, tail: Any) -> None:
        self._head, self._tail = head, tail

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return bytes(self._tail.read(size))
        cut = len(self._head) if size < 0 else size
        part, self._head = self._head[:cut], self._head[cut:]
        return part

    def close(self) -> None:
        if self._tail is not sys.stdin.buffer:
            self._tail.close()
        super().close()


def read_csv(path: str, schema: Schema, chunk_rows: int) -> tuple[Layout, Iterator[pa.RecordBatch]]:
    """Open a CSV file: comma, double quotes, UTF-8, gzip if the name ends in ``.gz``; an empty field is null.

    Parameters
    ----------
    path
        The file, or ``"-"`` for standard input.
    schema
        Says which columns are read, as what, and whether there is a header.
    chunk_rows
        Not used: batches are about a megabyte of text.

    Returns
    -------
    tuple
        The columns' layout, and the batches.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    DataError
        If the file is empty or not UTF-8; while iterating, if a row has a wrong number of fields or a value is not
        of its type.
    OSError, pyarrow.ArrowException
        If the file is broken.
    """
    label = "standard input" if path == STDIN else path
    stream = _open(path)
    head = stream.read(HEAD)
    records = _records(head, label)
    first = next(records, None)
    if first is None:
        if schema.header:
            raise DataError(f"{label}: is empty, expected a line with the names of the columns")
        return Layout(label, ("",), (0,), ("time",), False), iter(())
    names = first if schema.header else [""] * len(first)
    layout = resolve(schema, names, label)
    row = (next(records, None) if schema.header else first) or []
    number = layout.numbers[layout.time]
    integer = schema.time_format is None and INTEGER.fullmatch(row[number] if number < len(row) else "")
    types = [TYPES["int64" if integer else "string"] if d == "time" else TYPES[d] for d in layout.dtypes]
    return layout, _batches(path, _Joined(head, stream), layout, types, schema.header)


def _open(path: str) -> Any:
    if path == STDIN:
        return sys.stdin.buffer
    compression: Any = "gzip" if path.lower().endswith(".gz") else None
    return pa.input_stream(path, compression=compression)


def _records(head: bytes, label: str) -> Iterator[list[str]]:
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{label}: byte {error.start} is not UTF-8; convert the file, for example with iconv"
        ) from error
    return (record for record in csv.reader(io.StringIO(text, newline="")) if record)


def _reader(
    stream: Any, layout: Layout, types: list[Any], header: bool, threads: bool, bad_row: Any
) -> pv.CSVStreamingReader:
    columns = [str(number) for number in range(len(layout.names))]
    wanted = [str(number) for number in layout.numbers]
    return pv.open_csv(
        stream,
        read_options=pv.ReadOptions(column_names=columns, skip_rows_after_names=int(header), use_threads=threads),
        parse_options=pv.ParseOptions(newlines_in_values=True, invalid_row_handler=bad_row),
        convert_options=pv.ConvertOptions(
            column_types=dict(zip(wanted, types, strict=True)),
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
            true_values=TRUE,
            false_values=FALSE,
        ),
    )


def _batches(path: str, stream: Any, layout: Layout, types: list[Any], header: bool) -> Iterator[pa.RecordBatch]:
    row = 0
    with stream:
        try:
            for batch in _reader(stream, layout, types, header, True, None):
                yield layout.place(batch.columns, batch.num_rows)
                row += batch.num_rows
        except pa.ArrowInvalid as error:
            if path != STDIN:
                _explain(path, layout, types, header)
            raise DataError(f"{layout.label}, at row {row} or later: a value cannot be read ({error})") from error


def _explain(path: str, layout: Layout, types: list[Any], header: bool) -> None:
    """Read the file again, slowly, and raise DataError for its first bad row; return if there is none."""
    row = 0
    bad: list[pv.InvalidRow] = []

    def note(found: pv.InvalidRow) -> str:
        bad.append(found)
        return "error"

    with _open(path) as stream:
        try:
            for batch in _reader(stream, layout, [pa.binary()] * len(types), header, False, note):
                faults = []
                for k, dtype in enumerate(types):
                    at = _fault(batch.column(k), dtype)
                    if at is not None:
                        faults.append((at, k))
                if faults:
                    at, k = min(faults)
                    value = (batch.column(k)[at].as_py() or b"").decode("utf-8", "backslashreplace")
                    expected = "UTF-8 text" if types[k] == pa.string() else str(types[k]).replace("double", "float64")
                    raise DataError(
                        f"{layout.label}, row {row + at}, column {layout.title(k)}: found {value!r}, expected "
                        f"{expected}; mend the value or declare another type"
                    )
                row += batch.num_rows
        except pa.ArrowInvalid as error:
            if not bad:
                return
            place = f"row {bad[0].number - 1 - int(header)}" if bad[0].number else f"after row {row}"
            raise DataError(
                f"{layout.label}, {place}: found {bad[0].actual_columns} fields, expected "
                f"{bad[0].expected_columns}; mend the row {bad[0].text[:80]!r}"
            ) from error


def _fault(column: Any, dtype: Any) -> int | None:
    """Return the index of the first value that is not of a type, None if all are."""

    def convert(raw: Any) -> None:
        text = raw.cast(pa.string())
        if dtype == pa.bool_():
            known = pc.is_in(text, pa.array([*TRUE, *FALSE, None], pa.string()))
            if not pc.all(known).as_py():
                raise pa.ArrowInvalid("not a bool")
        elif dtype != pa.string():
            pc.utf8_trim_whitespace(text).cast(dtype)

    try:
        convert(column)
    except pa.ArrowInvalid:
        return first_failure(column, convert)
    return None
