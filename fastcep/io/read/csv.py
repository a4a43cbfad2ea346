"""Read CSV block by block, with a type declared for every column."""

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
from fastcep.io.read.bad_row_split import timed
from fastcep.io.read.bad_rows import BadRow, Piece
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.lines import Lines, line_ends
from fastcep.io.read.options import Options
from fastcep.io.read.streams import Block, ByteStream, blocks, nothing, work_through
from fastcep.io.read.values import FALSE, TRUE, convert_texts, infinite

__all__ = ["QuoteCutter", "read_csv"]

pc: Any = pyarrow.compute  # its stubs know too few overloads

TYPES: dict[str, Any] = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
INTEGER = re.compile(r"\s*-?\d+\s*")
SAMPLE = 100  # rows looked at for the kind of the time
NEWLINE, RETURN, QUOTE = 10, 13, 34


def read_csv(stream: ByteStream, schema: Schema, form: Format, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open CSV: double quotes, a comma or another delimiter; an empty field is null, an empty line no row.

    Parameters
    ----------
    stream
        The bytes; closed in the end.
    schema
        Says which columns are read, as what, and whether there is a header.
    form, options
        Delimiter, encoding.

    Returns
    -------
    tuple
        The columns' layout, and pieces of about a megabyte of text.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    DataError
        If there is no header where there must be one.
    OSError, EOFError, zlib.error, pyarrow.ArrowException
        If the file is damaged; while iterating, after the rows before the damage.
    """
    delimiter = options.delimiter or form.delimiter
    try:
        stream.decode(options.encoding)
        cutter = QuoteCutter(delimiter)

        def whole(head: bytes) -> bytes:
            return head[: cutter.cut(head)]

        def enough(head: bytes) -> bool:
            return sum(1 for _ in islice(_records(whole(head), delimiter), 1 + schema.header)) > schema.header

        head = stream.peek_until(enough)
        records = _records(whole(head) if enough(head) else head, delimiter)
        first = next(records, None)
        if first is None:
            if schema.header and head.strip():
                raise DataError(f"{stream.label}: the names of the columns do not end; is a quote not closed?")
            if schema.header:
                raise DataError(f"{stream.label}: is empty, expected a line with the names of the columns")
            stream.close()
            return Layout(stream.label, ("",), (0,), ("time",), False), nothing()
        names = first if schema.header else [""] * len(first)
        if schema.header and "\ufffd" in "".join(names):
            raise DataError(
                f"{stream.label}: the names of the columns are not UTF-8; give the encoding, such as latin-1, or "
                "convert the file, for example with iconv"
            )
        layout = resolve(schema, names, stream.label)
    except BaseException:
        stream.close()
        raise
    sample = [first] if not schema.header else []
    sample += islice(records, SAMPLE)
    text = schema.time_format is not None or not _mostly_integers(sample, layout.numbers[layout.time])
    types = [TYPES["string" if text else "int64"] if d == "time" else TYPES[d] for d in layout.dtypes]
    skip = cutter.first_row(head) if schema.header else 0
    parser = _Parser(layout, types, delimiter, cutter)
    line = 1 + len(line_ends(head[:skip]))

    def work(block: Block) -> Piece:
        return timed(parser.parse(block), layout, schema)

    return layout, work_through(stream, blocks(stream, cutter, skip, line), work)


def _records(head: bytes, delimiter: str) -> Iterator[list[str]]:
    text = head.decode("utf-8", "replace")
    with suppress(csv.Error):  # a field of more than 128 KiB
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def _mostly_integers(rows: list[list[str]], number: int) -> bool:
    found = [bool(INTEGER.fullmatch(row[number])) for row in rows if number < len(row) and row[number]]
    return 2 * sum(found) >= len(found)


class QuoteCutter:
    """Finds the ends of rows of CSV, where line ends may stand inside of quotes.

    A quote opens at the start of a field only; inside of quotes a doubled one stands for itself.
    """

    def __init__(self, delimiter: str) -> None:
        self._starts = np.zeros(256, dtype=bool)  # what a field may start behind
        self._starts[[ord(delimiter), NEWLINE, RETURN]] = True

    def quotes(self, data: bytes) -> npt.NDArray[np.int64]:
        """Return where quotes open, close, open, …; `data` must start with a row."""
        text = np.frombuffer(data, np.uint8)
        at = np.flatnonzero(text == QUOTE) if b'"' in data else np.zeros(0, np.int64)
        opening = at[::2]
        right = self._starts[text[opening - 1]]
        right[:1] |= opening[:1] == 0
        right[1:] |= opening[1:] - 1 == at[1::2][: len(opening) - 1]
        return at if right.all() else self._slowly(text, at)

    def _slowly(self, text: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Leave out quotes in the middle of a field, which are characters like others."""
        kept: list[int] = []
        for where in at.tolist():
            inside = len(kept) % 2 == 1
            if inside or where == 0 or self._starts[text[where - 1]] or (kept and kept[-1] == where - 1):
                kept.append(where)
        return np.array(kept, np.int64)

    def cut(self, data: bytes) -> int:
        """Return how many first bytes are whole rows."""
        return self._last_end(data, self.quotes(data), len(data))

    def unclosed(self, data: bytes) -> int | None:
        """Return where the row starts in which a quote opens that never closes, None if there is none."""
        quotes = self.quotes(data)
        return self._last_end(data, quotes, int(quotes[-1])) if len(quotes) % 2 else None

    @staticmethod
    def _last_end(data: bytes, quotes: npt.NDArray[np.int64], stop: int) -> int:
        """Return where the last row ends before `stop`."""
        mark = b"\n" if b"\n" in data else b"\r"
        while (end := data.rfind(mark, 0, stop)) >= 0:
            before = int(np.searchsorted(quotes, end))
            if before % 2 == 0:
                return end + 1
            stop = int(quotes[before - 1])
        return 0

    def first_row(self, data: bytes) -> int:
        """Return the length of the first row that is not empty, and of what is before it."""
        ends = line_ends(data)
        ends = ends[np.searchsorted(self.quotes(data), ends) % 2 == 0]
        start = len(data) - len(data.lstrip(b"\r\n"))
        after = ends[ends > start]
        return int(after[0]) + 1 if len(after) else len(data)


class _Parser:
    """Makes pieces of blocks; may be called from several threads."""

    def __init__(self, layout: Layout, types: list[Any], delimiter: str, cutter: QuoteCutter) -> None:
        self._layout, self._types, self._delimiter, self._cutter = layout, types, delimiter, cutter

    def parse(self, block: Block) -> Piece:
        """Make a piece that knows its lines."""
        return replace(self._parsed(block), lines=Lines(block.data, block.line, self._cutter))

    def _parsed(self, block: Block) -> Piece:
        """Make a piece; slowly, row by row, only if something in it is wrong."""
        if block.fault is not None:
            raw = block.data.decode("utf-8", "backslashreplace").rstrip("\r\n")
            fault = BadRow(self._layout.label, 0, None, block.fault, "a quote at both ends of the field",
                           "mend the quote", raw=raw)  # fmt: skip
            return Piece(self._layout.empty(self._types), (fault,))
        try:
            table = self._read(block.data, self._types, None)
        except pa.ArrowInvalid:
            return self._slowly(block.data)
        if any(kind == TYPES["float64"] and infinite(table.column(k)) for k, kind in enumerate(self._types)):
            return self._slowly(block.data)  # are they written so, or just too large?
        return self._place(table)

    def _place(self, table: pa.Table) -> Piece:
        return Piece(self._layout.place([_one(column) for column in table.columns], table.num_rows))

    def _read(self, data: bytes, types: list[Any], handler: Any) -> pa.Table:
        columns = [str(number) for number in range(len(self._layout.names))]
        wanted = [str(number) for number in self._layout.numbers]
        source: Any = pa.py_buffer(data)
        return pv.read_csv(
            source,
            read_options=pv.ReadOptions(column_names=columns, use_threads=False, block_size=len(data) + 1),
            parse_options=pv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=b'"' in data, invalid_row_handler=handler
            ),
            convert_options=pv.ConvertOptions(
                column_types=dict(zip(wanted, types, strict=True)),
                include_columns=wanted,
                null_values=[""],
                strings_can_be_null=True,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )

    def _slowly(self, data: bytes) -> Piece:
        types = self._types
        data, mark = _readable(data)
        bad: list[BadRow] = []

        def note(row: pv.InvalidRow) -> str:
            bad.append(self._wrong_width(row, mark))
            return "skip"

        texts = [_one(column) for column in self._read(data, [pa.string()] * len(types), note).columns]
        rows = len(texts[0])
        values: list[Any] = []
        culprits: dict[int, int] = {}
        for k, kind in enumerate(types):
            unreadable = np.zeros(rows, dtype=bool)
            if mark is not None:
                marked = pc.fill_null(pc.match_substring(texts[k], mark), False)
                unreadable = marked.to_numpy(zero_copy_only=False)
            value, wrong = convert_texts(
                pc.if_else(from_numpy(~unreadable), texts[k], pa.scalar(None, pa.string())), kind
            )
            values.append(value)
            for at in (*np.flatnonzero(unreadable).tolist(), *wrong):
                culprits.setdefault(at, k)
        piece = Piece(self._layout.place(values, rows), tuple(bad))
        keep = np.ones(rows, dtype=bool)
        keep[list(culprits)] = False
        numbers = piece.rows()
        for at, k in culprits.items():
            bad.append(self._bad(int(numbers[at]), k, [_text(text[at], mark) for text in texts]))
        return piece.without(keep, bad[len(piece.bad) :])

    def _bad(self, row: int, k: int, texts: list[str | None]) -> BadRow:
        layout = self._layout
        kind = str(self._types[k]).replace("double", "float64").replace("string", "UTF-8 text")
        values = {str(layout.key(j)): text for j, text in enumerate(texts)}
        return BadRow(layout.label, row, layout.key(k), repr(texts[k]), kind,
                      "mend the value or declare another type", values)  # fmt: skip

    def _wrong_width(self, row: pv.InvalidRow, mark: str | None) -> BadRow:
        text = row.text if mark is None else row.text.replace(mark, "\\x")
        return BadRow(self._layout.label, (row.number or 1) - 1, None, _fields(row.actual_columns),
                      str(row.expected_columns), "mend the row", raw=text)  # fmt: skip


@lru_cache
def _fields(count: int) -> str:
    return f"{count} fields"  # the same text for all rows of so many


def _readable(data: bytes) -> tuple[bytes, str | None]:
    """Give UTF-8: each byte that is none becomes two hexadecimal digits behind a mark that is not in the data."""
    try:
        data.decode()
    except UnicodeDecodeError:
        mark = next(mark for mark in map(chr, range(0xFDD0, 0xFDF0)) if mark.encode() not in data)  # no characters
        text = data.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda found: f"{mark}{ord(found[0]) - 0xDC00:02x}", text).encode(), mark
    return data, None


def _one(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _text(value: Any, mark: str | None) -> str | None:
    text: str | None = value.as_py()
    return text.replace(mark, "\\x") if text is not None and mark is not None else text
