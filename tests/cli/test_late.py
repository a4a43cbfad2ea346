"""``fastcep run`` on streams that are out of order, and on an idle pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
from support.pipe import PAIRS, feed, start, wait_for_match
from typer.testing import CliRunner

from fastcep.cli import app
from fastcep.events import Schema
from fastcep.io import open_source, write_matches

runner = CliRunner()


def csv_rows(lines: list[str]) -> list[list[str]]:
    return [line.strip().split(",") for line in lines]


EVENTS = "kind,id,ts\nB,1,4\nA,1,2\nA,2,8\nA,1,1\nB,2,7\nB,1,9\n"  # A at 1 is late by 5 s, B at 7 comes before A at 8


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    query, events = tmp_path / "q.cep", tmp_path / "events.csv"
    query.write_text(PAIRS)
    events.write_text(EVENTS)
    return ["run", str(query), "--input", str(events)]


@pytest.mark.sample(7)
@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrow", ".arrows", ".jsonl", ".jsonl.zst"])
def test_late_events_go_to_a_file(files: list[str], tmp_path: Path, rows: int, suffix: str) -> None:
    out, late = tmp_path / "m.parquet", tmp_path / f"late{suffix}"
    options = ["--allowed-lateness", "5s", "--late", str(late), "--output", str(out), "--json"]
    result = runner.invoke(app, [*files, *options, "--batch-rows", str(rows)])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["events"], summary["late"], summary["matches"]) == (5, 1, 2)
    assert parquet.read_table(out).select(["a", "b"]).to_pylist() == [{"a": 1, "b": 0}, {"a": 1, "b": 5}]
    schema = Schema({"A": {"id": "int64"}}, time="ts", type="kind", sequence="seq")
    (row,) = [row for batch in open_source(late, schema) for row in batch.to_pylist()]  # they can be read again
    assert str(row.pop("ts")).startswith("1970-01-01 00:00:01")
    assert row == {"kind": "A", "seq": 3, "id": 1}
    assert result.stderr == ""


@pytest.mark.parametrize("rows", ["1", "3", "100"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_late_events_and_bad_rows_go_their_own_ways(files: list[str], tmp_path: Path, rows: str, form: str) -> None:
    """Bad rows affect neither the lateness nor the sequence numbers of events."""
    late, bad, out = tmp_path / "late.jsonl", tmp_path / "bad.jsonl", tmp_path / "m.csv"
    lines = EVENTS.splitlines(keepends=True)
    if form == "csv":
        lines = [*lines[:3], "A,x,3\n", *lines[3:5], "C,9,99\n", *lines[5:], "A,1,\n"]
        Path(files[-1]).write_text("".join(lines))
    else:
        good = [(kind, int(key), int(time)) for kind, key, time in csv_rows(lines[1:])]
        all_rows = [*good[:2], ("A", 1, None), *good[2:4], ("C", 9, 99), *good[4:], (None, 1, 3)]
        table = pa.table(list(map(list, zip(*all_rows, strict=True))), ["kind", "id", "ts"])
        events = tmp_path / f"events.{form}"
        files[-1] = str(events)
        write_matches(table, events)
    options = ["--allowed-lateness", "5s", "--late", str(late), "--bad-rows", str(bad), "--output", str(out), "--json"]
    result = runner.invoke(app, [*files, *options, "--batch-rows", rows])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["events"], summary["late"], summary["bad_rows"], summary["matches"]) == (5, 1, 3, 2)
    assert csv.read_csv(out).select(["a", "b"]).to_pylist() == [{"a": 1, "b": 0}, {"a": 1, "b": 5}]
    assert [json.loads(line)["seq"] for line in late.read_text().splitlines()] == [3]
    assert [json.loads(line)["row"] for line in bad.read_text().splitlines()] == [2, 5, 8]


def test_sorted_input_has_no_late_events(files: list[str]) -> None:
    result = runner.invoke(app, [*files, "--allowed-lateness", "0s", "--sort", "--json"])
    summary = json.loads(result.stdout)
    assert (summary["events"], summary["late"], summary["matches"]) == (6, 0, 4)


def test_nothing_late_is_a_readable_file(files: list[str], tmp_path: Path) -> None:
    late = tmp_path / "late.parquet"
    result = runner.invoke(app, [*files, "--allowed-lateness", "1min", "--late", str(late)])
    assert result.exit_code == 0, result.stderr
    assert parquet.read_table(late).column_names == ["ts", "kind", "seq", "id"]
    assert parquet.read_table(late).num_rows == 0


def test_late_events_without_a_file_are_counted(files: list[str]) -> None:
    result = runner.invoke(app, [*files, "--allowed-lateness", "5s", "--json"])
    assert json.loads(result.stdout)["late"] == 1
    assert "late events, excluded from all matches: 1; write them with --late PATH" in result.stderr
    result = runner.invoke(app, [*files, "--allowed-lateness", "1min"])
    assert result.stderr == ""
    assert "6 events, 4 matches" in result.stdout


def test_without_lateness_disorder_is_an_error(files: list[str]) -> None:
    result = runner.invoke(app, files)
    assert result.exit_code == 2
    assert "row 1, column 'ts'" in result.stderr and "allowed_lateness" not in result.stderr
    assert "sort the input with --sort, or accept late events with --allowed-lateness DURATION" in result.stderr


@pytest.mark.parametrize("rows", ["3", "100"])
def test_messages_count_rows_across_bad_ones(files: list[str], tmp_path: Path, rows: str) -> None:
    """The engine gets only valid rows; row 6 of the input has a duplicate sequence number."""
    numbered = PAIRS.replace("TYPE 'kind'", "TYPE 'kind' SEQUENCE 'n'")
    Path(files[1]).write_text(numbered)
    lines = ["A,1,0,0", "A,x,0,1", "B,1,2,2", "B,y,3,3", "A,z,3,4", "A,1,4,5", "B,1,4,5", "B,1,5,6"]
    Path(files[3]).write_text("\n".join(["kind,id,ts,n", *lines, ""]))
    options = ["--allowed-lateness", "1s", "--bad-rows", str(tmp_path / "bad.jsonl"), "--batch-rows", rows]
    result = runner.invoke(app, [*files, *options])
    assert result.exit_code == 2
    assert "events.csv, line 8, row 6, column 'n': found 5 at the time" in result.stderr
    assert [json.loads(line)["row"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()] == [1, 3, 4]


def test_held_events_are_not_lost_by_a_bad_row(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "m.parquet"
    (tmp_path / "events.csv").write_text(EVENTS + "C,1,9\n")
    options = ["--allowed-lateness", "1min", "--output", str(out), "--batch-rows", "3"]
    result = runner.invoke(app, [*files, *options])
    assert result.exit_code == 2
    assert "row 6, column 'kind': found undeclared event type 'C'" in result.stderr
    assert parquet.read_table(out).num_rows == 4, "the matches of the two batches before"
    result = runner.invoke(app, ["run", files[1], "--input", str(tmp_path / "none.csv"), "--output",
                                 str(tmp_path / "none.parquet"), "--allowed-lateness", "5s"])  # fmt: skip
    assert result.exit_code == 2 and not (tmp_path / "none.parquet").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allowed-lateness", "5 parsecs"], "--allowed-lateness: unknown unit 'parsecs'"),
        (["--late", "late.csv"], "--late needs --allowed-lateness"),
        (["--idle-timeout", "2s"], "--idle-timeout is for standard input"),
        (["--allowed-lateness", "5s", "--idle-timeout", "2s"], "--idle-timeout is for standard input"),
        (["--allowed-lateness", "5s", "--late", "m.csv", "--output", "./m.csv"], "--late and --output are both"),
        (["--allowed-lateness", "5s", "--late", "late.xlsx"], ".parquet, .arrow"),
        (["--allowed-lateness", "5s", "--late", "no/late.csv"], "no folder"),
        (["--allowed-lateness", "5s", "--late", "-"], "late events cannot be written to standard output"),
        (["--allowed-lateness", "5s", "--late", "l.jsonl", "--bad-rows", "l.jsonl"], "--bad-rows and --late are both"),
        (["--output", "m.jsonl", "--bad-rows", "./m.jsonl"], "--bad-rows and --output are both"),
    ],
)
def test_wrong_options(files: list[str], options: list[str], message: str) -> None:
    result = runner.invoke(app, [*files, *options])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("option", ["--output", "--late"])
def test_an_input_is_not_written_over(files: list[str], option: str) -> None:
    lateness = ["--allowed-lateness", "5s"] if option == "--late" else []
    result = runner.invoke(app, [*files, *lateness, option, files[-1]])
    assert result.exit_code == 2
    assert f"{option} cannot write to '{files[-1]}', which is the input" in result.stderr.replace("\n", "")
    assert Path(files[-1]).read_text() == EVENTS


def test_the_query_is_not_written_over(files: list[str]) -> None:
    before = Path(files[1]).read_text()
    result = runner.invoke(app, [*files, "--output", files[1], "--output-format", "csv"])
    assert result.exit_code == 2 and "which is the query file; give another path" in result.stderr.replace("\n", "")
    assert Path(files[1]).read_text() == before


def test_standard_input_is_not_waited_for_and_sorted(files: list[str]) -> None:
    options = ["--allowed-lateness", "5s", "--idle-timeout", "1s"]
    result = runner.invoke(app, [*files[:3], "-", *options, "--sort"], input=EVENTS)
    assert result.exit_code == 2 and "--idle-timeout has no effect with --sort" in result.stderr
    result = runner.invoke(app, [*files[:3], "-", "--input", files[3], *options], input=EVENTS)
    assert result.exit_code == 2 and "for standard input only" in result.stderr


# ------------------------------------------------------------------ a live pipe


def test_a_quiet_pipe_gives_its_matches(files: list[str], tmp_path: Path) -> None:
    """The writer waits for each match before it writes more, so only the idle timeout can release the match."""
    late = tmp_path / "late.csv"
    with start(files[1], "--allowed-lateness", "1h", "--idle-timeout", "50ms", "--late", str(late)) as process:
        feed(process, "kind,id,ts\n")
        feed(process, "B,1,4\nA,1,2\nA,")
        assert "00:00:04" in wait_for_match(process)
        feed(process, '2,8\nB,"2",9\nA,1,3\n')
        assert "00:00:09" in wait_for_match(process)
        feed(process, "B,2,10")
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "00:00:10" in out and "5 events, 3 matches" in out
    assert csv.read_csv(late).column("seq").to_pylist() == [4], "it arrived after the watermark passed its time"


@pytest.mark.thorough
def test_a_pipe_gives_each_match_when_its_last_event_arrives(files: list[str]) -> None:
    """The writer waits for each match before it writes more, and no option requests that."""
    with start(files[1]) as process:
        feed(process, "kind,id,ts\nA,1,2\nB,1,4\nA,")
        assert "00:00:04" in wait_for_match(process)
        feed(process, '2,8\nB,"2",9\n')
        assert "00:00:09" in wait_for_match(process)
        out, errors = process.communicate("B,2,10")
    assert process.returncode == 0, errors
    assert "00:00:10" in out and "5 events, 3 matches" in out


@pytest.mark.thorough
def test_a_pipe_with_an_idle_timeout_alone(files: list[str]) -> None:
    with start(files[1], "--idle-timeout", "50ms") as process:
        feed(process, "kind,id,ts\nA,1,2\nB,1,4\n")
        assert "00:00:04" in wait_for_match(process)
        out, errors = process.communicate("A,1,3\nB,1,9\n")
    assert process.returncode == 0, errors
    assert "3 events, 2 matches" in out and "late events, excluded from all matches: 1" in errors


def test_a_live_pipe_with_a_bad_row_goes_on(files: list[str], tmp_path: Path) -> None:
    bad, options = tmp_path / "bad.jsonl", ["--allowed-lateness", "1h", "--idle-timeout", "50ms"]
    with start(files[1], *options, "--bad-rows", str(bad), "--output", "-", "--output-format", "jsonl") as process:
        feed(process, "kind,id,ts\nB,1,4\nA,one,1\nA,1,2\n")
        first = wait_for_match(process)
        out, errors = process.communicate("C,1,3\nB,1,9\n")
    assert process.returncode == 0, errors
    assert [(match["a"], match["b"]) for match in map(json.loads, [first, *out.splitlines()])] == [(1, 0), (1, 2)]
    assert [json.loads(line)["row"] for line in bad.read_text().splitlines()] == [1, 3]
    assert f"2 bad rows in {bad}" in errors


@pytest.mark.thorough
def test_a_live_pipe_reports_a_bad_row(files: list[str]) -> None:
    with start(files[1], "--allowed-lateness", "1h", "--idle-timeout", "50ms") as process:
        feed(process, "kind,id,ts\nB,1,4\nA,1,2\n")
        wait_for_match(process)
        _, errors = process.communicate("A,one,2\n")
    assert process.returncode == 2
    assert "standard input, line 4, row 2, column 'id': found 'one'" in errors and "Traceback" not in errors
