"""``--spark`` and ``--master``: matches, models and reports equal those of a single process."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fastcep import datasets
from fastcep.cli import app

runner = CliRunner()
COLUMNS = "(bike int64 FROM 'bike_id', start int64 FROM 'start_terminal', end int64 FROM 'end_terminal')"
PATHS = """QUERY hot_paths
PATTERN SEQ(BikeTrip{2,} a[], BikeTrip b)
WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike WITHIN 1h
RETURN b.bike AS bike, b.time + 7ns AS at, a[].time AS times
"""
BACK = """QUERY back
PATTERN SEQ(BikeTrip out, NEG BikeTrip n, BikeTrip back)
WHERE out.bike = back.bike AND out.start = back.end AND n.bike = out.bike WITHIN 2h
QUERY rest
PATTERN SEQ(BikeTrip b, NEG BikeTrip n) WHERE b.bike = n.bike AND b.start = b.end WITHIN 30min
"""
TEXT = "STREAM TIME 'start_date' FORMAT '%m/%d/%Y %H:%M' ZONE 'America/Los_Angeles'\n"
STAMPS = "STREAM TIME 'start_date'\n"


def trips() -> pa.Table:
    """Return trips of a week; many have the same time, and no column gives their order in the file."""
    table = pq.read_table(datasets.path("bayarea_2014")).slice(20_000, 6_000)
    return table.select(["start_date", "bike_id", "start_terminal", "end_terminal"])


def queries(folder: Path, stream: str, text: str) -> str:
    path = folder / "q.cep"
    path.write_text(f"{stream}EVENT BikeTrip {COLUMNS}\n{text}")
    return str(path)


def written(table: pa.Table, folder: Path, form: str) -> tuple[str, list[str]]:
    """Write trips in a format; return the STREAM clause and the input paths."""
    times = table["start_date"]
    texts = times.cast(pa.timestamp("s")).to_pylist()
    if form == "csv.gz":
        table = table.set_column(0, "start_date", pa.array([f"{time:%m/%d/%Y %H:%M}" for time in texts]))
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        path = folder / "trips.csv.gz"
        path.write_bytes(gzip.compress(sink.getvalue().to_pybytes()))
        return TEXT, [str(path)]
    if form == "jsonl":
        rows = table.set_column(0, "start_date", pa.array([time.isoformat() for time in texts])).to_pylist()
        path = folder / "trips.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return STAMPS, [str(path)]
    unit = form.partition(" ")[2]
    table = table.set_column(0, "start_date", times.cast(pa.timestamp(unit, "UTC")))
    (folder / "trips").mkdir()
    for number, start in enumerate(range(0, len(table), 2_000)):  # a boundary within a minute
        part = folder / "trips" / f"part {9 - number if number else 0}.parquet"
        pq.write_table(table.slice(start, 2_000), part)
    order = ["part 0.parquet", "part 8.parquet", "part 7.parquet"]
    return STAMPS, [str(folder / "trips" / name) for name in order]


def run(*arguments: str) -> Any:
    result = runner.invoke(app, [*arguments])
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "text", "ending"),
    [
        ("csv.gz", PATHS + BACK, "parquet"),
        ("jsonl", PATHS, "jsonl"),
        ("parquet us", PATHS + BACK, "arrow"),
        ("parquet ns", PATHS, "parquet"),
    ],
)
def test_the_file_is_that_of_one_engine(spark: Any, tmp_path: Path, form: str, text: str, ending: str) -> None:
    stream, sources = written(trips(), tmp_path, form)
    inputs = [part for source in sources for part in ("--input", source)]
    file = queries(tmp_path, stream, text)
    local, remote = tmp_path / f"local.{ending}", tmp_path / f"remote.{ending}"
    expected = json.loads(run("run", file, *inputs, "--sort", "--output", str(local), "--json").stdout)
    result = json.loads(run("run", file, *inputs, "--spark", "--output", str(remote), "--json").stdout)
    if ending == "jsonl":
        assert remote.read_text() == local.read_text()
    else:
        read = pq.read_table if ending == "parquet" else lambda path: pa.ipc.open_file(path).read_all()
        assert read(remote).equals(read(local))
    assert expected["matches"] > 50
    assert list(result) == list(expected)
    for key in ("events", "matches", "matches_by_query", "bad_rows", "late", "estimated_recall"):
        assert result[key] == expected[key], key
    assert (result["peak_partial_matches"], result["memory_bytes"]) == (0, 0)


@pytest.mark.spark
@pytest.mark.thorough
def test_bad_rows_and_what_is_printed(spark: Any, tmp_path: Path) -> None:
    file, events, bad = tmp_path / "q.cep", tmp_path / "e.csv", tmp_path / "bad.jsonl"
    file.write_text(
        "STREAM TIME 'ts' UNIT s\nEVENT E (x int64)\nQUERY q PATTERN SEQ(E a, E b) WHERE a.x = b.x WITHIN 9s"
    )
    events.write_text("ts,x\n4,1\n1,1\nx,2\n2,2\n")
    result = run("run", str(file), "--input", str(events), "--spark", "--bad-rows", str(bad))
    assert "First matches" in result.stdout and "3 events, 1 matches" in result.stdout
    assert len(bad.read_text().splitlines()) == 1
    failed = runner.invoke(app, ["run", str(file), "--input", str(events), "--spark"])
    assert failed.exit_code == 2
    assert "row 2" in failed.stderr and "'ts'" in failed.stderr
    events.write_text("ts,x\n")
    out = tmp_path / "none.csv"
    result = run("run", str(file), "--input", str(events), "--spark", "--output", str(out))
    assert "0 events, 0 matches" in result.stdout
    assert out.read_text().startswith('"query"')


@pytest.fixture
def ds1(tmp_path: Path) -> tuple[str, str]:
    file, events = tmp_path / "q1.cep", tmp_path / "ds1.csv"
    types = "".join(f"EVENT {name} (ID int64, V int64)\n" for name in "ABCD")
    file.write_text(
        f"STREAM TIME 'ts' UNIT us TYPE 'type'\n{types}QUERY q1 PATTERN SEQ(A a, B b, C c) "
        "WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 1ms"
    )
    csv.write_csv(datasets.ds1(events=20_000, seed=7), events)
    return str(file), str(events)


@pytest.mark.spark
@pytest.mark.thorough
def test_models_are_those_of_one_process(spark: Any, ds1: tuple[str, str], tmp_path: Path) -> None:
    import fastcep as fc

    local, remote = tmp_path / "local", tmp_path / "remote"
    options = ["--cost-table", "paper", "--index", "key", "--clusters", "3"]
    run("fit", ds1[0], "--input", ds1[1], "--output", str(local), *options, "--no-validate")
    report = json.loads(
        run("fit", ds1[0], "--input", ds1[1], "--output", str(remote), *options, "--spark", "--json").stdout
    )
    assert report["events"] == 20_000
    one, other = fc.load_model(local), fc.load_model(remote)
    assert one.query == other.query
    assert one.parts["values"].select(["variable", "of", "members"]).equals(
        other.parts["values"].select(["variable", "of", "members"])
    )


@pytest.mark.spark
@pytest.mark.thorough
def test_an_error_of_a_task_is_one_line(spark: Any, ds1: tuple[str, str]) -> None:
    result = runner.invoke(app, ["run", ds1[0], "--input", ds1[1], "--spark", "--memory-limit", "56KiB"])
    assert result.exit_code == 2
    assert "error: DataFrame, slice 0: no room for" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.spark
@pytest.mark.thorough
def test_reports_are_those_of_one_process(spark: Any, ds1: tuple[str, str]) -> None:
    options = ["--shedders", "ri,rs", "--demands", "30%", "--cost-table", "paper", "--index", "key", "--json"]
    arguments = ["evaluate", ds1[0], "--input", ds1[1], *options]
    assert run(*arguments, "--spark").stdout == run(*arguments).stdout


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.slow
def test_a_separate_process_prints_only_matches(ds1: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "fastcep", "run", ds1[0], "--input", ds1[1]]
    output = ["--output", "-", "--output-format", "jsonl"]
    expected = subprocess.run([*command, *output], capture_output=True, text=True, check=True).stdout
    result = subprocess.run([*command, *output, "--spark"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected
    assert "20,000 events" in result.stderr


# -------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--master", "local[2]"], "--master local[2] needs --spark; add it"),
        (["--spark", "--latency-bound", "1ms"], "--latency-bound cannot be used with --spark"),
        (["--spark", "--latency-bound", "1ms", "--shedder", "ri"], "--latency-bound cannot be used with --spark"),
        (["--spark", "--checkpoint", "state"], "--checkpoint cannot be used with --spark"),
        (["--spark", "--allowed-lateness", "1s"], "--allowed-lateness cannot be used with --spark"),
        (["--spark", "--late", "late.csv"], "--late cannot be used with --spark"),
        (["--spark", "--clock", "virtual"], "--clock cannot be used with --spark"),
        (["--spark", "--on-memory-limit", "shed"], "--on-memory-limit cannot be used with --spark"),
    ],
)
def test_what_does_not_go_together_is_refused(ds1: tuple[str, str], options: list[str], message: str) -> None:
    result = runner.invoke(app, ["run", ds1[0], "--input", ds1[1], *options])
    assert result.exit_code == 2
    assert message in result.stderr


def test_jobs_and_spark_exclude_each_other(ds1: tuple[str, str]) -> None:
    arguments = ["--shedders", "ri", "--demands", "30%", "--jobs", "2", "--spark"]
    result = runner.invoke(app, ["evaluate", ds1[0], "--input", ds1[1], *arguments])
    assert result.exit_code == 2
    assert "--jobs 2 starts local processes, and --spark has its own" in result.stderr


def test_without_java_it_says_what_to_do(ds1: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-m", "fastcep", "run", ds1[0], "--input", ds1[1], "--spark"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 2
    assert "--spark needs Java 17 or newer" in result.stderr


def test_text_cannot_be_read_by_other_machines(ds1: tuple[str, str]) -> None:
    """The input is rejected before Spark is used."""
    pytest.importorskip("pyspark")
    from fastcep.cli.inputs import InputOptions
    from fastcep.cli.run import load
    from fastcep.cli.spark import SparkOptions, events_on_spark
    from fastcep.errors import ValidationError

    schema, _ = load(Path(ds1[0]))
    remote = SparkOptions("spark://there:7077")
    with (
        pytest.raises(ValidationError, match="expected Parquet files at paths that all executors see"),
        events_on_spark(None, InputOptions(), [ds1[1]], schema, remote),  # type: ignore[arg-type]
    ):
        pass
