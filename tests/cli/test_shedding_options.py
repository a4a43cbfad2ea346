"""Options of ``fastcep run`` for load shedding, on a file of DS1 and the virtual clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.shedding.shed_runs import Q1, cep_text
from typer.testing import CliRunner

import fastcep as fc
from fastcep.cli import app
from fastcep.cli.durable.record import Record
from fastcep.datasets import write_ds1_csv
from fastcep.io import open_source
from fastcep.shedding import by_name

runner = CliRunner()

EVENTS = 20_000
VIRTUAL = ["--clock", "virtual", "--cost-table", "paper", "--index", "key"]
BOUND = [*VIRTUAL, "--latency-bound", "40ns"]
RI = [*BOUND, "--shedder", "ri"]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ds1") / "ds1.csv"
    write_ds1_csv(path, events=EVENTS, header=True)
    return path


@pytest.fixture(autouse=True)
def folder(stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "q.cep").write_text(cep_text(q1=Q1.replace("2ms", "8ms")))
    (tmp_path / "e.csv").write_bytes(stream.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*options: str) -> Any:
    return runner.invoke(app, ["run", "q.cep", "--input", "e.csv", "--json", *options], catch_exceptions=False)


def counts(*options: str) -> dict[str, Any]:
    """Return the summary of a run without the keys that depend on the machine or on batch boundaries."""
    result = start(*options)
    assert result.exit_code == 0, result.stderr
    parts = json.loads(result.stdout)
    return {key: value for key, value in parts.items() if key not in ("seconds", "events_per_second", "memory_bytes")}


def fault(*options: str) -> str:
    """Return the error message of a run with wrong options."""
    result = start(*options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return str(result.stderr).removeprefix("error: ").strip()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shedder", "events"),
    [("ri", True), ("si", True), ("e-bl", True), ("bl", True), ("rs", False), ("ss", False), ("pm-bl", False)],
)
def test_a_shedder_holds_the_bound(shedder: str, events: bool) -> None:
    unshed = counts(*VIRTUAL)
    assert (unshed["shed_events"], unshed["shed_matches"], unshed["estimated_recall"]) == (0, 0, 1.0)
    shed = counts(*BOUND, "--shedder", shedder, "--output", "m.csv")
    assert (shed["shed_events"] > 0, shed["shed_matches"] > 0) == (events, not events)
    assert shed["events"] == EVENTS
    assert 0 < shed["matches"] < unshed["matches"]
    assert shed["estimated_recall"] == pytest.approx(shed["matches"] / unshed["matches"], abs=0.1)
    assert counts(*BOUND, "--shedder", shedder, "--output", "again.csv", "--batch-rows", "777") == shed
    assert Path("again.csv").read_bytes() == Path("m.csv").read_bytes()


def test_the_options_are_those_of_the_engine() -> None:
    document = fc.parse_file("q.cep")
    engine = fc.Engine(
        document.queries,
        latency_bound="40ns",
        shedder=by_name("rs", seed=5),
        clock="virtual",
        cost_table="paper",
        index="key",
    )
    with open_source("e.csv", document.schema) as source:
        matches = sum(len(engine.process(batch)) for batch in source) + len(engine.flush())
    shedding = engine.metrics()["shedding"]
    summary = counts(*BOUND, "--shedder", "rs", "--seed", "5")
    assert summary["matches"] == matches
    assert summary["shed_matches"] == shedding["dropped_partial_matches"]
    assert summary["estimated_recall"] == round(shedding["estimated_recall"], 6)


def test_seeds_change_the_result_and_0_is_the_default() -> None:
    default = counts(*RI)
    assert counts(*RI, "--seed", "0") == default
    assert counts(*RI, "--seed", "1") != default


@pytest.mark.sample(1)
def test_the_detector_changes_the_result() -> None:
    assert counts(*RI, "--detector", "latency") == counts(*RI)
    assert counts(*RI, "--detector", "prediction") != counts(*RI)


def test_a_bound_alone_sheds_and_none_drops_nothing() -> None:
    assert counts(*BOUND, "--shedder", "none") == counts(*VIRTUAL)
    assert counts(*BOUND) == counts(*BOUND, "--shedder", "auto") != counts(*VIRTUAL)


@pytest.mark.sample(1)
def test_the_index_and_the_table_change_what_work_costs() -> None:
    assert counts(*VIRTUAL[:4], "--latency-bound", "40ns", "--shedder", "ri")["matches"] > counts(*RI)["matches"]
    costs = {"name": "expensive", "nanoseconds": fc.CostTable("expensive", visited=3.0, created=3.0).nanoseconds}
    Path("expensive.json").write_text(json.dumps(costs))
    expensive = counts("--clock", "virtual", "--cost-table", "expensive.json", *RI[4:])
    assert expensive["matches"] < counts(*RI)["matches"]


def test_the_summary_reports_what_was_shed() -> None:
    result = runner.invoke(app, ["run", "q.cep", "--input", "e.csv", "--limit-print", "0", *RI])
    assert result.exit_code == 0, result.stderr
    summary = counts(*RI)
    shed = f"shed: {summary['shed_events']:,} events, 0 windows, 0 partial matches; estimated recall 0."
    assert shed in result.stdout


# ------------------------------------------------------------------------------------------------------------- memory

SHED = ["--on-memory-limit", "shed", "--index", "key"]


def test_memory_is_shed_instead_of_an_error() -> None:
    unshed = counts("--index", "key")
    stopped = start("--index", "key", "--memory-limit", "250KiB")
    assert stopped.exit_code == 2
    assert "over --memory-limit 256,000 bytes" in stopped.stderr
    result = start(*SHED, "--memory-limit", "250KiB", "--shedder", "rs", "--batch-rows", "500")
    assert result.exit_code == 0, result.stderr
    shed = json.loads(result.stdout)
    assert shed["events"] == EVENTS
    assert shed["shed_matches"] > 0
    assert 0 < shed["matches"] < unshed["matches"]
    assert shed["memory_bytes"] <= 250 * 1024


def test_partial_matches_lost_for_want_of_memory_are_counted() -> None:
    """A batch that exceeds the limit restarts the query before the detector runs."""
    some = counts(*SHED, "--memory-limit", "100KiB", "--shedder", "ri")
    assert some["shed_matches"] > 0, "ri drops no partial match by itself"
    assert some["matches"] < counts("--index", "key")["matches"]


# ------------------------------------------------------------------------------------------------------- a checkpoint


def spoil(row: int) -> str:
    """Replace a row by a bad one, and return the original."""
    lines = Path("e.csv").read_text().splitlines(keepends=True)
    lines[row], original = "A,wrong,1,1\n", lines[row]
    Path("e.csv").write_text("".join(lines))
    return original


def restore(row: int, original: str) -> None:
    lines = Path("e.csv").read_text().splitlines(keepends=True)
    lines[row] = original
    Path("e.csv").write_text("".join(lines))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["--detector", "prediction"], ["--seed", "4"]])
@pytest.mark.parametrize("shedder", ["ri", "rs"])
def test_a_run_that_sheds_resumes(shedder: str, options: list[str]) -> None:
    options = [*BOUND, "--shedder", shedder, "--batch-rows", "1000", *options]
    plain = counts(*options, "--output", "plain.csv")
    assert plain["shed_events"] + plain["shed_matches"] > 0
    command = [*options, "--output", "durable.csv", "--checkpoint", "state", "--checkpoint-every", "0s"]
    original = spoil(12_345)
    first = start(*command)
    assert first.exit_code == 2 and "start the command again to resume" in first.stderr
    restore(12_345, original)
    assert counts(*command) == plain
    assert Path("durable.csv").read_bytes() == Path("plain.csv").read_bytes()


@pytest.mark.thorough
def test_memory_is_shed_by_a_run_that_resumes() -> None:
    options = [*SHED, *VIRTUAL[:4], "--memory-limit", "250KiB", "--shedder", "rs", "--batch-rows", "500"]
    plain = counts(*options)
    original = spoil(12_001)  # the first row of a batch, as the memory in use depends on batch boundaries
    command = [*options, "--checkpoint", "state", "--checkpoint-every", "0s"]
    assert start(*command).exit_code == 2
    restore(12_001, original)
    again = counts(*command)
    assert again["shed_matches"] > 0 and plain["shed_matches"] > 0
    assert again["events"] == plain["events"]  # memory and drops depend on the restore
    assert again["matches"] == pytest.approx(plain["matches"], rel=0.1)


def stopped(*options: str) -> list[str]:
    """Start a run that stops in the middle; return the command that resumes it."""
    command = [*options, "--checkpoint", "state", "--checkpoint-every", "0s"]
    original = spoil(5000)
    assert start(*command).exit_code == 2
    restore(5000, original)
    return command


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("option", "now", "message"),
    [
        ("--latency-bound", "50ns", 'found --latency-bound "50ns", expected "40ns"'),
        ("--shedder", "si", 'found --shedder "si", expected "ri"'),
        ("--detector", "queue", 'found --detector "queue", expected not given'),
        ("--seed", "7", "found --seed 7, expected not given"),
        ("--clock", "wall", 'found --clock "wall", expected "virtual"'),
        ("--cost-table", "measured", 'found --cost-table "measured", expected "paper"'),
        ("--index", "full", 'found --index "full", expected "key"'),
    ],
)
def test_a_run_that_goes_on_must_have_the_same_options(option: str, now: str, message: str) -> None:
    command = stopped(*RI)
    assert message in fault(*command, option, now)
    assert counts(*command) == counts(*RI)


def test_the_same_bound_may_have_another_spelling() -> None:
    command = stopped(*BOUND[:-1], "2us")
    assert counts(*command[: command.index("2us")], "2000ns", *command[command.index("2us") + 1 :]) == counts(*VIRTUAL)


def test_a_folder_without_these_options_resumes() -> None:
    command = stopped()
    path = Path("state/checkpoint.json")
    record = Record.from_bytes(path.read_bytes(), str(path))
    settings = {key: value for key, value in record.settings.items() if key not in NEW}
    assert set(record.settings) - set(settings) == set(NEW)
    record.settings.clear()  # type: ignore[attr-defined]
    record.settings.update(settings)  # type: ignore[attr-defined]
    path.write_bytes(record.to_bytes())
    assert 'found --shedder "ri", expected not given' in fault(*command, *RI[-4:])
    assert counts(*command) == counts()


NEW = (
    "--latency-bound", "--shedder", "--detector", "--seed", "--clock", "--cost-table", "--on-memory-limit", "--index",
)  # fmt: skip


# -------------------------------------------------------------------------------------------------------- bad options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*BOUND, "--shedder", "rii"], "--shedder: unknown name 'rii'; did you mean 'ri'?"),
        ([*BOUND, "--shedder", "pmbl"], "--shedder: unknown name 'pmbl'; did you mean 'pm-bl'?"),
        ([*BOUND, "--shedder", "?"], "--shedder: unknown name '?'; there is 'ri', 'si', 'rs', 'ss', "),
        ([*BOUND, "--shedder", "espice"], "--shedder espice needs a model; create one with fastcep fit, and give"),
        ([*BOUND, "--shedder", "pspice"], "--shedder pspice needs a model; create one with fastcep fit, and give"),
        ([*BOUND, "--shedder", "classes"], "--shedder 'classes' needs classes and refuse, which Python has"),
        ([*RI, "--detector", "latncy"], "--detector: unknown name 'latncy'; did you mean 'latency'?"),
        (
            [*RI, "--detector", "memory"],
            "--detector 'memory' has no limit to hold: give --memory-limit … with --on-memory-limit shed",
        ),
        (["--detector", "latency"], "--detector without --shedder does nothing: give --shedder"),
        ([*BOUND, "--shedder", "none", "--detector", "queue"], "--detector without --shedder does nothing"),
        (["--seed", "1"], "--seed needs a shedder; give --shedder NAME"),
        ([*RI, "--seed", str(1 << 64)], f"--shedder 'ri': seed={1 << 64}; expected a whole number from 0 to 2^64 - 1"),
        (
            ["--shedder", "ri"],
            "--shedder='ri' has nothing to hold: give --latency-bound …, or --memory-limit … with --on-memory-limit "
            "shed",
        ),
        (["--latency-bound", "40"], "--latency-bound: '40' is no duration; expected a number and a unit (ns, us"),
        (["--latency-bound", "soon"], "--latency-bound: 'soon' is no duration"),
        (["--latency-bound", "-4ns"], "--latency-bound: '-4ns' is no duration"),
        (["--latency-bound", "0ns"], "--latency-bound='0ns': expected a time above 0"),
        (
            ["--latency-bound", "1ns", "--shedder", "ri"],
            "--latency-bound=1 ns is below the cost of a dropped event, ",
        ),
        (["--clock", "vitrual"], "--clock='vitrual': expected 'wall' or 'virtual'\n"),
        (
            ["--cost-table", "none.json"],
            '--cost-table \'none.json\': there is no such file; expected "measured", "paper" or a file\n',
        ),
        (["--cost-table", "./paper"], "--cost-table './paper': there is no such file; expected"),
        (["--cost-table", "q.cep"], "--cost-table 'q.cep': expected JSON, as `fastcep calibrate --output` writes it"),
        (["--index", "ful"], "--index='ful': expected one of 'full', 'key', 'off'"),
        (["--on-memory-limit", "drop"], "--on-memory-limit='drop': expected 'raise' or 'shed'"),
        (["--on-memory-limit", "shed"], "--on-memory-limit shed needs --memory-limit …\n"),
        (
            ["--on-memory-limit", "shed", "--memory-limit", "1MiB", "--shedder", "none"],
            "--on-memory-limit shed needs a shedder, such as --shedder rs\n",
        ),
        (["--on-memory-limit", "shed", "--shedder", "ri"], "--on-memory-limit shed needs --memory-limit …\n"),
    ],
)
def test_wrong_options(options: list[str], message: str) -> None:
    assert f"{fault(*options)}\n".startswith(message)


def test_a_negative_seed_is_refused() -> None:
    result = start(*RI, "--seed", "-1")
    assert result.exit_code == 2
    assert "--seed" in result.stderr
