"""``fastcep run`` and ``fastcep explain``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()

QUERIES = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
QUERY pairs
PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10s RETURN a.id AS id
QUERY runs
PATTERN SEQ(A+ r[], B b) WHERE r[i+1].id = r[i].id AND r[last].id = b.id WITHIN 10s
"""
EVENTS = "kind,id,ts\nA,1,0\nA,2,1\nA,1,2\nB,1,5\nB,2,6\nB,2,60\n"
KEYS = [
    "events",
    "matches",
    "matches_by_query",
    "seconds",
    "events_per_second",
    "peak_partial_matches",
    "memory_bytes",
    "late",
    "bad_rows",
    "shed_events",
    "shed_windows",
    "shed_matches",
    "estimated_recall",
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    query, events = tmp_path / "q.cep", tmp_path / "events.csv"
    query.write_text(QUERIES)
    events.write_text(EVENTS)
    return str(query), str(events)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_json_is_one_object_with_the_promised_keys(files: tuple[str, str], rows: int) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--json", "--batch-rows", str(rows)])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert list(summary) == KEYS
    assert summary["events"] == 6
    assert summary["matches"] == 7
    assert summary["matches_by_query"] == {"pairs": 3, "runs": 4}
    assert summary["seconds"] > 0
    assert summary["peak_partial_matches"] > 0
    assert summary["memory_bytes"] > 0
    assert [summary[key] for key in KEYS[-5:]] == [0, 0, 0, 0, 1.0]


def test_one_query_and_table_of_matches(files: tuple[str, str]) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--query", "pairs", "--limit-print", "2"])
    assert result.exit_code == 0, result.stderr
    assert "First matches" in result.stdout
    assert "6 events, 3 matches" in result.stdout
    assert result.stdout.count("pairs") == 2


def test_nothing_is_printed_when_not_wanted(files: tuple[str, str]) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--limit-print", "0"])
    assert "First matches" not in result.stdout
    assert "pairs: 3 matches" in result.stdout


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_output_holds_all_matches(files: tuple[str, str], tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"m.{suffix}"
    arguments = ["run", files[0], "--input", files[1], "--output", str(out), "--batch-rows", "2", "--json"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    if suffix == "parquet":
        table = parquet.read_table(out)
    elif suffix == "csv":
        table = csv.read_csv(out)
    else:
        with pa.ipc.open_file(str(out)) as reader:
            table = reader.read_all()
    assert table.num_rows == 7
    assert table.column("query").to_pylist().count("runs") == 4
    if suffix == "csv":
        assert "[0,2]" in csv.read_csv(out).column("r").to_pylist()


def test_output_without_matches_is_a_readable_file(files: tuple[str, str], tmp_path: Path) -> None:
    events, out = tmp_path / "none.csv", tmp_path / "m.parquet"
    events.write_text("kind,id,ts\nA,1,0\n")
    result = runner.invoke(app, ["run", files[0], "--input", str(events), "--output", str(out)])
    assert result.exit_code == 0, result.stderr
    assert parquet.read_table(out).num_rows == 0


def test_attributes(files: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "m.jsonl"
    arguments = ["run", files[0], "--input", files[1], "--query", "runs", "--attributes", "--output", str(out)]
    assert runner.invoke(app, [*arguments, "--json"]).exit_code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {name: rows[2][name] for name in ("r", "b", "r.time", "r.id", "b.time", "b.id")} == {
        "r": [0, 2], "b": 3, "r.time": ["1970-01-01T00:00:00.000000000Z", "1970-01-01T00:00:02.000000000Z"],
        "r.id": [1, 1], "b.time": "1970-01-01T00:00:05.000000000Z", "b.id": 1,
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow"])
def test_output_to_standard_output(files: tuple[str, str], form: str) -> None:
    """Only matches are written to standard output; the summary is written to standard error."""
    command = [sys.executable, "-m", "fastcep", "run", files[0], "--input", files[1], "--output", "-"]
    options = ["--output-format", form, "--batch-rows", "2"]
    process = subprocess.run([*command, *options], capture_output=True, check=True)
    assert b"6 events, 7 matches" in process.stderr
    if form == "arrow":
        assert pa.ipc.open_stream(process.stdout).read_all().num_rows == 7
    else:
        lines = process.stdout.decode().splitlines()
        assert len(lines) == 7 + (form == "csv")
        assert all(line.startswith('"' if form == "csv" else '{"query": ') for line in lines)


def test_a_reader_that_has_enough_ends_the_run(tmp_path: Path) -> None:
    query, events = tmp_path / "q.cep", tmp_path / "e.csv"
    query.write_text("STREAM TIME 'ts' UNIT s\nEVENT A (id int64)\nQUERY every PATTERN SEQ(A a) WITHIN 1s\n")
    events.write_text("ts,id\n" + "\n".join(f"{second},1" for second in range(50_000)))
    command = [sys.executable, "-m", "fastcep", "run", str(query), "--input", str(events), "--output", "-"]
    with subprocess.Popen(
        [*command, "--output-format", "jsonl", "--batch-rows", "500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b'{"query": "every"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "-"], "standard output needs a format"),
        (["--output", "-", "--output-format", "parquet"], "parquet cannot go to standard output"),
        (["--output", "-", "--output-format", "csv", "--json"], "both use standard output"),
        (["--output-format", "csv"], "add --output PATH"),
        (["--output", "m.csv", "--output-format", "xml"], "unknown output format 'xml'"),
    ],
)
def test_outputs_that_cannot_be(files: tuple[str, str], options: list[str], message: str) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_explain(files: tuple[str, str]) -> None:
    result = runner.invoke(app, ["explain", files[0]])
    assert result.exit_code == 0, result.stderr
    assert "pairs" in result.stdout
    assert "runs" in result.stdout
    assert "runs" not in runner.invoke(app, ["explain", files[0], "--query", "pairs"]).stdout


@pytest.mark.parametrize(
    ("form", "start"),
    [("text", "query pairs"), ("json", "{"), ("mermaid", "flowchart LR"), ("dot", "digraph"), ("svg", "<svg")],
)
def test_explain_formats(files: tuple[str, str], tmp_path: Path, form: str, start: str) -> None:
    ending = {"text": "txt", "mermaid": "mmd"}.get(form, form)
    printed = runner.invoke(app, ["explain", files[0], "--format", form])
    assert printed.exit_code == 0, printed.stderr
    assert printed.stdout.startswith(start)
    out = tmp_path / f"plan.{ending}"
    written = runner.invoke(app, ["explain", files[0], "--output", str(out)])
    assert (written.exit_code, written.stdout) == (0, "")
    assert out.read_text(encoding="utf-8") == printed.stdout


def test_explain_refuses(files: tuple[str, str], tmp_path: Path) -> None:
    for options, message in [
        (["--format", "png"], "unknown format 'png'"),
        (["--output", str(tmp_path / "plan.png")], "unknown format of"),
        (["--output", str(tmp_path / "no" / "plan.svg")], "there is no folder"),
    ]:
        result = runner.invoke(app, ["explain", files[0], *options])
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr


def test_wrong_query_shows_the_place(files: tuple[str, str]) -> None:
    Path(files[0]).write_text(QUERIES.replace("a.id = b.id", "a.idd = b.id"))
    result = runner.invoke(app, ["run", files[0], "--input", files[1]])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "q.cep:5:" in result.stderr
    assert "^" in result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_query_name(files: tuple[str, str]) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--query", "pair"])
    assert result.exit_code == 2
    assert "did you mean 'pairs'" in result.stderr


def test_file_without_query(files: tuple[str, str]) -> None:
    Path(files[0]).write_text("STREAM TIME 'ts'\nEVENT A (id int64)\n")
    result = runner.invoke(app, ["explain", files[0]])
    assert result.exit_code == 2
    assert "no query" in result.stderr


def test_missing_input(files: tuple[str, str], tmp_path: Path) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", str(tmp_path / "nothing.csv"), "--json"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "nothing.csv" in result.stderr


def test_bad_row_keeps_the_matches_before_it(files: tuple[str, str], tmp_path: Path) -> None:
    Path(files[1]).write_text(EVENTS + "A,1,59\n")  # time runs back
    out = tmp_path / "m.parquet"
    arguments = ["run", files[0], "--input", files[1], "--batch-rows", "3", "--output", str(out), "--json"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "events.csv, line 8, row 6, column 'ts'" in result.stderr
    assert parquet.read_table(out).num_rows == 7


def test_bad_rows_are_counted_and_kept(files: tuple[str, str], tmp_path: Path) -> None:
    Path(files[1]).write_text(EVENTS + "A,1,59\nA,x,61\nC,1,62\n")
    arguments = ["run", files[0], "--input", files[1], "--bad-rows", str(tmp_path / "bad.jsonl")]
    result = runner.invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["events"], summary["matches"], summary["bad_rows"]) == (6, 7, 3)
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(row["row"], row["column"]) for row in bad] == [(6, "ts"), (7, "id"), (8, "kind")]
    assert bad[1] == {"file": files[1], "line": 9, "row": 7, "column": "id", "found": "'x'", "expected": "int64",
                      "values": {"kind": "A", "id": "x", "ts": "61"}}  # fmt: skip
    assert f"3 bad rows in {tmp_path / 'bad.jsonl'}" in runner.invoke(app, arguments).stdout.replace("\n", " ")


@pytest.mark.parametrize(("path", "message"), [("no/bad.jsonl", "cannot write bad rows"), ("", "which is the input")])
def test_where_bad_rows_cannot_go(files: tuple[str, str], tmp_path: Path, path: str, message: str) -> None:
    target = str(tmp_path / path) if path else files[1]
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--bad-rows", target])
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path(files[1]).read_text() == EVENTS


def test_bad_rows_for_which_there_is_no_room(files: tuple[str, str]) -> None:
    Path(files[1]).write_text(EVENTS + "A,1,59\n")
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--bad-rows", "/dev/full"])
    assert result.exit_code == 2
    assert "cannot write bad rows to '/dev/full': No space left on device; give another path" in result.stderr


def test_several_inputs_and_their_options(files: tuple[str, str], tmp_path: Path) -> None:
    rows = EVENTS.splitlines()
    (tmp_path / "a.txt").write_text("\n".join(rows[:4]).replace(",", ";"))
    (tmp_path / "b.txt").write_bytes("\n".join([rows[0], *rows[4:]]).replace(",", ";").encode("utf-16"))
    arguments = ["run", files[0], "--json", "--format", "csv", "--delimiter", ";"]
    one = runner.invoke(app, [*arguments, "--input", str(tmp_path / "a.txt")])
    assert json.loads(one.stdout)["events"] == 3
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes((tmp_path / f"{name}.txt").read_bytes().decode(
            "utf-16" if name == "b" else "utf-8").encode("utf-16"))  # fmt: skip
    several = ["--input", str(tmp_path / "b.txt"), "--input", str(tmp_path / "a.txt"), "--encoding", "utf-16", "--sort"]
    both = runner.invoke(app, [*arguments, *several])
    assert both.exit_code == 0, both.stderr
    assert json.loads(both.stdout)["matches"] == 7


@pytest.mark.parametrize(("out", "message"), [("m.xlsx", ".parquet, .arrow, .arrows"), ("no/m.csv", "no folder")])
def test_output_is_checked_first(files: tuple[str, str], tmp_path: Path, out: str, message: str) -> None:
    result = runner.invoke(app, ["run", files[0], "--input", files[1], "--output", str(tmp_path / out)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "First matches" not in result.stdout


def test_interrupt_is_130(files: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fastcep.cli.run.run", interrupt)
    assert runner.invoke(app, ["run", files[0], "--input", files[1]]).exit_code == 130


def test_bugs_keep_their_traceback(files: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("fastcep.cli.run.run", bug)
    assert isinstance(runner.invoke(app, ["run", files[0], "--input", files[1]]).exception, ZeroDivisionError)


def start(files: tuple[str, str], modules: set[str]) -> tuple[str, str]:
    """Run a process; return its output and the names from ``modules`` that it loaded."""
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(*sorted({modules!r} & set(sys.modules)), file=sys.stderr))\n"
        "from fastcep.cli import main\n"
        "main()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "run", files[0], "--input", files[1]],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    return process.stdout, process.stderr.strip()


@pytest.mark.thorough
def test_a_run_loads_no_library_that_it_does_not_use(files: tuple[str, str]) -> None:
    out, loaded = start(files, {"pandas", "matplotlib", "plotext", "numba", "sklearn"})
    assert "First matches" in out
    assert loaded == ""


def test_standard_input(files: tuple[str, str]) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "fastcep", "run", files[0], "--input", "-", "--json"],
        input=EVENTS,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(process.stdout)["matches"] == 7


@pytest.mark.thorough
def test_a_warning_names_no_line_of_the_program(files: tuple[str, str], tmp_path: Path) -> None:
    query = tmp_path / "unbounded.cep"
    query.write_text(QUERIES.replace("WITHIN 10s RETURN", "WITHIN UNBOUNDED RETURN"))
    command = [sys.executable, "-W", "default", "-m", "fastcep", "explain", str(query)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.startswith("warning: query 'pairs' is WITHIN UNBOUNDED: its state grows with the stream; ")
