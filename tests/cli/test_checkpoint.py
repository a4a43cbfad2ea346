"""``fastcep run --checkpoint``, stopped and restarted with the same, a longer or a changed input."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from reference.user_functions import own_registry
from support.pipe import NAMED_PAIRS
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()


def rows(first: int, last: int) -> list[str]:
    """Return rows of CSV."""
    return [f"{'AB'[k % 3 == 0]},{k % 5},n{k % 7},{k}\n" for k in range(first, last)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "q.cep").write_text(NAMED_PAIRS)
    (tmp_path / "e.csv").write_text("kind,id,name,ts\n" + "".join(rows(0, 100)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*options: str, source: str = "e.csv", every: str = "0s", query: str = "q.cep") -> Any:
    arguments = ["run", query, "--input", source, "--json", "--batch-rows", "10", *options]
    if "--checkpoint" in options:
        arguments += ["--checkpoint-every", every]
    return runner.invoke(app, arguments, catch_exceptions=False)


def counts(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    parts = json.loads(result.stdout)
    return {key: value for key, value in parts.items() if key not in ("seconds", "events_per_second", "memory_bytes")}


def spoil(row: int) -> None:
    """Replace a row by a bad one, so that a run stops before it."""
    lines = Path("e.csv").read_text().splitlines(keepends=True)
    lines[row + 1] = "A,wrong,n,1\n"
    Path("e.csv").write_text("".join(lines))


def restore(last: int = 100) -> None:
    Path("e.csv").write_text("kind,id,name,ts\n" + "".join(rows(0, last)))


def files(folder: str = "state") -> dict[str, bytes]:
    """Return the contents of all files of the folder."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def record(folder: str = "state") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(folder) / "checkpoint.json").read_text())
    return content


def test_a_run_that_is_not_stopped_gives_the_same(folder: Path) -> None:
    plain = counts(start("--output", "plain.csv"))
    for every in ("0s", "10s"):
        durable = start("--output", "durable.csv", "--checkpoint", f"state-{every}", every=every)
        assert counts(durable) == plain
        assert Path("durable.csv").read_bytes() == Path("plain.csv").read_bytes()
    assert sorted(files("state-10s")) == ["checkpoint.json", "lock", "matches-1.arrow"]
    assert len([name for name in files("state-0s") if name.startswith("matches-")]) >= 10
    assert not [name for name in files("state-0s") if name.startswith("state-")], "a finished run needs no state"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options", [[], ["--attributes"], ["--query", "alone"], ["--sort"], ["--allowed-lateness", "3s"]]
)
@pytest.mark.parametrize("row", [1, 10, 47, 99])
def test_a_run_resumes_after_a_bad_row_is_fixed(folder: Path, row: int, options: list[str]) -> None:
    """Matches found before the bad row are committed, those from its batch included."""
    plain = counts(start("--output", "plain.csv", *options))
    spoil(row)
    durable = ["--output", "durable.csv", "--checkpoint", "state", *options]
    first = start(*durable)
    assert first.exit_code == 2
    assert "row " in first.stderr and "'wrong'" in first.stderr
    assert not Path("durable.csv").exists(), "an output appears whole"
    if "--sort" not in options:
        assert record()["rows"] == row
        assert f"committed up to row {row}; start the command again to resume" in first.stderr
        before = files()
        second = start(*durable)  # the bad row is still there
        assert second.exit_code == 2 and "'wrong'" in second.stderr
        assert files() == before
    restore()
    last = start(*durable)
    assert counts(last) == plain
    assert ("resuming after row" in last.stderr) == ("--sort" not in options)
    assert Path("durable.csv").read_bytes() == Path("plain.csv").read_bytes()


def test_rows_added_meanwhile_are_processed(folder: Path) -> None:
    spoil(57)
    assert start("--checkpoint", "state").exit_code == 2
    restore(150)
    plain = counts(start("--output", "plain.jsonl"))
    assert counts(start("--output", "durable.jsonl", "--checkpoint", "state")) == plain
    assert Path("durable.jsonl").read_bytes() == Path("plain.jsonl").read_bytes()


def test_other_batches_formats_and_outputs_do_not_matter(folder: Path) -> None:
    spoil(57)
    assert start("--checkpoint", "state", "--output", "first.csv").exit_code == 2
    restore()
    command = ["--checkpoint", "state", "--output", "durable.parquet", "--batch-rows", "7", "--limit-print", "3"]
    summary = counts(start(*command))
    assert summary == counts(start("--output", "plain.parquet"))
    assert parquet.read_table("durable.parquet").to_pylist() == parquet.read_table("plain.parquet").to_pylist()
    assert not Path("first.csv").exists()


def test_a_finished_run_writes_outputs_that_are_missing(folder: Path) -> None:
    command = ["--checkpoint", "state", "--output", "m.csv"]
    first = start(*command)
    complete = Path("m.csv").read_bytes()
    Path("e.csv").unlink()  # a finished run does not read its input
    again = start(*command)
    assert counts(again) == counts(first)
    assert "nothing to do: the run of --checkpoint 'state' is finished after row 100; for more" in again.stderr
    Path("m.csv").write_text("mine")
    assert start(*command).exit_code == 0
    assert Path("m.csv").read_text() == "mine", "an output is not written twice"
    Path("m.csv").unlink()
    third = start(*command)
    assert third.exit_code == 0 and "nothing to do" not in third.stderr
    assert Path("m.csv").read_bytes() == complete
    Path("other.csv").write_text("of an earlier run")
    assert start("--checkpoint", "state", "--output", "other.csv").exit_code == 0
    assert Path("other.csv").read_bytes() == complete
    assert start("--checkpoint", "state", "--output", "other.csv", "--output-format", "jsonl").exit_code == 0
    assert Path("other.csv").read_text().startswith("{"), "the format has changed"
    (Path("state") / "state-1.fcs").write_bytes(b"left by a run that was killed at its last commit")
    assert start("--checkpoint", "state").exit_code == 0
    assert not (Path("state") / "state-1.fcs").exists()


def test_segments_can_be_read_while_the_run_goes_on(folder: Path) -> None:
    spoil(60)
    start("--checkpoint", "state")
    assert record()["finished"] is False
    tables = []
    for part in record()["matches"]:
        with pa.ipc.open_file(f"state/{part['name']}") as reader:
            tables.append(reader.read_all())
    matches = pa.concat_tables(tables).to_pylist()
    restore(60)
    start("--output", "plain.parquet")
    # matches that the end of the stream decides are missing
    assert matches == parquet.read_table("plain.parquet").to_pylist()[: len(matches)]
    assert len(matches) > 20


def test_bad_rows_and_late_events(folder: Path) -> None:
    lines = rows(0, 100)
    for row in (3, 33, 66, 99):
        lines[row] = "A,x,bad,1\n"
    for row in (20, 40, 60, 80):
        lines[row], lines[row - 5] = lines[row - 5], lines[row]
    compressed = gzip.compress(("kind,id,name,ts\n" + "".join(lines)).encode(), 1)
    Path("e.csv.gz").write_bytes(compressed)
    options = ["--allowed-lateness", "2s", "--late", "late.csv", "--bad-rows", "bad.jsonl", "--output", "m.csv"]
    plain = counts(start(*options, source="e.csv.gz"))
    assert plain["late"] == 12 and plain["bad_rows"] == 4
    names = ("late.csv", "bad.jsonl", "m.csv")
    expected = {name: Path(name).read_bytes() for name in names}
    for name in names:
        Path(name).unlink()
    Path("e.csv.gz").write_bytes(compressed[: len(compressed) * 2 // 3])
    command = [*options, "--checkpoint", "state"]
    first = start(*command, source="e.csv.gz")
    assert first.exit_code == 2 and "copy or make it again" in first.stderr
    assert not any(Path(name).exists() for name in names)
    assert 30 < record()["rows"] < 90
    Path("e.csv.gz").write_bytes(compressed)
    assert counts(start(*command, source="e.csv.gz")) == plain
    assert {name: Path(name).read_bytes() for name in names} == expected
    Path("bad.jsonl").unlink()
    assert start(*command, source="e.csv.gz").exit_code == 0
    assert Path("bad.jsonl").read_bytes() == expected["bad.jsonl"]


# ------------------------------------------------------------------ refused


def refused(*options: str, **settings: str) -> str:
    """Return the error of a run that is rejected; its folder and output stay unchanged."""
    before, output = files(), Path("m.csv").read_bytes()
    result = start("--checkpoint", "state", "--output", "m.csv", *options, **settings)
    assert result.exit_code == 2
    assert files() == before and Path("m.csv").read_bytes() == output
    return " ".join(result.stderr.split())


@pytest.fixture
def stopped(folder: Path) -> Path:
    """Prepare a run that stopped at row 57, and the output of an earlier run."""
    spoil(57)
    assert start("--checkpoint", "state").exit_code == 2
    restore()
    Path("m.csv").write_text("of an earlier run")
    return folder


@pytest.mark.sample(3)
@pytest.mark.parametrize("left", [0, 1, 30, 56])
def test_an_input_that_was_cut_short(stopped: Path, left: int) -> None:
    restore(left)
    message = refused()
    assert f"e.csv: found {left} rows, expected at least the 57 that the last commit includes; " in message
    assert "; the input was truncated. " in message
    assert "Give the same input again (rows may have been added at its end), or start over with another" in message
    restore(57)
    assert start("--checkpoint", "state", "--output", "m.csv").exit_code == 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("changed", ["A,0,n0,0", "B,4,n0,0", "A,4,,0", "A,,n0,0"])
def test_an_input_that_was_rewritten(stopped: Path, changed: str) -> None:
    Path("e.csv").write_text("\n".join(["kind,id,name,ts", changed, *Path("e.csv").read_text().splitlines()[2:], ""]))
    message = refused()
    assert "e.csv: its first 57 rows differ from those that the last commit includes; " in message
    assert "; the input was rewritten. Give" in message


def test_an_input_in_which_an_old_row_is_wrong_now(stopped: Path) -> None:
    spoil(3)
    message = refused()
    assert "'wrong'" in message
    assert "The first 57 rows were valid when the checkpoint was made, so the input has changed. Give" in message


def test_an_input_that_lost_a_column_or_is_gone(stopped: Path) -> None:
    Path("e.csv").write_text("kind,id,ts\nA,1,1\n")
    assert "no column 'name'" in refused()
    Path("e.csv").unlink()
    assert "no such file" in refused()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--attributes"], "--attributes was not given"),
        (["--sort"], "--sort was not given"),
        (["--allowed-lateness", "3s"], 'found --allowed-lateness "3s", expected not given'),
        (["--encoding", "latin-1"], 'found --encoding "latin-1", expected "utf-8"'),
        (["--format", "csv"], 'found --format "csv", expected not given'),
        (["--bad-rows", "bad.jsonl"], "--bad-rows was not given"),
        (["--query", "pairs"], "found the queries pairs, expected pairs, alone"),
        (["--input", "f.csv"], "found --input e.csv f.csv, expected e.csv"),
    ],
)
def test_other_options(stopped: Path, options: list[str], message: str) -> None:
    error = refused(*options)
    assert f"the run of --checkpoint 'state' was started with other settings: {message}" in error
    assert "Use the original settings, or start over with another --checkpoint folder" in error
    assert not Path("bad.jsonl").exists()


def test_other_queries_and_schemas(stopped: Path) -> None:
    Path("q.cep").write_text("-- a comment, and other spaces\n" + NAMED_PAIRS.replace(" WITHIN 10s", "\nWITHIN 10s"))
    assert "resuming" in start("--checkpoint", "state").stderr
    shutil.rmtree("state")
    spoil(57)
    start("--checkpoint", "state")
    Path("q.cep").write_text(NAMED_PAIRS.replace("WITHIN 10s", "WITHIN 11s"))
    assert "the query pairs has changed" in refused()
    Path("q.cep").write_text(NAMED_PAIRS.replace("UNIT s", "UNIT ms"))
    assert "the schema (STREAM and EVENT) has changed" in refused()
    first, second = NAMED_PAIRS.index("QUERY pairs"), NAMED_PAIRS.index("QUERY alone")
    Path("q.cep").write_text(NAMED_PAIRS[:first] + NAMED_PAIRS[second:] + NAMED_PAIRS[first:second])
    assert "found the queries alone, pairs, expected pairs, alone" in refused()
    Path("q.cep").write_text(NAMED_PAIRS)


def test_functions_of_the_user(folder: Path) -> None:
    functions = (
        "import fastcep as fc\n\n@fc.function('bool(int64, int64)')\ndef near(a, b):\n    return abs(a - b) < 2\n"
    )
    Path("f.py").write_text(functions)
    Path("q.cep").write_text(NAMED_PAIRS.replace("WHERE a.id = b.id", "WHERE near(a.id, b.id)"))
    with own_registry():
        plain = counts(start("--functions", "f.py"))
    spoil(57)
    with own_registry():
        assert start("--functions", "f.py", "--checkpoint", "state").exit_code == 2
    restore()
    Path("f.py").write_text(functions.replace("< 2", "< 3"))
    with own_registry():
        assert "the file of --functions has changed" in start("--functions", "f.py", "--checkpoint", "state").stderr
    Path("f.py").write_text(functions)
    with own_registry():
        assert counts(start("--functions", "f.py", "--checkpoint", "state")) == plain


def test_two_runs_cannot_have_one_folder(stopped: Path) -> None:
    with open("state/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        message = refused()
    assert "another run uses --checkpoint 'state'; wait until it ends, or give another folder" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "-"], "--checkpoint cannot read standard input twice; write it to a file first"),
        (["--input", "pipe"], "--checkpoint cannot read 'pipe' twice, as it is a pipe or a device; write it to a"),
        (["--output", "-", "--output-format", "csv"], "--checkpoint and --output - exclude each other"),
        (["--input", "."], "--checkpoint 'new' is inside --input '.' and would be read as input; give another"),
        (["--input", "ne*"], "--checkpoint 'new' is inside --input 'ne*'"),
        (["--output", "new/m.csv"], "--output 'new/m.csv' is in the --checkpoint folder"),
        (["--output", "missing/m.csv"], "there is no folder 'missing'"),
        (["--bad-rows", "missing/m.csv"], "there is no folder 'missing'"),
        (["--output", "m.xyz"], "expected a name that ends in"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, options: list[str], message: str) -> None:
    os.mkfifo("pipe")
    if "ne*" in options:
        Path("new").mkdir()
    source = [] if "--input" in options else ["--input", "e.csv"]
    result = runner.invoke(app, ["run", "q.cep", "--checkpoint", "new", *source, *options])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not Path("new").exists() or "ne*" in options


def test_times_and_folders_that_cannot_be(folder: Path) -> None:
    result = runner.invoke(app, ["run", "q.cep", "--input", "e.csv", "--checkpoint-every", "3s"])
    assert "--checkpoint-every 3s needs a folder; add --checkpoint FOLDER" in result.stderr
    assert "--checkpoint-every: " in start("--checkpoint", "new", every="soon").stderr
    assert "--checkpoint 'e.csv' is a file; give the name of a folder" in start("--checkpoint", "e.csv").stderr
    Path("full").mkdir()
    Path("full/mine.txt").write_text("")
    message = " ".join(start("--checkpoint", "full").stderr.split())
    assert "--checkpoint 'full' is not the folder of a run: it contains 'mine.txt'; give a new or an empty" in message
    assert os.listdir("full") == ["mine.txt"]
    assert start("--checkpoint", "a/b/c").exit_code == 0, "folders are created"
