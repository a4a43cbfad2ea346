"""Read JSON lines block by block: one object on each line, whose fields are the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
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
from fastcep.io.read.bad_row_split import with_times
from fastcep.io.read.bad_rows import BadRow, Piece
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.options import Options
from fastcep.io.read.remedies import value_remedy
from fastcep.io.read.streams import HEAD, Block, ByteStream, blocks, no_pieces, work_through

__all__ = ["read_json_lines"]

KINDS: dict[str, Any] = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
#: A null instead of an object: Arrow's parser reads it as a row, or crashes.
NULL = re.compile(rb"[\n}][ \t\r]*null")
SPACE = b" \t\r\n"
LARGEST = 1e308
NONFINITE = ("NaN", "Infinity", "-Infinity")  # strings, as strict JSON has no such numbers; as in the output


class _LineCutter:
    """Cuts at line ends: a JSON string cannot contain one."""

    def cut(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def unclosed(self, data: bytes) -> int | None:
        return None


class _Bad(Exception):
    """An invalid line; the arguments are the column, what was found and what was expected."""


def read_json_lines(
    stream: ByteStream, schema: Schema, form: Format, options: Options
) -> tuple[Layout, Iterator[Piece]]:
    """Open JSON lines. Fields that the schema does not read are ignored; missing fields are null.

    Parameters, results and errors are those of `fastcep.io.read.csv.read_csv`. Column numbers count the fields of the
    first object. The time, type and sequence columns must each occur in an object of the first 64 KiB.
    """
    try:
        stream.decode(options.encoding)
        head = stream.peek_until(_has_object)
        objects = list(_objects(head))
        names = list(dict.fromkeys(name for fields in objects for name in fields))
        declared = [column.source for column in schema.columns if isinstance(column.source, str)]
        names += [name for name in dict.fromkeys(declared) if name not in names and objects]
        if not objects and not head.strip():
            stream.close()
            return Layout(stream.label, ("",), (0,), ("time",), False), no_pieces()
        if not objects:
            raise DataError(
                f"{stream.label}, row 0: found {head[:40].splitlines()[0]!r}, expected JSON lines: one object "
                "on each line; fix the file, or give its --format"
            )
        layout = resolve(schema, names, stream.label)
    except BaseException:
        stream.close()
        raise
    types = [
        _kind_of_times([fields.get(names[number]) for fields in objects]) if k in layout.time_columns else KINDS[dtype]
        for k, (number, dtype) in enumerate(zip(layout.numbers, layout.dtypes, strict=True))
    ]
    parser = _Parser(layout, types)

    def work(block: Block) -> Piece:
        return with_times(parser.parse(block), layout, schema)

    return layout, work_through(stream, blocks(stream, _LineCutter()), work)


def _kind_of_times(values: Sequence[Any]) -> Any:
    """Return the type of a column of times, given its first values: int64 or string."""
    known = [value for value in values if value is not None]
    return KINDS["int64" if known and 2 * sum(isinstance(value, str) for value in known) <= len(known) else "string"]


def _has_object(head: bytes) -> bool:
    """Return whether the complete lines hold an object, or are `HEAD` bytes without one, so not JSON lines."""
    lines = head[: head.rfind(b"\n") + 1]
    return any(True for _ in _objects(lines)) or (len(head) >= HEAD and bool(lines.strip()))


def _objects(head: bytes) -> Iterator[dict[str, Any]]:
    for line in head.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


class _Parser:
    """Parses blocks to pieces. Thread-safe."""

    def __init__(self, layout: Layout, types: list[Any]) -> None:
        self._layout, self._types = layout, types
        self._names = [layout.names[number] for number in layout.numbers]
        self._schema = pa.schema(list(zip(self._names, types, strict=True)))
        floats = [name for name, kind in zip(self._names, types, strict=True) if kind == pa.float64()]
        keys = b"|".join(re.escape(json.dumps(name, ensure_ascii=False).encode()) for name in floats)
        self._nonfinite = re.compile(rb'(?<!\\)((?:%s)[ \t]*:[ \t]*)"(%s)"' % (keys, "|".join(NONFINITE).encode()))
        self._has_floats = bool(floats)

    def parse(self, block: Block) -> Piece:
        """Parse a block on the fast path; on the slow path, line by line, if that finds an error."""
        data = block.data
        try:
            data.decode()
            if not data.lstrip(SPACE).startswith(b"null") and not NULL.search(data):
                table = self._read(self._unquoted_nonfinite(data))
                lines = data.count(b"\n") + (not data.endswith(b"\n"))
                if table.num_rows == lines or table.num_rows == sum(1 for line in data.split(b"\n") if line.strip()):
                    return self._piece(table)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            pass
        return self._parsed_by_line([line for line in data.split(b"\n") if line.strip()])

    def _unquoted_nonfinite(self, data: bytes) -> bytes:
        """Remove the quotes of non-finite numbers after keys of float64 columns.

        No string is changed by mistake: a key inside a string has escaped quotes, which do not match.
        """
        if self._has_floats and (b'NaN"' in data or b'Infinity"' in data):
            return self._nonfinite.sub(rb"\1\2", data)
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
        return Piece(self._layout.batch(arrays, table.num_rows), bad)

    def _parsed_by_line(self, lines: list[bytes]) -> Piece:
        """Parse lines on the slow path, which finds all bad rows."""
        valid: list[bytes] = []
        bad: list[BadRow] = []
        for row, line in enumerate(lines):
            try:
                valid.append(self._checked(line))
            except _Bad as fault:
                bad.append(self._bad(row, line, *fault.args))
        rows = np.delete(np.arange(len(lines)), [fault.row for fault in bad]).tolist()
        tables: list[pa.Table] = []
        for index, reason in self._unreadable(valid, tables, 0):
            bad.append(self._bad(rows[index], valid[index], None, reason, "a JSON object"))
        table = pa.concat_tables(tables) if tables else self._schema.empty_table()
        return self._piece(table, tuple(sorted(bad, key=lambda fault: fault.row)))

    def _unreadable(self, lines: list[bytes], tables: list[pa.Table], start: int) -> Iterator[tuple[int, str]]:
        """Read lines into tables. Yield the index, counted from `start`, of each line that Arrow rejects, and why."""
        if not lines:
            return
        try:
            tables.append(self._read(b"\n".join(lines) + b"\n"))
        except pa.ArrowInvalid as error:
            if len(lines) == 1:
                yield start, f"a line that cannot be read ({error})"
                return
            middle = len(lines) // 2
            yield from self._unreadable(lines[:middle], tables, start)
            yield from self._unreadable(lines[middle:], tables, start + middle)

    def _checked(self, line: bytes) -> bytes:
        """Return a line that Arrow can read; raise `_Bad` if it is invalid."""
        try:
            fields = json.loads(line.decode(), object_pairs_hook=self._object, parse_float=_float_or_decimal)
        except UnicodeDecodeError as error:
            raise _Bad(None, f"byte {line[error.start]:#x} at {error.start}", "UTF-8 text") from None
        except json.JSONDecodeError as error:
            found = f"invalid JSON ({error.msg} at character {error.pos})"
            raise _Bad(None, found, "one JSON object on a line") from None
        except RecursionError:
            raise _Bad(None, "objects nested too deeply", "one JSON object on a line") from None
        if not isinstance(fields, dict):
            raise _Bad(None, _as_text(fields), "one JSON object on a line")
        if duplicates := fields.get(_DUPLICATES):
            name = next((name for name in self._names if name in duplicates), None)
            if name is not None:
                raise _Bad(name, "the field twice", "one value")
        nonfinite: dict[str, float] = {}
        for name, kind in zip(self._names, self._types, strict=True):
            value = fields.get(name)
            if kind == pa.float64() and isinstance(value, str) and value in NONFINITE:
                nonfinite[name] = float(value)
            elif value is not None and not _fits(value, kind):
                raise _Bad(name, _as_text(value), str(kind).replace("double", "float64"))
        if nonfinite:
            return json.dumps({name: fields.get(name) for name in self._names} | nonfinite).encode()
        return line

    @staticmethod
    def _object(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
        """Return the fields of an object; the key `_DUPLICATES` holds the names that occur more than once."""
        fields: dict[Any, Any] = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            fields[_DUPLICATES] = {name for name in names if names.count(name) > 1}
        return fields

    def _bad(self, row: int, line: bytes, column: str | None, found: str, expected: str) -> BadRow:
        remedy = "fix the line" if column is None else value_remedy(found, expected) + ":"
        if line.strip()[:1] == b"[":
            remedy = "write one object on each line, without [ ] around them:"
        raw = line.decode("utf-8", "backslashreplace").strip()
        return BadRow(self._layout.label, row, column, found, expected, remedy, raw=raw)


_DUPLICATES = object()


def _float_or_decimal(text: str) -> float | Decimal:
    """Parse a number with a point or an exponent. A number too large for float64 becomes a Decimal, not infinite."""
    value = float(text)
    return value if isfinite(value) else Decimal(text)


def _as_text(value: object) -> str:
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
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST)
