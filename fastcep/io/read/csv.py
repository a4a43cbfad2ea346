"""Read CSV block by block, with declared column types."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pv

from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.events.convert import from_numpy
from fastcep.io.formats import Format
from fastcep.io.read.bad_row_split import with_times
from fastcep.io.read.bad_rows import BadRow, Piece
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.lines import Lines, line_ends
from fastcep.io.read.options import Options
from fastcep.io.read.remedies import binary_format, value_remedy
from fastcep.io.read.streams import Block, ByteStream, blocks, no_pieces, work_through
from fastcep.io.read.values import FALSE, TRUE, convert_texts, infinite

__all__ = ["QuoteCutter", "read_csv"]

pc: Any = pyarrow.compute  # its stubs lack overloads

TYPES: dict[str, Any] = {
    "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "timestamp": pa.string(),
}  # fmt: skip
INTEGER = re.compile(r"\s*-?\d+\s*")
SAMPLE = 100  # rows inspected to find whether times are integers or text
NEWLINE, RETURN, QUOTE = 10, 13, 34


def read_csv(stream: ByteStream, schema: Schema, form: Format, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open CSV with double quotes and any delimiter. An empty field is null; empty lines are skipped.

    Parameters
    ----------
    stream
        The bytes; closed at the end.
    schema
        Names the columns to read, their dtypes, and whether there is a header.
    form, options
        Set the delimiter and the encoding.

    Returns
    -------
    tuple
        Layout of the columns, and iterator over pieces of about a megabyte of text.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    DataError
        If the header is missing or damaged.
    OSError, EOFError, zlib.error, pyarrow.ArrowException
        If the file is damaged; while iterating, after the rows before the damage.
    """
    delimiter = options.delimiter or form.delimiter
    try:
        stream.decode(options.encoding)
        cutter = QuoteCutter(delimiter)

        def complete_rows(head: bytes) -> bytes:
            return head[: cutter.cut(head)]

        def has_row(head: bytes) -> bool:
            return sum(1 for _ in islice(_records(complete_rows(head), delimiter), 1 + schema.header)) > schema.header

        head = stream.peek_until(has_row)
        records = _records(complete_rows(head) if has_row(head) else head, delimiter)
        first = next(records, None)
        if first is None:
            if schema.header and head.strip():
                raise DataError(
                    f"{stream.label}: the line with the column names does not end, expected a line end; "
                    "close the quotes in it"
                )
            if schema.header:
                raise DataError(
                    f"{stream.label}: is empty, expected a line with the column names; add it, or declare NO HEADER "
                    "(header=False)"
                )
            stream.close()
            return Layout(stream.label, ("",), (0,), ("time",), False), no_pieces()
        if (remedy := binary_format(head[:8])) is not None:
            raise DataError(f"{stream.label}: expected CSV, {remedy}")
        names = first if schema.header else [""] * len(first)
        if schema.header and "\ufffd" in "".join(names):
            raise DataError(
                f"{stream.label}: the column names are not UTF-8; give the encoding, such as latin-1, or convert the "
                "file, for example with iconv"
            )
        layout = resolve(schema, names, stream.label)
    except BaseException:
        stream.close()
        raise
    sample = [first] if not schema.header else []
    sample += islice(records, SAMPLE)
    textual = schema.time_format is not None or not _mostly_integers(sample, layout.numbers[layout.time])
    types = [TYPES[("string" if textual else "int64") if dtype == "time" else dtype] for dtype in layout.dtypes]
    skip = cutter.first_row(head) if schema.header else 0
    parser = _Parser(layout, types, delimiter, cutter)
    line = 1 + len(line_ends(head[:skip]))

    def work(block: Block) -> Piece:
        return with_times(parser.parse(block), layout, schema, has_types=False)

    return layout, work_through(stream, blocks(stream, cutter, skip, line), work)


def _records(head: bytes, delimiter: str) -> Iterator[list[str]]:
    text = head.decode("utf-8", "replace")
    with suppress(csv.Error):  # a field of more than 128 KiB
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def _mostly_integers(rows: list[list[str]], number: int) -> bool:
    is_integer = [bool(INTEGER.fullmatch(row[number])) for row in rows if number < len(row) and row[number]]
    return 2 * sum(is_integer) >= len(is_integer)


class QuoteCutter:
    """Finds the ends of CSV rows, in which line ends can occur inside quotes.

    A quote opens only at the start of a field. Inside quotes, a doubled quote is a quote character.
    """

    def __init__(self, delimiter: str) -> None:
        self._ends_field = np.zeros(256, dtype=bool)  # by character: whether a field can start after it
        self._ends_field[[ord(delimiter), NEWLINE, RETURN]] = True

    def quotes(self, data: bytes) -> npt.NDArray[np.int64]:
        """Return the positions where quotes open, close, open, …. The data must start with a row."""
        text = np.frombuffer(data, np.uint8)
        at = np.flatnonzero(text == QUOTE) if b'"' in data else np.zeros(0, np.int64)
        opening = at[::2]
        starts_field = self._ends_field[text[opening - 1]]
        starts_field[:1] |= opening[:1] == 0
        starts_field[1:] |= opening[1:] - 1 == at[1::2][: len(opening) - 1]
        return at if starts_field.all() else self._without_literal_quotes(text, at)

    def _without_literal_quotes(
        self, text: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Leave out quotes in the middle of an unquoted field, which are ordinary characters."""
        kept: list[int] = []
        for position in positions.tolist():
            inside = len(kept) % 2 == 1
            starts_field = position == 0 or self._ends_field[text[position - 1]]
            if inside or starts_field or (kept and kept[-1] == position - 1):
                kept.append(position)
        return np.array(kept, np.int64)

    def cut(self, data: bytes) -> int:
        """Return the length of the complete rows at the start."""
        return self._last_end(data, self.quotes(data), len(data))

    def unclosed(self, data: bytes) -> int | None:
        """Return the start of the row with a quote that never closes, None if there is none."""
        quotes = self.quotes(data)
        return self._last_end(data, quotes, int(quotes[-1])) if len(quotes) % 2 else None

    @staticmethod
    def _last_end(data: bytes, quotes: npt.NDArray[np.int64], stop: int) -> int:
        """Return the end of the last row before `stop`."""
        line_end = b"\n" if b"\n" in data else b"\r"
        while (end := data.rfind(line_end, 0, stop)) >= 0:
            quotes_before = int(np.searchsorted(quotes, end))
            if quotes_before % 2 == 0:
                return end + 1
            stop = int(quotes[quotes_before - 1])
        return 0

    def first_row(self, data: bytes) -> int:
        """Return the end of the first row that is not empty."""
        ends = line_ends(data)
        ends = ends[np.searchsorted(self.quotes(data), ends) % 2 == 0]
        start = len(data) - len(data.lstrip(b"\r\n"))
        row_ends = ends[ends > start]
        return int(row_ends[0]) + 1 if len(row_ends) else len(data)


class _Parser:
    """Parses blocks to pieces. Thread-safe."""

    def __init__(self, layout: Layout, types: list[Any], delimiter: str, cutter: QuoteCutter) -> None:
        self._layout, self._types, self._delimiter, self._cutter = layout, types, delimiter, cutter

    def parse(self, block: Block) -> Piece:
        """Parse a block to a piece with line numbers."""
        return replace(self._parsed(block), lines=Lines(block.data, block.line, self._cutter))

    def _parsed(self, block: Block) -> Piece:
        """Parse a block on the fast path; on the slow path, value by value, if that finds an error."""
        if block.fault is not None:
            raw = block.data.decode("utf-8", "backslashreplace").rstrip("\r\n")
            fault = BadRow(self._layout.label, 0, None, block.fault, "a quote at both ends of the field",
                           "fix the quote", raw=raw)  # fmt: skip
            return Piece(self._layout.empty_batch(self._types), (fault,))
        try:
            table = self._read(block.data, self._types, None)
        except pa.ArrowInvalid:
            return self._parsed_by_value(block.data)
        if any(kind == TYPES["float64"] and infinite(table.column(k)) for k, kind in enumerate(self._types)):
            return self._parsed_by_value(block.data)  # finds out whether they are infinite or too large for float64
        return Piece(self._layout.batch([_one_chunk(column) for column in table.columns], table.num_rows))

    def _read(self, data: bytes, types: list[Any], handler: Any) -> pa.Table:
        columns = [str(number) for number in range(len(self._layout.names))]
        needed = [str(number) for number in self._layout.numbers]
        source: Any = pa.py_buffer(data)
        return pv.read_csv(
            source,
            read_options=pv.ReadOptions(column_names=columns, use_threads=False, block_size=len(data) + 1),
            parse_options=pv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=b'"' in data, invalid_row_handler=handler
            ),
            convert_options=pv.ConvertOptions(
                column_types=dict(zip(needed, types, strict=True)),
                include_columns=needed,
                null_values=[""],
                strings_can_be_null=True,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )

    def _parsed_by_value(self, data: bytes) -> Piece:
        """Parse a block on the slow path, which finds all bad rows."""
        types = self._types
        data, mark = _as_utf8(data)
        bad: list[BadRow] = []

        def skip_row(row: pv.InvalidRow) -> str:
            bad.append(self._wrong_width(row, mark))
            return "skip"

        texts = [_one_chunk(column) for column in self._read(data, [pa.string()] * len(types), skip_row).columns]
        rows = len(texts[0])
        values: list[Any] = []
        faulty_columns: dict[int, int] = {}
        for k, kind in enumerate(types):
            not_utf8 = np.zeros(rows, dtype=bool)
            if mark is not None:
                marked = pc.fill_null(pc.match_substring(texts[k], mark), False)
                not_utf8 = marked.to_numpy(zero_copy_only=False)
            text = pc.if_else(from_numpy(~not_utf8), texts[k], pa.scalar(None, pa.string()))
            value, invalid = convert_texts(text, kind)
            values.append(value)
            for index in (*np.flatnonzero(not_utf8).tolist(), *invalid):
                faulty_columns.setdefault(index, k)
        piece = Piece(self._layout.batch(values, rows), tuple(bad))
        keep = np.ones(rows, dtype=bool)
        keep[list(faulty_columns)] = False
        numbers = piece.rows()
        for index, k in faulty_columns.items():
            bad.append(self._bad_value(int(numbers[index]), k, [_text(text[index], mark) for text in texts]))
        return piece.without(keep, bad[len(piece.bad) :])

    def _bad_value(self, row: int, k: int, texts: list[str | None]) -> BadRow:
        layout = self._layout
        kind = str(self._types[k]).replace("double", "float64").replace("string", "UTF-8 text")
        values = {str(layout.key(j)): text for j, text in enumerate(texts)}
        remedy = value_remedy(texts[k], kind)
        return BadRow(layout.label, row, layout.key(k), repr(texts[k]), kind, remedy, values)

    def _wrong_width(self, row: pv.InvalidRow, mark: str | None) -> BadRow:
        text = row.text if mark is None else row.text.replace(mark, "\\x")
        return BadRow(self._layout.label, (row.number or 1) - 1, None, _fields(row.actual_columns),
                      str(row.expected_columns), _WIDTH_REMEDY, raw=text)  # fmt: skip


_WIDTH_REMEDY = "fix the row, or put a field with a delimiter in double quotes:"


@lru_cache
def _fields(count: int) -> str:
    return f"{count} fields"  # cached, so that all rows with this count share the text


def _as_utf8(data: bytes) -> tuple[bytes, str | None]:
    """Replace each byte that is not UTF-8 by a mark and two hexadecimal digits; return the mark, None if not needed."""
    try:
        data.decode()
    except UnicodeDecodeError:
        noncharacters = map(chr, range(0xFDD0, 0xFDF0))  # Unicode reserves them for internal use
        mark = next(mark for mark in noncharacters if mark.encode() not in data)
        text = data.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda byte: f"{mark}{ord(byte[0]) - 0xDC00:02x}", text).encode(), mark
    return data, None


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _text(value: Any, mark: str | None) -> str | None:
    text: str | None = value.as_py()
    return text.replace(mark, "\\x") if text is not None and mark is not None else text
