"""Kinds of bad input: the content of a file, and the output of a run.

``PYTHONPATH=.:tests python -m support.doc_tables.bad_input`` writes the table of them into docs/input.md.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from support import tables
from support.pages import with_table

PAGE = Path(__file__).resolve().parents[3] / "docs/input.md"
START, END = "<!-- bad input: made by tests/support/doc_tables/bad_input.py -->\n", "<!-- end -->\n"

EVENTS = "EVENT A (id int64, w float64, ok bool, name string)\nEVENT B (id int64)"
QUERY = "QUERY q PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 1000s"
SECONDS = "STREAM TIME 'ts' UNIT s TYPE 'kind'"
NUMBERED = SECONDS + " SEQUENCE 'w'"
DAYS = "STREAM TIME 'ts' TYPE 'kind'"
FORMAT = "STREAM TIME 'ts' FORMAT '%d/%m/%Y' TYPE 'kind'"

# A pair before row 2, which is the bad one, and two after it.
PAIRS = [("A", 1, 1), ("B", 2, 1), ("A", 4, 2), ("B", 5, 2), ("A", 6, 3), ("B", 7, 3)]


@dataclass(frozen=True)
class Case:
    """A kind of bad input.

    Attributes
    ----------
    title, name
        Description, and name of the file.
    data
        The bytes of the file, a function that makes them, or None for no file.
    message
        The error message after the name of the file.
    bad
        Number of rows written to ``--bad-rows``; None if it is an error even then.
    matches
        Number of matches before the error.
    taken
        Number of matches with ``--bad-rows``.
    stream
        The STREAM line.
    """

    title: str
    name: str
    data: bytes | Callable[[], bytes] | None
    message: str
    bad: int | None = 1
    matches: int = 1
    taken: int = 3
    stream: str = SECONDS


def csv(row: bytes, head: bytes = b"kind,ts,id,w,ok,name", time: str = "%d") -> bytes:
    lines = [f"{kind},{time % ts},{key},{ts},,".encode() for kind, ts, key in PAIRS]
    return b"\n".join([head, *lines[:2], row, *lines[2:], b""])


def rows(**bad: Any) -> list[dict[str, Any]]:
    good = [{"kind": kind, "ts": ts, "id": key, "w": None, "ok": None, "name": None} for kind, ts, key in PAIRS]
    return [*good[:2], {**good[0], "ts": 3, "id": 9, **bad}, *good[2:]]


def jsonl(line: bytes) -> bytes:
    lines = [json.dumps(row).encode() for row in rows()]
    return b"\n".join([*lines[:2], line, *lines[3:], b""])


TYPES = {"kind": pa.string(), "ts": pa.int64(), "id": pa.int64(), "w": pa.float64(), "ok": pa.bool_(),
         "name": pa.string()}  # fmt: skip


def table(kinds: dict[str, Any] | None = None, **bad: Any) -> pa.Table:
    types = {**TYPES, **(kinds or {})}
    return pa.Table.from_pylist([{k: row[k] for k in types} for row in rows(**bad)], pa.schema(types))


def parquet(data: pa.Table, **options: Any) -> bytes:
    return tables.parquet(data, 3, **options)


def arrow(data: pa.Table) -> bytes:
    return tables.arrow_stream(data, 3)


def not_utf8() -> pa.Table:
    names = pa.array([b"x", b"y", b"\xe8", b"x", b"y", b"x", b"y"], pa.binary())
    return table().set_column(5, "name", pa.Array.from_buffers(pa.string(), len(names), names.buffers()))


def flipped() -> bytes:
    """Return a Parquet file with a damaged page in its second row group."""
    data = parquet(table(), write_page_checksum=True, compression="none", use_dictionary=False)
    at = data.index((4).to_bytes(8, "little") + (5).to_bytes(8, "little"))
    return data[:at] + b"\x55" + data[at + 1 :]


def long() -> bytes:
    text = b"".join(b"A,%d,%d,,,\n" % (10 + k, k * 7919 % 10007) for k in range(30_000))
    return csv(b"A,3,9,,,") + text


def share(data: bytes, part: float) -> bytes:
    return data[: int(len(data) * part)]


CASES = [
    # ------------------------------------------------------------------ values of CSV
    Case("a text where a number is declared", "e.csv", csv(b"A,3,nine,,,"),
         "row 2, column 'id': found 'nine', expected int64; fix the value"),
    Case("a number with a fraction for int64", "e.csv", csv(b"A,3,1.5,,,"),
         "row 2, column 'id': found '1.5', expected int64"),
    Case("a number beyond int64", "e.csv", csv(b"A,3,9223372036854775808,,,"),
         "row 2, column 'id': found '9223372036854775808', expected int64"),
    Case("a text for float64", "e.csv", csv(b"A,3,9,1;5,,"), "row 2, column 'w': found '1;5', expected float64"),
    Case("a number beyond float64", "e.csv", csv(b"A,3,9,1e400,,"),
         "row 2, column 'w': found '1e400', expected float64"),
    Case("a word for bool", "e.csv", csv(b"A,3,9,,maybe,"), "row 2, column 'ok': found 'maybe', expected bool"),
    Case("a text that is not UTF-8", "e.csv", csv(b"A,3,9,,,caf\xe9"),
         r"row 2, column 'name': found 'caf\\xe9', expected UTF-8 text"),
    Case("too many fields", "e.csv", csv(b"A,3,9,,,x,y"),
         "row 2: found 7 fields, expected 6; fix the row, or put a field with a delimiter in double quotes: "
         "'A,3,9,,,x,y'"),
    Case("too few fields", "e.csv", csv(b"A,3"), "row 2: found 2 fields, expected 6"),
    Case("a quote that is never closed", "e.csv", csv(b'A,3,9,,,"open'), "row 2: found a quote that is never closed"),
    Case("the same in a file compressed by gzip", "e.csv.gz", gzip.compress(csv(b"A,3,nine,,,")),
         "row 2, column 'id': found 'nine', expected int64"),
    # ------------------------------------------------------------------ time, type, sequence
    Case("no time", "e.csv", csv(b"A,,9,,,"), "row 2, column 'ts': found null, expected a time"),
    Case("a text where the time is a number", "e.csv", csv(b"A,soon,9,,,"),
         "row 2, column 'ts': found 'soon', expected int64"),
    Case("a time that does not fit int64 nanoseconds", "e.csv", csv(b"A,9999999999999,9,,,"),
         "row 2, column 'ts': found time 9999999999999 s, expected one that fits int64 nanoseconds; give the schema "
         "the unit of these times"),
    Case("a day that does not exist", "e.csv", csv(b"A,2020-02-30,9,,,", time="2020-02-%02d"),
         "row 2, column 'ts': found '2020-02-30', expected an ISO 8601 time", stream=DAYS),
    Case("a time after the year 2261", "e.csv", csv(b"A,3000-01-01,9,,,", time="2020-02-%02d"),
         "row 2, column 'ts': found '3000-01-01', expected an ISO 8601 time from 1677 to 2262", stream=DAYS),
    Case("a time of another format", "e.csv", csv(b"A,2020-02-03,9,,,", time="%02d/02/2020"),
         "row 2, column 'ts': found '2020-02-03', expected a time of the format", stream=FORMAT),
    Case("time running backwards", "e.csv", csv(b"A,0,9,,,"), "row 2, column 'ts': time 0 ns is before 2000000000 ns"),
    Case("no type", "e.csv", csv(b",3,9,,,"), "row 2, column 'kind': found null, expected an event type"),
    Case("an undeclared type", "e.csv", csv(b"C,3,9,,,"),
         "row 2, column 'kind': found undeclared event type 'C', expected a declared one; declare it"),
    Case("no sequence number", "e.csv", csv(b"A,3,9,,,").replace(b"id,w", b"id,n"),
         "row 2, column 'n': found null, expected a sequence number", stream=SECONDS + " SEQUENCE 'n'"),
    Case("a sequence number that does not ascend", "e.csv", csv(b"A,3,9,2,,").replace(b"id,w", b"id,n"),
         "row 2, column 'n': found 2, expected a sequence number greater than 2", stream=SECONDS + " SEQUENCE 'n'"),
    Case("a null key: no error, it joins nothing", "e.csv", csv(b"A,3,,,,"), "", bad=0, matches=3),
    # ------------------------------------------------------------------ JSON lines
    Case("a line that is not JSON", "e.jsonl", jsonl(b"A,3,9"),
         "row 2: found invalid JSON (Expecting value at character 0)"),
    Case("an object that is cut off", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3'),
         "row 2: found invalid JSON (Expecting ',' delimiter"),
    Case("a line that is no object", "e.jsonl", jsonl(b'["A", 3]'), 'row 2: found ["A", 3], expected one JSON object'),
    Case("the line null", "e.jsonl", jsonl(b"null"), "row 2: found null, expected one JSON object on a line"),
    Case("two objects on a line", "e.jsonl", jsonl(b'{"kind": "A"} {}'),
         "row 2: found invalid JSON (Extra data at character 14)"),
    Case("a text for a number", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "id": "9"}'),
         "row 2, column 'id': found \"9\", expected int64"),
    Case("a number for a text", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "name": 9}'),
         "row 2, column 'name': found 9, expected string"),
    Case("a fraction for int64", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "id": 9.0}'),
         "row 2, column 'id': found 9.0, expected int64"),
    Case("a number beyond int64", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "id": 9223372036854775808}'),
         "row 2, column 'id': found 9223372036854775808, expected int64"),
    Case("a number beyond float64", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "w": -1e400}'),
         "row 2, column 'w': found -1E+400, expected float64"),
    Case("an object for a number", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "id": {"n": 9}}'),
         "row 2, column 'id': found {\"n\": 9}, expected int64"),
    Case("a field twice", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "id": 9, "id": 8}'),
         "row 2, column 'id': found the field twice, expected one value"),
    Case("an object without the time", "e.jsonl", jsonl(b'{"kind": "A", "id": 9}'),
         "row 2, column 'ts': found null, expected a time"),
    Case("a line that is not UTF-8", "e.jsonl", jsonl(b'{"kind": "A", "ts": 3, "name": "caf\xe9"}'),
         "row 2: found byte 0xe9 at 35, expected UTF-8 text"),
    Case("a JSON document instead of JSON lines", "e.json", b'[\n {"kind": "A", "ts": 1}\n]\n',
         "expected a name that ends",
         bad=None, matches=0),
    Case("the same, called JSON lines", "e.jsonl", b'[\n {"kind": "A", "ts": 1}\n]\n',
         "row 0: found invalid JSON (Expecting value at character 1)",
         matches=0, bad=2, taken=0),
    # ------------------------------------------------------------------ Parquet and Arrow
    Case("a null time", "e.parquet", parquet(table(ts=None)), "row 2, column 'ts': found null, expected a time"),
    Case("an undeclared type", "e.parquet", parquet(table(kind="AA")),
         "row 2, column 'kind': found undeclared event type 'AA'"),
    Case("a text that is no time", "e.parquet",
         parquet(table().set_column(1, "ts", pa.array([f"2020-01-{day}" for day in ("01", "02", "x", "04", "05",
         "06", "07")]))),
         "row 2, column 'ts': found '2020-01-x', expected an ISO 8601 time", stream=DAYS),
    Case("uint64 beyond int64", "e.arrow", arrow(table({"id": pa.uint64()}, id=2**63)),
         "row 2, column 'id': found 9223372036854775808, expected at most 9223372036854775807"),
    Case("a decimal with a fraction for int64",
         "e.parquet", parquet(table({"id": pa.decimal128(20, 2)}, id=Decimal("1.50"))),
         "row 2, column 'id': found 1.50, expected a whole number"),
    Case("a text that is not UTF-8", "e.parquet", parquet(not_utf8()),
         r"row 2, column 'name': found '\\xe8', expected UTF-8"),
    Case("a column of another type", "e.parquet", parquet(table().set_column(2, "id", pa.array(["1"] * 7))),
         "column 'id': found string, expected int64; declare the attribute string, or cast", bad=None, matches=0),
    Case("a Parquet file without its end", "e.parquet", share(parquet(table()), 0.7), "cannot be read after 0 rows",
         bad=None, matches=0),
    Case("a damaged page in Parquet", "e.parquet", flipped, "cannot be read after 3 rows", bad=None),
    Case("a file that is no Parquet", "e.parquet", csv(b"A,3,9,,,"), "cannot be read after 0 rows", bad=None,
         matches=0),
    Case("an Arrow stream cut off", "e.arrows", share(arrow(table()), 0.75), "cannot be read after 3 rows", bad=None),
    # ------------------------------------------------------------------ files and columns
    Case("gzip cut off", "e.csv.gz", lambda: share(gzip.compress(long()), 0.7), "cannot be read after",
         bad=None, matches=3),
    Case("zstd cut off", "e.csv.zst", lambda: share(pa.compress(long(), codec="zstd", asbytes=True), 0.7),
         "cannot be read after",
         bad=None, matches=3),
    Case("gzip by its name only", "e.csv.gz", csv(b"A,3,9,,,"), "expected gzip data by its name, found b'kind'",
         bad=None, matches=0),
    Case("a missing column", "e.csv", csv(b"A,3,9,,,").replace(b"id", b"idd"),
         "no column 'id' for A.id; did you mean 'idd'?", bad=None, matches=0),
    Case("a missing column of JSON lines", "e.jsonl", jsonl(b"{}").replace(b'"ts"', b'"tss"'),
         "no column 'ts' for the time; did you mean 'tss'?", bad=None, matches=0),
    Case("a column that is there twice", "e.csv", csv(b"A,3,9,,,").replace(b"name", b"id"),
         "2 columns are called 'id' (A.id)", bad=None, matches=0),
    Case("an empty file that should have a header", "e.csv", b"", "is empty, expected a line with the column names",
         bad=None, matches=0),
    Case("no such file", "e.csv", None, "no such file; check the path", bad=None, matches=0),
    Case("an unknown ending", "e.xlsx", csv(b"A,3,9,,,"), "expected a name that ends in .csv", bad=None, matches=0),
]  # fmt: skip


def markdown() -> str:
    """Return the table of the cases."""
    lines = ["| input | file | error | with `--bad-rows` |", "|---|---|---|---|"]
    for case in CASES:
        counted = f"{case.bad} row{'s' if case.bad != 1 else ''} there"
        fate = {None: "the same error", 0: "nothing"}.get(case.bad, counted)
        message = f"`{case.message}`" if case.message else "none"
        lines.append(f"| {case.title} | `{case.name}` | {message.replace('|', chr(92) + '|')} | {fate} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the current table."""
    return with_table(PAGE, START, markdown(), END)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
