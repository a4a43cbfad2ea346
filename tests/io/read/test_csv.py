"""CSV and JSON lines: the fast and the slow path accept the same values; ends of rows."""

from __future__ import annotations

import csv
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.io import open_source
from fastcep.io.read import streams
from fastcep.io.read.csv import QuoteCutter
from fastcep.io.read.streams import Block, blocks

SCHEMA = Schema({"T": {"n": "int64", "x": "float64", "ok": "bool", "s": "string"}})
NUMBER = st.sampled_from(
    ["1", " 7", "7 ", "\t7", "-0", "+5", "0x1F", "1e3", "1.5", "", " ", "nan", "inf", "-Infinity", "1e400", "1_0", "é",
     "9223372036854775807", "9223372036854775808", "-9223372036854775808", "00012", "1 2", "x", "\u00a05", "1."]
) | st.text("0123456789+-.eExX_ ", max_size=6)  # fmt: skip
WORD = st.sampled_from(["true", "True", "TRUE", "1", "false", "0", " true", "yes", "tRue", "", "2"])


def read(monkeypatch: pytest.MonkeyPatch, data: bytes, bad: Path | None = None, **options: Any) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": io.BytesIO(data)}))
    with open_source("-", SCHEMA, bad_rows=bad, ordered=False, **options) as source:
        return [row for batch in source for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad") / "bad.jsonl"


@given(st.lists(st.tuples(NUMBER, NUMBER, WORD, st.text("ab", max_size=2)), min_size=1, max_size=8))
def test_both_paths_accept_the_same_values(bad: Path, rows: list[tuple[str, ...]]) -> None:
    """A valid row alone takes the fast path; in a block with a bad row it takes the slow path."""
    with pytest.MonkeyPatch.context() as patch:
        alone: list[dict[str, Any]] = []
        lines = []
        for time, row in enumerate(rows):
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerow([time, *row])
            lines.append(out.getvalue().encode())
            try:
                alone += read(patch, b"ts,n,x,ok,s\n" + lines[-1], format="csv")
            except DataError:
                continue
        together = read(patch, b"ts,n,x,ok,s\n" + b"".join(lines) + b"99,bad,,,\n", bad, format="csv")
        assert repr(together) == repr(alone)  # repr: NaN is not equal to itself
    bad_rows = [json.loads(line) for line in bad.read_text(encoding="utf-8").splitlines()]
    assert len(bad_rows) == len(rows) - len(alone) + 1
    assert [row["row"] for row in bad_rows] == sorted({row["row"] for row in bad_rows})


def test_errors_name_the_line_as_an_editor_counts(tmp_path: Path, bad: Path) -> None:
    """Line ends in quotes, empty lines and the header count, for errors of the reader and of the engine."""
    path = tmp_path / "lines.csv"
    text = 'ts,n,s\n1,1,"two\nlines"\n\n2,x,b\r\n3,3,"c\n\n"\n4\n2,4,d\n'
    path.write_text(text, newline="")
    schema = fc.Schema({"E": {"n": "int64", "s": "string"}}, time="ts", type=None, time_unit="s")
    numbers = dict(enumerate(text.split("\n"), 1))
    assert (numbers[5], numbers[9]) == ("2,x,b\r", "4")
    with pytest.raises(DataError, match=r"lines\.csv, line 5, row 1, column 'n': found 'x'"):
        list(open_source(path, schema))
    with open_source(path, schema, bad_rows=bad) as source:
        assert sum(batch.num_rows for batch in source) == 2
    bad_rows = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [(row["line"], row["row"]) for row in bad_rows] == [(5, 1), (9, 3), (10, 4)]
    path.write_text(text.replace("x", "7").replace("\n4\n", "\n"), newline="")
    engine = fc.Engine(fc.parse("PATTERN SEQ(E a, E b) WITHIN 9s", schema))
    with open_source(path, schema) as source, pytest.raises(DataError, match=r"lines\.csv, line 9, row 3, column 'ts'"):
        for batch in source:
            engine.process(batch, origin=source.origin, rows=source.rows)


FIELD = st.text('a",\n;', max_size=5)


@given(st.lists(st.lists(FIELD, min_size=2, max_size=3), max_size=6), st.booleans())
def test_rows_end_outside_of_quotes(rows: list[list[str]], quote_all: bool) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL, lineterminator="\n")
    ends = []
    for row in rows:
        writer.writerow(row)
        ends.append(len(out.getvalue()))
    data = out.getvalue().encode()
    cutter = QuoteCutter(",")
    for size in range(len(data) + 1):
        expected = max((end for end in ends if end <= size), default=0)
        assert cutter.cut(data[:size]) == expected


def test_quotes_inside_of_fields_are_characters() -> None:
    cutter = QuoteCutter(",")
    data = b'1,5" pipe\n2,x\n3,"a\nb"\n4,"c'
    assert cutter.cut(data) == data.index(b"4")
    assert cutter.unclosed(data) == data.index(b"4")
    assert cutter.unclosed(data[:-2]) is None
    with_returns = b'1,"a\rb"\r2,x\r3,"c\rd'
    assert cutter.cut(with_returns) == with_returns.index(b"3")


class Pieces:
    """A stream that returns these pieces."""

    prompt = False

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)
        self.closed = False

    def read(self, size: int) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    def close(self) -> None:
        self.closed = True


def test_an_open_quote_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 8)
    monkeypatch.setattr(streams, "LONGEST_ROW", 40)
    stream: Any = Pieces(b'1,a\n2,"b\n', *(b"%d,c\n" % k for k in range(3, 30)))
    result = list(blocks(stream, QuoteCutter(",")))
    assert [block for block in result if block.fault] == [Block(b'2,"b\n', "a quote that is never closed", 2)]
    assert b"".join(block.data for block in result) == b'1,a\n2,"b\n' + b"".join(b"%d,c\n" % k for k in range(3, 30))
    assert stream.closed
    with pytest.raises(pa.ArrowInvalid, match="a row is longer than"):
        list(blocks(Pieces(*[b"xxxxxxxx"] * 9), QuoteCutter(",")))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", [b",\n", b"x,1\n", b'"",\n'])
def test_rows_after_an_open_quote_come_in_small_blocks(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    """One block of 16 MB could hold millions of bad rows, each with an error of some hundred bytes."""
    monkeypatch.setattr(streams, "BLOCK", 64)
    monkeypatch.setattr(streams, "LONGEST_ROW", 4096)
    data = b'1,a\n2,"b\n' + line * 3001
    stream: Any = Pieces(*(data[start : start + 64] for start in range(0, len(data), 64)))
    result = list(blocks(stream, QuoteCutter(",")))
    assert b"".join(block.data for block in result) == data
    assert max(len(block.data) for block in result if block.fault is None) <= 64
    assert any(block.fault for block in result)


@pytest.mark.thorough
def test_many_bad_rows_need_little_memory(tmp_path: Path, bad: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_bytes(b"ts,n,x,ok,s\n" + b",\n" * 100_000)
    tracemalloc.start()
    try:
        with open_source(path, SCHEMA, bad_rows=bad) as source:
            assert sum(batch.num_rows for batch in source) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert source.bad_rows == 100_000
    assert peak < 300 * 100_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("nx"), inner, max_size=2),
    max_leaves=3,
)
FIELDS = dict.fromkeys(["n", "x", "ok", "s", "other"], JSON)
LINE = st.fixed_dictionaries({"ts": st.integers(0, 9)}, optional=FIELDS) | JSON


@given(st.lists(LINE, min_size=1, max_size=8))
def test_both_paths_accept_the_same_lines(bad: Path, values: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        good = b'{"ts": 1, "n": 1, "x": 1, "ok": true, "s": "x"}\n'
        lines = [json.dumps(value).encode() + b"\n" for value in values]
        alone: list[dict[str, Any]] = []
        for line in lines:
            try:
                alone += read(patch, good + line, format="jsonl")[1:]
            except DataError:
                continue
        together = read(patch, good + b"".join(lines) + b"no JSON\n", bad, format="jsonl")[1:]
        # A row whose only fault is a missing time is rejected later, by the engine.
        assert repr(together) == repr([row for row in alone if row["ts"] is not None])


def test_a_header_with_an_open_quote(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_text('ts,"n\n' + "1,7\n" * 50_000)
    with pytest.raises(DataError, match="the line with the column names does not end, expected a line end"):
        open_source(path, SCHEMA)


def test_a_header_of_many_columns(tmp_path: Path) -> None:
    names = [f"column number {k}" for k in range(20_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join([*names, "ts", "n"]) + "\n" + ",".join(["x"] * len(names) + ["1", "7"]) + "\n")
    schema = Schema({"T": {"n": "int64"}})
    with open_source(path, schema) as source:
        assert next(source).to_pydict() == {"ts": [1], "n": [7]}
