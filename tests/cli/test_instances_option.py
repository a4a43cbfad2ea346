"""``--instances``: the output equals that of a single process."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from support.pipe import PAIRS, feed, start, wait_for_match
from typer.testing import CliRunner

from fastcep import datasets
from fastcep.cli import app

runner = CliRunner()
TRIPS = """\
STREAM TIME 'start_date'
EVENT Trip (bike int64 FROM 'bike_id', start int64 FROM 'start_terminal', end int64 FROM 'end_terminal')
QUERY back
PATTERN SEQ(Trip out, NEG Trip n, Trip back)
WHERE out.bike = back.bike AND out.start = back.end AND n.bike = out.bike WITHIN 2h
RETURN out.bike AS bike, back.time AS at
QUERY rest
PATTERN SEQ(Trip b, NEG Trip n) WHERE b.bike = n.bike AND b.start = b.end WITHIN 30min
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a query file and trips in order."""
    (tmp_path / "q.cep").write_text(TRIPS)
    table = pq.read_table(datasets.path("bayarea_2014")).sort_by("start_date").slice(20_000, 20_000)
    pq.write_table(
        table.select(["start_date", "bike_id", "start_terminal", "end_terminal"]), tmp_path / "trips.parquet"
    )
    return tmp_path


def run(folder: Path, *options: str) -> Any:
    arguments = [
        "run",
        str(folder / "q.cep"),
        "--input",
        str(folder / "trips.parquet"),
        "--batch-rows",
        "700",
        *options,
    ]
    return runner.invoke(app, arguments)


@pytest.mark.sample(1)
def test_output_of_a_single_process(folder: Path) -> None:
    results = {}
    for name, options in {"one": (), "two": ("--instances", "2")}.items():
        result = run(folder, "--json", "--attributes", "--output", str(folder / f"{name}.parquet"), *options)
        assert result.exit_code == 0, result.output
        results[name] = json.loads(result.output)
    assert pq.read_table(folder / "two.parquet").equals(pq.read_table(folder / "one.parquet"))
    same = ("events", "matches", "matches_by_query", "bad_rows")
    assert {key: results["two"][key] for key in same} == {key: results["one"][key] for key in same}
    assert results["two"]["matches"] > 100
    assert results["two"]["peak_partial_matches"] > 0 and results["two"]["memory_bytes"] > 0


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (("--allowed-lateness", "5s"), "--allowed-lateness"),
        (("--checkpoint", "c"), "--checkpoint"),
        (("--latency-bound", "5ms"), "--latency-bound"),
        (("--memory-limit", "1GiB"), "--memory-limit"),
        (("--spark",), "--spark"),
    ],
)
def test_options_for_one_engine(folder: Path, options: tuple[str, ...], option: str) -> None:
    result = run(folder, "--instances", "2", *options)
    assert result.exit_code == 2
    assert f"{option} cannot be used with --instances; omit one of them" in result.output


@pytest.mark.sample(1)
def test_as_many_as_the_load_needs(folder: Path) -> None:
    outputs = []
    for options in ((), ("--instances", "auto", "--buffer-limit", "100000", "--probability", "0.9")):
        path = folder / f"{len(options)}.parquet"
        result = run(folder, "--json", "--output", str(path), *options)
        assert result.exit_code == 0, result.output
        outputs.append(pq.read_table(path))
    assert outputs[0].equals(outputs[1]) and len(outputs[0]) > 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--instances", "auto"), "--instances auto needs --buffer-limit"),
        (("--instances", "2", "--buffer-limit", "9"), "--buffer-limit needs --instances auto"),
        (("--probability", "0.9"), "--probability needs --instances auto"),
        (("--instances", "many"), "--instances many: expected a whole number from 1 to 256, or auto"),
        (("--instances", "257"), "--instances 257: expected a whole number from 1 to 256, or auto"),
        (("--instances", "auto", "--buffer-limit", "0"), "--buffer-limit=0: expected a whole number"),
        (("--instances", "auto", "--buffer-limit", "5", "--probability", "1"), "--probability=1.0: expected a number"),
    ],
)
def test_wrong_numbers(folder: Path, options: tuple[str, ...], message: str) -> None:
    result = run(folder, *options)
    assert result.exit_code == 2 and message in result.output.replace("\n", " ")


def test_a_query_that_cannot_be_cut(folder: Path) -> None:
    (folder / "q.cep").write_text(TRIPS.replace("WITHIN 2h", "WITHIN 2h\nCONSUME consumed"))
    result = run(folder, "--instances", "2")
    assert result.exit_code == 2
    assert "query 'back' cannot be cut by time: CONSUME consumed" in result.output


@pytest.mark.sample(1)
def test_a_bad_row_ends_the_run(folder: Path) -> None:
    """The output has the matches of the rows before it, as with a single process."""
    rows = "kind,id,ts\n" + "".join(f"{'AB'[n % 2]},{n // 2},{n}\n" for n in range(50)) + "A,1,1\n"
    (folder / "q.cep").write_text(PAIRS)
    (folder / "events.csv").write_text(rows)
    found = []
    for options in ((), ("--instances", "2")):
        output = folder / f"{len(options)}.csv"
        arguments = [
            "run",
            str(folder / "q.cep"),
            "--input",
            str(folder / "events.csv"),
            "--output",
            str(output),
            *options,
        ]
        result = runner.invoke(app, arguments)
        assert result.exit_code == 2
        assert "row 52" in result.output or "line 52" in result.output, result.output
        found.append(csv.read_csv(output))
    assert found[0].equals(found[1]) and len(found[0]) == 25


def test_ctrl_c(tmp_path: Path) -> None:
    """It ends the run with the matches of the events until then."""
    (tmp_path / "q.cep").write_text(PAIRS)
    with start("q.cep", "--instances", "2", "--batch-rows", "2", "--output", "m.csv", folder=tmp_path) as process:
        feed(process, "kind,id,ts\n" + "".join(f"{'AB'[n % 2]},{n // 2},{n}\n" for n in range(40)))
        wait_for_match(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    interrupted = re.search(r"interrupted after (\d+) events", errors)
    assert interrupted is not None, errors
    assert len(csv.read_csv(tmp_path / "m.csv")) == int(interrupted[1]) // 2 > 0
