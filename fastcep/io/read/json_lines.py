"""Read JSON lines block by block: one object on a line, its fields being the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.io.formats import Format
from fastcep.io.read.bad_row_split import timed
from fastcep.io.read.bad_rows import BadRow, Piece
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.options import Options
from fastcep.io.read.streams import HEAD, Block, ByteStream, blocks, nothing, work_through

__all__ = ["read_json_lines"]

KINDS: dict[str, Any] = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
#: A null instead of an object, which the parser of Arrow takes for a row, or even crashes on.
NULL = re.compile(rb"[\n}][ \t\r]*null")
SPACE = b" \t\r\n"
WIDEST = 1e308
WORDS = ("NaN", "Infinity", "-Infinity")  # as the output has them: strict JSON has no such numbers


class _LineCutter:
    """Rows end where lines end: JSON has no line end inside of a string."""

    def cut(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def unclosed(self, data: bytes) -> int | None:
        return None


class _Bad(Exception):
    """What is wrong with a line: column, found, expected."""


def read_json_lines(
    stream: ByteStream, schema: Schema, form: Format, options: Options
) -> tuple[Layout, Iterator[Piece]]:
    """Open JSON lines; other fields are ignored, a field that an object does not have is null.

    Parameters, results and errors are those of `fastcep.io.read.csv.read_csv`. A column's number counts the fields of
    the first object. The time, type and sequence columns must be in some object of the first 64 KiB.
    """
    try:
        stream.decode(options.encoding)
        head = stream.peek_until(_tells)
        objects = list(_objects(head))
        names = list(dict.fromkeys(name for found in objects for name in found))
        sparse = [column.source for column in schema.columns if isinstance(column.source, str)]
        names += [name for name in dict.fromkeys(sparse) if name not in names and objects]
        if not objects and not head.strip():
            stream.close()
            return Layout(stream.label, ("",), (0,), ("time",), False), nothing()
        if not objects:
            raise DataError(
                f"{stream.label}, row 0: found {head[:40].splitlines()[0]!r}, expected JSON lines: one object "
                "on each line; mend the file, or say its --format"
            )
        layout = resolve(schema, names, stream.label)
    except BaseException:
        stream.close()
        raise
    key = names[layout.numbers[layout.time]]
    times = [found[key] for found in objects if key in found]
    text = 2 * sum(isinstance(time, str) for time in times) > len(times)
    types = [KINDS["string" if text else "int64"] if d == "time" else KINDS[d] for d in layout.dtypes]
    parser = _Parser(layout, types)

    def work(block: Block) -> Piece:
        return timed(parser.parse(block), layout, schema)

    return layout, work_through(stream, blocks(stream, _LineCutter()), work)


def _tells(head: bytes) -> bool:
    """Whether there is an object in whole lines; without one in so many bytes this is hardly JSON lines."""
    lines = head[: head.rfind(b"\n") + 1]
    return any(True for _ in _objects(lines)) or (len(head) >= HEAD and bool(lines.strip()))


def _objects(head: bytes) -> Iterator[dict[str, Any]]:
    for line in head.split(b"\n"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


class _Parser:
    """Makes pieces of blocks; may be called from several threads."""

    def __init__(self, layout: Layout, types: list[Any]) -> None:
        self._layout, self._types = layout, types
        self._names = [layout.names[number] for number in layout.numbers]
        self._schema = pa.schema(list(zip(self._names, types, strict=True)))
        reals = [name for name, kind in zip(self._names, types, strict=True) if kind == pa.float64()]
        keys = b"|".join(re.escape(json.dumps(name, ensure_ascii=False).encode()) for name in reals)
        self._words = re.compile(rb'(?<!\\)((?:%s)[ \t]*:[ \t]*)"(%s)"' % (keys, "|".join(WORDS).encode()))
        self._reals = bool(reals)

    def parse(self, block: Block) -> Piece:
        """Make a piece; slowly, line by line, only if something in it is wrong."""
        data = block.data
        try:
            data.decode()
            if not data.lstrip(SPACE).startswith(b"null") and not NULL.search(data):
                table = self._read(self._without_words(data))
                lines = data.count(b"\n") + (not data.endswith(b"\n"))
                if table.num_rows == lines or table.num_rows == sum(1 for line in data.split(b"\n") if line.strip()):
                    return self._piece(table)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            pass
        return self._slowly([line for line in data.split(b"\n") if line.strip()])

    def _without_words(self, data: bytes) -> bytes:
        """Take the quotes off ``"NaN"`` and its like: an unescaped key cannot stand inside of a string."""
        if self._reals and (b'NaN"' in data or b'Infinity"' in data):
            return self._words.sub(rb"\1\2", data)
        return data

    def _read(self, data: bytes) -> pa.Table:
        source: Any = pa.py_buffer(data)
        return pj.read_json(
            source,
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
        )

    def _piece(self, table: pa.Table, bad: tuple[BadRow, ...] = ()) -> Piece:
        arrays = []
        for name in self._names:
            column: Any = table.column(name)
            arrays.append(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        return Piece(self._layout.place(arrays, table.num_rows), bad)

    def _slowly(self, lines: list[bytes]) -> Piece:
        good: list[bytes] = []
        bad: list[BadRow] = []
        for row, line in enumerate(lines):
            try:
                good.append(self._checked(line))
            except _Bad as fault:
                bad.append(self._bad(row, line, *fault.args))
        rows = np.delete(np.arange(len(lines)), [fault.row for fault in bad]).tolist()
        tables: list[pa.Table] = []
        for start, stop, reason in self._readable(good, tables, 0):
            bad += [self._bad(rows[at], good[at], None, reason, "a JSON object") for at in range(start, stop)]
        table = pa.concat_tables(tables) if tables else self._schema.empty_table()
        return self._piece(table, tuple(sorted(bad, key=lambda fault: fault.row)))

    def _readable(self, lines: list[bytes], tables: list[pa.Table], start: int) -> Iterator[tuple[int, int, str]]:
        """Read lines into tables; yield where those stand that Arrow refuses, and why."""
        if not lines:
            return
        try:
            tables.append(self._read(b"\n".join(lines) + b"\n"))
        except pa.ArrowInvalid as error:
            if len(lines) == 1:
                yield start, start + 1, f"what cannot be read ({error})"
                return
            middle = len(lines) // 2
            yield from self._readable(lines[:middle], tables, start)
            yield from self._readable(lines[middle:], tables, start + middle)

    def _checked(self, line: bytes) -> bytes:
        """Return a line that Arrow reads."""
        try:
            found = json.loads(line.decode(), object_pairs_hook=self._object, parse_float=_real)
        except UnicodeDecodeError as error:
            raise _Bad(None, f"byte {line[error.start]:#x} at {error.start}", "UTF-8 text") from None
        except json.JSONDecodeError as error:
            found = f"invalid JSON ({error.msg} at character {error.pos})"
            raise _Bad(None, found, "one JSON object on a line") from None
        except RecursionError:
            raise _Bad(None, "objects nested too deeply", "one JSON object on a line") from None
        if not isinstance(found, dict):
            raise _Bad(None, _shown(found), "one JSON object on a line")
        if twice := found.get(_TWICE):
            name = next((name for name in self._names if name in twice), None)
            if name is not None:
                raise _Bad(name, "the field twice", "one value")
        words: dict[str, float] = {}
        for name, kind in zip(self._names, self._types, strict=True):
            value = found.get(name)
            if kind == pa.float64() and isinstance(value, str) and value in WORDS:
                words[name] = float(value)
            elif value is not None and not _fits(value, kind):
                raise _Bad(name, _shown(value), str(kind).replace("double", "float64"))
        if words:
            return json.dumps({name: found.get(name) for name in self._names} | words).encode()
        return line

    @staticmethod
    def _object(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        found: dict[Any, Any] = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            found[_TWICE] = {name for name in names if names.count(name) > 1}
        return found

    def _bad(self, row: int, line: bytes, column: str | None, found: str, expected: str) -> BadRow:
        mend = "mend the line" if column is None else "mend the value or declare another type"
        raw = line.decode("utf-8", "backslashreplace").strip()
        return BadRow(self._layout.label, row, column, found, expected, mend, raw=raw)


_TWICE = object()


def _real(text: str) -> float | Decimal:
    """Read a number with a point or an exponent; one that is too large for a float64 does not become infinite."""
    value = float(text)
    return value if isfinite(value) else Decimal(text)


def _shown(value: object) -> str:
    text = str(value)
    if not isinstance(value, Decimal):
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    return text if len(text) <= 80 else text[:79] + "…"


def _fits(value: object, kind: Any) -> bool:
    if kind == pa.bool_():
        return isinstance(value, bool)
    if kind == pa.string():
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if kind == pa.int64():
        return isinstance(value, int) and INT64_MIN <= value <= INT64_MAX
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < WIDEST)
