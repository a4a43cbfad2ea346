"""Writing matches: every format, reading back, and failures of the output."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.formats import BINARY, TEXT, read_binary, read_text

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.events.convert import from_numpy
from fastcep.io import MatchWriter, formats, open_source, write_matches
from fastcep.io.write import matches as writing
from fastcep.io.write import text as texts
from fastcep.io.write.target import write_text

MATCHES = pa.table(
    {
        "query": ["q1", "q, 2", None],
        "a": pa.array([1, 2, None]),
        "b": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "c": pa.array([["x"], ["y", None], ["z"]], pa.list_(pa.string())),
    }
)
# --------------------------------------------------------------------- formats


@pytest.mark.parametrize("ending", BINARY)
def test_parquet_and_arrow_keep_the_table(tmp_path: Path, ending: str) -> None:
    write_matches(MATCHES, str(tmp_path / f"m.{ending}"))
    assert read_binary(tmp_path / f"m.{ending}").equals(MATCHES)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst"])
def test_csv_writes_lists_as_json(tmp_path: Path, ending: str, start: int) -> None:
    write_matches(MATCHES.slice(start), tmp_path / f"m.{ending}")
    lines = ['"query","a","b","c"', '"q1",1,"[1,2]","[""x""]"', '"q, 2",2,"[]","[""y"",null]"', ',,,"[""z""]"']
    assert read_text(tmp_path / f"m.{ending}").splitlines() == lines[:1] + lines[1 + start :]


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "jsonl.gz", "JSONL.ZST"])
def test_json_lines(tmp_path: Path, ending: str, start: int) -> None:
    write_matches(MATCHES.slice(start), tmp_path / f"m.{ending}")
    text = read_text(tmp_path / f"m.{ending}") if ending.islower() else None
    lines = [
        '{"query": "q1", "a": 1, "b": [1,2], "c": ["x"]}',
        '{"query": "q, 2", "a": 2, "b": [], "c": ["y",null]}',
        '{"query": null, "a": null, "b": null, "c": ["z"]}',
    ]
    if text is not None:
        assert text.splitlines() == lines[start:]


def test_json_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            'na"me': pa.array([1.0, float("nan"), float("inf"), float("-inf"), None, -0.0, 1e22, 5e-324]),
            "t": pa.array([0, 1, -1, -(2**63) + 1, None, 2**63 - 1, 10**9, 7], pa.timestamp("ns", "UTC")),
            "s": pa.array(["", "\x00\x1f", '"\\/', "ü漢🙂", None, "\u2028", "\n", "null"]),
            "i": pa.array([2**63 - 1, -(2**63), 0, None, 1, 1, 1, 1]),
            "l": pa.array([[math.nan, None, 1.0], [], None, [-math.inf], [], [], [], []]),
            "d": pa.array(["x", None, "y", "x", '"', "x", "x", "x"]).dictionary_encode(),
            "o": pa.array([True, False, None, True, True, True, True, True]),
            "n": pa.nulls(8),
        }
    )
    write_matches(table, tmp_path / "m.jsonl")
    lines = (tmp_path / "m.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in lines[:-1]]
    assert [row['na"me'] for row in rows] == [1.0, "NaN", "Infinity", "-Infinity", None, 0.0, 1e22, 5e-324]
    assert '"na\\"me": 1.0,' in lines[0] and '"na\\"me": -0.0,' in lines[5]
    assert [row["t"] for row in rows][:4] == [
        "1970-01-01T00:00:00.000000000Z",
        "1970-01-01T00:00:00.000000001Z",
        "1969-12-31T23:59:59.999999999Z",
        "1677-09-21T00:12:43.145224193Z",
    ]
    for name in ("s", "i", "d", "o", "n"):
        assert [row[name] for row in rows] == table[name].to_pylist()
    assert [row["l"] for row in rows][:4] == [["NaN", None, 1.0], [], None, ["-Infinity"]]


@pytest.mark.parametrize("ending", [*BINARY, *TEXT])
def test_no_matches(tmp_path: Path, ending: str) -> None:
    for table in (MATCHES.slice(0, 0), MATCHES.schema.empty_table()):
        path = tmp_path / f"m.{ending}"
        write_matches(table, path)
        if ending in BINARY:
            assert read_binary(path).equals(MATCHES.slice(0, 0))
        else:
            assert read_text(path) == ('"query","a","b","c"\n' if "csv" in ending else "")


def test_tab_separated(tmp_path: Path) -> None:
    write_matches(MATCHES.select(["query", "a"]), tmp_path / "m.tsv.gz")
    assert read_text(tmp_path / "m.tsv.gz") == '"query"\t"a"\n"q1"\t1\n"q, 2"\t2\n\t\n'


def test_every_ending_that_is_read_is_written(tmp_path: Path) -> None:
    schema = Schema({"E": {"v": "int64"}}, time="at")
    table = pa.table({"at": [1, 2], "v": [3, None]})
    for ending in formats.ENDINGS:
        write_matches(table, tmp_path / f"m{ending}")
        with open_source(tmp_path / f"m{ending}", schema) as source:
            assert pa.Table.from_batches(source).to_pydict() == table.to_pydict()


def test_format_overrides_the_ending(tmp_path: Path) -> None:
    write_matches(MATCHES, tmp_path / "m.out", "jsonl")
    assert (tmp_path / "m.out").read_text().count("\n") == 3
    write_matches(MATCHES, tmp_path / "m.arrows", "arrow")
    assert read_binary(tmp_path / "m.arrows").equals(MATCHES)


# --------------------------------------------------------------------- memory


def test_many_small_tables_become_few_groups(tmp_path: Path) -> None:
    """A table of one match does not become its own row group, and few small tables are held as views."""
    with MatchWriter(tmp_path / "m.parquet") as writer:
        for number in range(1000):
            writer.write(MATCHES.slice(number % 3, 1))
            assert len(writer._recent) < writing._RECENT_TABLES
    file = pq.ParquetFile(tmp_path / "m.parquet")
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (1000, 1)
    big = pa.table({"x": from_numpy(np.arange(300_000))})
    with MatchWriter(tmp_path / "big.parquet") as writer:
        for start in range(0, 300_000, 1000):
            writer.write(big.slice(start, 1000))
            assert writer._rows < writing._GROUP_ROWS
    assert pq.read_table(tmp_path / "big.parquet").equals(big)


def test_long_lists_are_cut_into_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_ELEMENTS", 10)
    table = pa.table({"x": pa.array([list(range(k)) for k in range(20)])})
    assert max(batch.num_rows for batch in texts.pieces(table)) < 10
    write_matches(table, tmp_path / "m.jsonl")
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert [json.loads(line)["x"] for line in lines] == table["x"].to_pylist()


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("ending", [*BINARY, "csv.gz", "jsonl"])
def test_an_error_leaves_what_was_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m.{ending}"
    with pytest.raises(KeyboardInterrupt), MatchWriter(path) as writer:
        writer.write(MATCHES)
        assert not path.exists()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == [f"m.{ending}"]
    if ending in BINARY:
        assert read_binary(path).equals(MATCHES)
    else:
        assert len(read_text(path).splitlines()) == 3 + ("csv" in ending)


def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    write_matches(MATCHES, path)
    code = (
        "import os, sys, pyarrow as pa\n"
        "from fastcep.io import MatchWriter\n"
        "MatchWriter(sys.argv[1]).write(pa.table({'x': [1]}))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert read_binary(path).equals(MATCHES)
    (left,) = (name for name in os.listdir(tmp_path) if name != "m.parquet")
    assert left.startswith(".fastcep-") and left.endswith(".part")


def test_write_text(tmp_path: Path) -> None:
    write_text(tmp_path / "a.svg", "ü\n")
    assert (tmp_path / "a.svg").read_bytes() == "ü\n".encode()
    with pytest.raises(ValidationError, match="there is no folder"):
        write_text(tmp_path / "no" / "a.svg", "")
    if Path("/dev/full").exists():
        with pytest.raises(ValidationError, match="no space left on device"):
            write_text("/dev/full", "x")


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("old")
    with MatchWriter(tmp_path / "m.csv"):
        pass
    assert os.listdir(tmp_path) == ["m.csv"]
    assert (tmp_path / "m.csv").read_text() == "old"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("old")
    with pytest.raises(ValidationError, match="column 'x' is binary, expected numbers"):
        write_matches(pa.table({"x": [b"raw"]}), path)
    with pytest.raises(ValidationError, match=r"column 'x' is list<.*expected lists of single values"):
        write_matches(pa.table({"x": [[[1]]]}), path)
    with pytest.raises(ValidationError, match="as csv: "):
        write_matches(pa.table({"x": pa.array([{"a": 1}])}), tmp_path / "s.csv")
    assert os.listdir(tmp_path) == ["m.jsonl"]
    assert path.read_text() == "old"


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with MatchWriter(tmp_path / "m.csv") as writer:
        writer.write(MATCHES)
        with pytest.raises(ValidationError, match="found the columns a int64, expected those of the first table"):
            writer.write(MATCHES.select(["a"]))
    with pytest.raises(ValidationError, match="is closed"):
        writer.write(MATCHES)
    assert len((tmp_path / "m.csv").read_text().splitlines()) == 4


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")


@FULL
@pytest.mark.parametrize("format", formats.FORMATS)
def test_a_full_disk(format: str) -> None:
    with pytest.raises(ValidationError, match=r"cannot write '/dev/full': no space left on device; free space"):
        write_matches(MATCHES, "/dev/full", format)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m.json", r"a name that ends in \.csv, \.tsv, \.jsonl, .* \(for CSV"),
        ("m.parquet.gz", "expected a name that ends in"),
        ("no/m.csv", "there is no folder"),
        ("folder.csv", "it is a folder"),
        ("m", "or a format"),
        ("-", "standard output needs a format"),
    ],
)
def test_wrong_names(tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    with pytest.raises(ValidationError, match=message):
        write_matches(MATCHES, name)
    assert os.listdir(tmp_path) == ["folder.csv"]


def test_wrong_formats(tmp_path: Path) -> None:
    with pytest.raises(
        ValidationError, match="unknown output format 'xml'; expected one of csv, jsonl, parquet, arrow"
    ):
        MatchWriter(tmp_path / "m.csv", "xml")
    with pytest.raises(ValidationError, match="parquet cannot go to standard output"):
        MatchWriter("-", "parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("old")
    (tmp_path / "m.csv").chmod(0o400)
    with pytest.raises(ValidationError, match="the file is not writable"):
        write_matches(MATCHES, tmp_path / "m.csv")
    tmp_path.chmod(0o500)
    with pytest.raises(ValidationError, match=r"the folder .* is not writable"):
        write_matches(MATCHES, tmp_path / "n.csv")
    tmp_path.chmod(0o700)


def test_links_permissions_and_pipes(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "pipe.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_matches(MATCHES, link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert real.read_text().startswith('"query"')
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_matches(MATCHES, pipe)
    reader.join()
    assert received == [real.read_text()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_writing_does_not_load_pandas(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from fastcep.events.convert import from_lengths, from_numpy, from_texts\n"
        "from fastcep.io import write_matches\n"
        "ints = from_numpy(np.arange(3), nulls=np.array([0, 0, 1]))\n"
        "table = pa.table({'a': ints, 's': from_texts(['x', '\"', 'z']), 'f': from_numpy(np.array([0.0, np.nan, 1])),\n"
        "    't': from_numpy(np.arange(3), pa.timestamp('ns', 'UTC')),\n"
        "    'l': from_lengths(np.array([1, 0, 2]), from_texts(['x', 'y', '\"']))})\n"
        "for ending in ('parquet', 'arrow', 'arrows', 'csv', 'jsonl.gz'):\n"
        "    write_matches(table, sys.argv[1] + '/m.' + ending)\n"
        "print('pandas' in sys.modules)\n"
    )
    command: Sequence[str] = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_given_temporary_name(tmp_path: Path) -> None:
    """A file that a killed process left under this name is replaced."""
    (tmp_path / "mine.part").write_text("left")
    writer = MatchWriter(tmp_path / "m.csv", part="mine.part", sync=True)
    writer.write(pa.table({"a": pa.array([1, 2])}))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.part"]
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["m.csv"]
    assert (tmp_path / "m.csv").read_text() == '"a"\n1\n2\n'
