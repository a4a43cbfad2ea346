"""Folders, patterns, standard input, and memory use of reading."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import DS1, PACKED, PLAIN, StandardInput, arrow_stream, csv, parquet, read, written, zstd

from fastcep import Engine, Schema, datasets, parse
from fastcep.errors import DataError
from fastcep.io import open_source

# ---------------------------------------------------------------- folders, patterns, standard input


def parts(table: pa.Table, folder: Path) -> None:
    """Write a folder as Spark does, with files of several formats."""
    folder.mkdir()
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".part-00000.parquet.crc").write_bytes(b"crc")
    (folder / "notes.txt").write_text("no events")
    for number, ending in enumerate([".snappy.parquet", ".snappy.parquet", ".csv", ".jsonl.gz", ".arrow"]):
        piece = table.slice(1000 * (number - 1), 1000) if number else table.slice(0, 0)  # the first file has no rows
        data = parquet(piece) if "parquet" in ending else written(piece, ending)
        (folder / f"part-{number:05}{ending}").write_bytes(data)
    (folder / "part-00009.csv").write_bytes(b"")
    (folder / "year=2024").mkdir()
    (folder / "year=2024" / "part-0.csv").write_bytes(csv(table.slice(4000)))


def test_folders_and_patterns(tmp_path: Path) -> None:
    table = datasets.ds1(5_000)
    parts(table, tmp_path / "events")
    assert read(tmp_path / "events").equals(table)
    assert read(str(tmp_path / "events" / "part-0*.parquet")).equals(table.slice(0, 1000))
    both = [tmp_path / "events" / "part-00001.snappy.parquet", str(tmp_path / "events" / "part-00002.csv")]
    assert read(both).equals(table.slice(0, 2000))
    with open_source(tmp_path / "events", DS1, chunk_rows=600) as source:
        first_rows = [(Path(source.origin).name, int(source.rows[0])) for _ in source]
    assert first_rows[:4] == [("part-00001.snappy.parquet", 0), ("part-00001.snappy.parquet", 600),
                              ("part-00002.csv", 0), ("part-00002.csv", 600)]  # fmt: skip
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: no file in this folder ends in \.csv"):
        read(tmp_path / "none")
    with pytest.raises(DataError, match="no file matches this pattern"):
        read(str(tmp_path / "events" / "*.xml"))
    (tmp_path / "none" / "a.log").write_bytes(csv(table))
    assert read(tmp_path / "none", format="csv").equals(table)


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_rows_are_numbered_across_bad_ones(tmp_path: Path, chunk: int) -> None:
    lines = [f"A,{'x' if number % 3 == 1 else number},{number},{number}" for number in range(10)]
    (tmp_path / "e.csv").write_text("\n".join(["type,ID,V,ts", *lines, ""]))
    source = open_source(tmp_path / "e.csv", DS1, chunk_rows=chunk, bad_rows=tmp_path / "bad.jsonl")
    for batch in source:
        assert source.rows.tolist() == batch.column("V").to_pylist()
    assert source.rows_read == 7


@pytest.mark.parametrize("broken", [False, True])
def test_the_end_of_the_iteration_closes_the_bad_rows(tmp_path: Path, broken: bool) -> None:
    data = csv(datasets.ds1(100)) + b"A,x,1,1\n"
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(data)[: -20 if broken else None])
    source = open_source(tmp_path / "e.csv.gz", DS1, bad_rows=tmp_path / "bad.jsonl")
    if broken:
        with pytest.raises(DataError, match="cannot be read after"):
            list(source)
    else:
        list(source)
    lines = (tmp_path / "bad.jsonl").read_text().splitlines()  # written without close()
    assert len(lines) == source.bad_rows == (not broken)
    assert list(source) == []
    source.close()


@pytest.mark.parametrize("ending", [*PLAIN, *PACKED])
def test_close_without_reading(tmp_path: Path, ending: str) -> None:
    """No file stays open, read or not. (An open file raises a warning, and warnings are errors.)"""
    path = tmp_path / f"e{ending}"
    path.write_bytes(written(datasets.ds1(100), ending))
    open_source(path, DS1).close()
    with open_source(path, DS1, chunk_rows=10) as source:
        next(source)
    assert list(source) == []
    with StandardInput(path.read_bytes()):
        open_source("-", DS1, delimiter="\t" if ending == ".tsv" else None).close()


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_files_compressed_in_parts(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Data appended to a compressed file is a second member. Compression is detected from the content too."""
    data = csv(datasets.ds1(5_000))
    for name in ("e.csv.gz" if pack is gzip.compress else "e.csv.zst", "e.csv"):
        (tmp_path / name).write_bytes(pack(data[:10_001]) + pack(data[10_001:]))
        assert read(tmp_path / name).equals(datasets.ds1(5_000))


def test_a_fault_in_a_folder_names_its_file(tmp_path: Path) -> None:
    for name, time in (("a.csv", 5), ("b.csv", 3)):
        (tmp_path / name).write_text(f"type,ts,ID,V\nA,{time},1,1\nB,{'x' if name == 'b.csv' else time},1,1\n")
    with pytest.raises(DataError, match=r"b\.csv, line 3, row 1, column 'ts': found 'x'"):
        read(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [".csv.zst", ".jsonl.gz", ".parquet", ".arrow", ".arrows"])
def test_standard_input(tmp_path: Path, ending: str) -> None:
    table = datasets.ds1(3_000)
    (tmp_path / "q.cep").write_text(
        "STREAM TIME 'ts' UNIT us TYPE 'type'\n"
        + "".join(f"EVENT {kind} (ID int64, V int64)\n" for kind in "ABCD")
        + "QUERY q PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms\n"
    )
    command = [sys.executable, "-m", "fastcep", "run", str(tmp_path / "q.cep"), "--input", "-", "--json"]
    done = subprocess.run(command, input=written(table, ending), capture_output=True, check=True)
    query = parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", DS1)
    assert json.loads(done.stdout)["matches"] == len(Engine(query).process(table))


# ---------------------------------------------------------------- memory


class Endless(io.RawIOBase):
    """Text that is generated while it is read."""

    def __init__(self, head: bytes, row: Callable[[int], bytes], rows: int) -> None:
        self._buffer = head
        self._rows: Iterator[bytes] = (b"".join(map(row, range(k, k + 1000))) for k in range(0, rows, 1000))

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        while len(self._buffer) < size and (rows := next(self._rows, b"")):
            self._buffer += rows
        part, self._buffer = self._buffer[:size], self._buffer[size:]
        return part

    read = read1  # type: ignore[assignment]


def lines(rows: int) -> Endless:
    return Endless(b"", lambda k: b'{"type": "A", "ts": %d, "ID": 1, "V": 2, "pad": "%s"}\n' % (k, b"x" * 60), rows)


def fields(rows: int) -> Endless:
    return Endless(b"type,ts,ID,V,pad\n", lambda k: b'A,%d,1,2,"%s"\n' % (k, b"x" * 80), rows)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [lines, fields])
def test_memory_does_not_grow_with_the_input(monkeypatch: pytest.MonkeyPatch, make: Callable[[int], Endless]) -> None:
    peaks = []
    for rows in (40_000, 200_000):
        monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": make(rows)}))
        peak, before = 0, pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            with open_source("-", DS1, chunk_rows=10_000) as source:
                for batch in source:
                    peak = max(peak, pa.total_allocated_bytes() - before)
                    del batch
                assert source.rows_read == rows
            peaks.append(peak + tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + (1 << 20)


def test_memory_of_an_arrow_stream_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = arrow_stream(datasets.ds1(1_000_000))
    monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": io.BytesIO(data)}))
    peak, before = 0, pa.total_allocated_bytes()
    with open_source("-", DS1) as source:
        for batch in source:
            peak = max(peak, pa.total_allocated_bytes() - before)
            del batch
    assert source.rows_read == 1_000_000
    assert peak < len(data) / 4


def test_no_name() -> None:
    """An empty name, such as an unset shell variable, does not stand for the current folder."""
    with pytest.raises(DataError, match="found '' as the name of an input"):
        open_source("", DS1)


def error_for(path: object) -> str:
    with pytest.raises(DataError) as caught:
        open_source(str(path), Schema({"A": {}}, time="ts"))
    return str(caught.value)


def test_symbolic_links_that_lead_nowhere(tmp_path: Path) -> None:
    loop, dangling = tmp_path / "loop.csv", tmp_path / "dangling.csv"
    loop.symlink_to(loop.name)
    dangling.symlink_to("gone.csv")
    assert error_for(loop) == f"{loop}: is a symbolic link that leads back to itself; fix the link"
    assert error_for(dangling) == f"{dangling}: is a symbolic link to 'gone.csv', which does not exist; fix the link"
    assert f"{loop / 'e.csv'}: is a symbolic link that leads back to itself" in error_for(loop / "e.csv")
    assert str(dangling) in error_for(tmp_path)  # no file of a folder is skipped silently
    dangling.unlink()
    assert str(loop) in error_for(tmp_path)
    assert str(loop) in error_for(tmp_path / "*.csv")


def test_a_folder_inside_of_itself(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ts\n1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "again").symlink_to(tmp_path)
    assert error_for(tmp_path) == f"{inner / 'again'}: is a symbolic link to a folder that contains it; fix the link"
    (inner / "again").unlink()
    (inner / "other.csv").symlink_to(tmp_path / "e.csv")
    with open_source(str(tmp_path), Schema({"A": {}}, time="ts")) as source:
        assert [batch.num_rows for batch in source] == [1, 1]


def test_a_path_that_runs_through_a_file_or_is_not_allowed(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("ts\n1\n")
    assert f"{file / 'x.csv'}: " in error_for(file / "x.csv")
    long = tmp_path / ("x" * 300 + ".csv")
    assert error_for(long) == f"{long}: cannot be read (File name too long); check the path and its permissions"
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        if not os.access(closed, os.R_OK):  # root can read it anyway
            assert error_for(closed).startswith(f"{closed}: cannot be read (Permission denied); check the path")
            assert "cannot be read (Permission denied)" in error_for(closed / "e.csv")
    finally:
        closed.chmod(0o700)


def test_a_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "events.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("ts\n1\n2\n",))
    writer.start()
    with open_source(str(pipe), Schema({"A": {}}, time="ts")) as source:
        assert [batch.column("ts").to_pylist() for batch in source] == [[1, 2]]
    writer.join()
