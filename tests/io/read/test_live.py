"""Live standard input, through a pipe between two threads of the test."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import Schema
from fastcep.io import Live, open_source

SCHEMA = Schema({"A": {"text": "string", "n": "int64"}}, time="ts")
HEAD = b"ts,text,n\n"


class Pipe:
    """Standard input of the test, connected to the writing end ``end``."""

    def __init__(self) -> None:
        self.number, self.end = os.pipe()

    def fileno(self) -> int:
        return self.number

    def write(self, data: bytes) -> None:
        os.write(self.end, data)

    def close(self) -> None:
        os.close(self.end)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    stdin = Pipe()
    monkeypatch.setattr(sys, "stdin", stdin)
    yield stdin
    os.close(stdin.number)


def rows(data: bytes, pipe: Pipe, schema: Schema = SCHEMA, **options: Any) -> list[list[Any]]:
    """Write data at once; return the batches that are read, as lists of rows."""
    writer = threading.Thread(target=lambda: (pipe.write(data), pipe.close()))
    writer.start()
    live = Live(60.0, lambda: None)
    try:
        with open_source("-", schema, live=live, **options) as source:
            return [[tuple(row.values()) for row in batch.to_pylist()] for batch in source]
    finally:
        writer.join()


def test_each_silence_gives_all_complete_rows(pipe: Pipe) -> None:
    """``on_quiet`` writes the next text, so that it cannot arrive before the previous batch was returned."""
    seen: list[Any] = []
    states: list[int] = []
    texts = [b"ts,te", b"xt,n\n", b"1,x,1", b"\n2,y,2\n3,\"one\n", b"two\",3\n", b"\n", b"4,z,4"]  # fmt: skip

    def on_quiet() -> None:
        states.append(len(seen))
        if texts:
            pipe.write(texts.pop(0))
        else:
            pipe.close()

    for batch in open_source("-", SCHEMA, live=Live(0.001, on_quiet)):
        seen += batch.to_pylist()
    assert [(row["text"], row["n"]) for row in seen] == [("x", 1), ("y", 2), ("one\ntwo", 3), ("z", 4)]
    assert states == [0, 0, 0, 0, 2, 3, 3, 3]


def test_large_input_is_cut_into_batches(pipe: Pipe) -> None:
    lines = b"".join(b"%d,text %d,%d\n" % (k, k, k) for k in range(100_000))
    batches = rows(HEAD + lines, pipe, chunk_rows=1_000)
    assert max(map(len, batches)) == 1_000
    assert [row for batch in batches for row in batch] == [(k, f"text {k}", k) for k in range(100_000)]


def test_no_header_and_textual_times(pipe: Pipe) -> None:
    schema = Schema({"A": {"n": "int64"}}, time=0, header=False, sources={"A": {"n": 1}})
    (batch,) = rows(b"1970-01-01 00:00:01,5\n1970-01-01 00:00:02,6\n", pipe, schema)
    assert [(row[0].timestamp(), row[1]) for row in batch] == [(1, 5), (2, 6)]


def test_empty_input(pipe: Pipe) -> None:
    with pytest.raises(DataError, match="standard input: is empty, expected a line with the column names"):
        rows(b"", pipe)


def test_empty_input_without_header(pipe: Pipe) -> None:
    assert rows(b"", pipe, Schema({"A": {}}, time=0, header=False)) == []


def test_only_a_header(pipe: Pipe) -> None:
    assert rows(HEAD, pipe) == []


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"ts,n\n1,1\n", SchemaError, "standard input: no column 'text'"),
        (HEAD + b"1,x,1\n2,y,z\n", DataError, "standard input, line 3, row 1, column 'n': found 'z', expected int64"),
        (HEAD + b"1,x\n", DataError, "standard input, line 2, row 0: found 2 fields, expected 3"),
        (b"ts,text,n\nnoon,x,1\n", DataError, "standard input, line 2, row 0, column 'ts': found 'noon'"),
        (b"\xff\n", DataError, "the column names are not UTF-8"),
    ],
)
def test_bad_input(pipe: Pipe, data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rows(data, pipe)


def test_an_open_quote_does_not_fill_the_memory(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcep.io.read.streams.LONGEST_ROW", 1_000)
    with pytest.raises(DataError, match="row 0: found a quote that is never closed"):
        rows(HEAD + b'1,"x,1\n' + b"2,y,2\n" * 500, pipe)


def test_the_first_row_does_not_wait_for_a_second(pipe: Pipe) -> None:
    schema = Schema({"A": {"n": "int64"}}, time=0, header=False, sources={"A": {"n": 1}})
    inputs = {b"1,5\n": schema, HEAD + b"1,x,5\n": SCHEMA, b'{"ts": 1, "text": "x", "n": 5}\n': SCHEMA}
    for data, input_schema in inputs.items():
        pipe.write(data)
        source = open_source("-", input_schema, live=Live(60.0, lambda: None))
        assert next(source).column("n" if input_schema is SCHEMA else 1).to_pylist() == [5]


def test_half_a_row_does_not_decide_the_type_of_the_time(pipe: Pipe) -> None:
    texts = [b"-05-01 10:00,y,2\n"]

    def on_quiet() -> None:
        pipe.write(texts.pop()) if texts else pipe.close()

    pipe.write(HEAD + b"2024-05-01 09:00,x,1\n2024")
    result = [row for batch in open_source("-", SCHEMA, live=Live(0.001, on_quiet)) for row in batch.to_pylist()]
    assert [(row["ts"].hour, row["n"]) for row in result] == [(9, 1), (10, 2)]


def test_bad_rows_and_encodings(pipe: Pipe, tmp_path: Path) -> None:
    data = "ts;text;n\n1;é;1\n2;y;z\n3;é;3\n".encode("utf-16")
    bad = tmp_path / "bad.jsonl"
    batches = rows(data, pipe, format="csv", delimiter=";", encoding="utf-16", bad_rows=bad)
    assert [row for batch in batches for row in batch] == [(1, "é", 1), (3, "é", 3)]
    assert [json.loads(line)["row"] for line in bad.read_text().splitlines()] == [1]


def test_an_arrow_stream_comes_batch_by_batch(pipe: Pipe) -> None:
    sink = io.BytesIO()
    batch = pa.record_batch({"ts": [1], "text": ["x"], "n": [1]})
    ends = []
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(3):
            writer.write_batch(batch)
            ends.append(sink.tell())
    data, seen, states = sink.getvalue(), 0, []
    steps = [data[: ends[0]], data[ends[0] : ends[0] + 5], data[ends[0] + 5 : ends[1]], data[ends[1] :]]

    def on_quiet() -> None:
        states.append(seen)
        pipe.write(steps.pop(0)) if steps else pipe.close()

    for read_batch in open_source("-", SCHEMA, live=Live(0.001, on_quiet)):
        seen += read_batch.num_rows
    assert seen == 3
    assert states == [0, 1, 1, 2]


def test_only_standard_input_can_be_live(pipe: Pipe, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_bytes(HEAD + b"1,x,1\n")
    live = Live(1.0, lambda: None)
    for data in (tmp_path / "e.csv", ["-", tmp_path / "e.csv"], {"ts": [1], "text": ["x"], "n": [1]}):
        with pytest.raises(ValidationError, match="live is for standard input alone"):
            open_source(data, SCHEMA, live=live)
    with pytest.raises(ValidationError, match="live and sort exclude each other"):
        open_source("-", SCHEMA, live=live, sort=True)


def test_json_lines(pipe: Pipe) -> None:
    (batch,) = rows(b'{"ts": 1, "text": "x", "n": 1}\n{"ts": 2, "n": 2}\n', pipe)
    assert [set(row) for row in batch] == [{1, "x"}, {2, None}]


def test_compressed_input_cannot_be_live(pipe: Pipe) -> None:
    with pytest.raises(ValidationError, match="cannot be read live: it is compressed"):
        rows(gzip.compress(HEAD), pipe)


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValidationError, match="cannot be read live"):
        open_source("-", SCHEMA, live=Live(1, lambda: None))


def test_compressed_input_without_a_callback(pipe: Pipe) -> None:
    writer = threading.Thread(target=lambda: (pipe.write(gzip.compress(HEAD + b"1,x,2\n")), pipe.close()))
    writer.start()
    with open_source("-", SCHEMA, live=Live()) as source:
        assert [batch.to_pylist() for batch in source] == [[{"ts": 1, "text": "x", "n": 2}]]
    writer.join()
