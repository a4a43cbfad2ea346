"""Standard input as it comes: a pipe between two threads of the test."""

from __future__ import annotations

import gzip
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import Schema
from fastcep.io import Live, open_source

SCHEMA = Schema({"A": {"text": "string", "n": "int64"}}, time="ts")
HEAD = b"ts,text,n\n"


class Pipe:
    """Standard input of the test; what is written to ``end`` comes out."""

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
    one = Pipe()
    monkeypatch.setattr(sys, "stdin", one)
    yield one
    os.close(one.number)


def rows(data: bytes, pipe: Pipe, schema: Schema = SCHEMA, **options: Any) -> list[list[Any]]:
    """Batches of what is written at once, as lists of rows."""
    writer = threading.Thread(target=lambda: (pipe.write(data), pipe.close()))
    writer.start()
    live = Live(60.0, lambda: None)
    try:
        source = open_source("-", schema, live=live, **options)
        return [[tuple(row.values()) for row in batch.to_pylist()] for batch in source]
    finally:
        writer.join()


def test_each_silence_gives_all_complete_rows(pipe: Pipe) -> None:
    """The next text is written by ``on_quiet``, so that it cannot come before the batch has been handed out."""
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


def test_nothing(pipe: Pipe) -> None:
    with pytest.raises(DataError, match="standard input: is empty, expected a line with the names"):
        rows(b"", pipe)


def test_nothing_without_header(pipe: Pipe) -> None:
    assert rows(b"", pipe, Schema({"A": {}}, time=0, header=False)) == []


def test_only_names(pipe: Pipe) -> None:
    assert rows(HEAD, pipe) == []


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"ts,n\n1,1\n", SchemaError, "standard input: no column 'text'"),
        (HEAD + b"1,x,1\n2,y,z\n", DataError, "standard input, row 1, column 'n': found 'z', expected int64"),
        (HEAD + b"1,x\n", DataError, "standard input, row 0: found 2 fields, expected 3"),
        (b"ts,text,n\nnoon,x,1\n", DataError, "standard input, row 0, column 'ts': found 'noon'"),
        (b"\xff\n", DataError, "the names of the columns are not UTF-8"),
    ],
)
def test_bad_input(pipe: Pipe, data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rows(data, pipe)


def test_an_open_quote_does_not_fill_the_memory(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastcep.io.streams.LONGEST_ROW", 1_000)
    with pytest.raises(DataError, match="row 0: found a quote that is never closed"):
        rows(HEAD + b'1,"x,1\n' + b"2,y,2\n" * 500, pipe)


def test_json_lines(pipe: Pipe) -> None:
    (batch,) = rows(b'{"ts": 1, "text": "x", "n": 1}\n{"ts": 2, "n": 2}\n', pipe)
    assert [set(row) for row in batch] == [{1, "x"}, {2, None}]


def test_what_cannot_be_waited_for(pipe: Pipe) -> None:
    with pytest.raises(ValidationError, match="cannot be waited for: it is compressed"):
        rows(gzip.compress(HEAD), pipe)


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValidationError, match="cannot be waited for"):
        open_source("-", SCHEMA, live=Live(1, lambda: None))
