"""``fastcep run`` under overload: its options, on a file of DS1 and on the virtual clock."""

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


def start(*more: str) -> Any:
    return runner.invoke(app, ["run", "q.cep", "--input", "e.csv", "--json", *more], catch_exceptions=False)


def counts(*more: str) -> dict[str, Any]:
    """The summary of a run, without what depends on the machine and on how the input was cut."""
    result = start(*more)
    assert result.exit_code == 0, result.stderr
    parts = json.loads(result.stdout)
    return {key: value for key, value in parts.items() if key not in ("seconds", "events_per_second", "memory_bytes")}


def fault(*more: str) -> str:
    """The message of a run that cannot be."""
    result = start(*more)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return str(result.stderr).removeprefix("error: ").strip()


@pytest.mark.parametrize(
    ("shedder", "events"),
    [("ri", True), ("si", True), ("e-bl", True), ("bl", True), ("rs", False), ("ss", False), ("pm-bl", False)],
)
def test_a_shedder_holds_the_bound(shedder: str, events: bool) -> None:
    whole = counts(*VIRTUAL)
    assert (whole["shed_events"], whole["shed_matches"], whole["estimated_recall"]) == (0, 0, 1.0)
    some = counts(*BOUND, "--shedder", shedder, "--output", "m.csv")
    assert (some["shed_events"] > 0, some["shed_matches"] > 0) == (events, not events)
    assert some["events"] == EVENTS
    assert 0 < some["matches"] < whole["matches"]
    assert some["estimated_recall"] == pytest.approx(some["matches"] / whole["matches"], abs=0.1)
    assert counts(*BOUND, "--shedder", shedder, "--output", "again.csv", "--batch-rows", "777") == some
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
        found = sum(len(engine.process(batch)) for batch in source) + len(engine.flush())
    shedding = engine.metrics()["shedding"]
    told = counts(*BOUND, "--shedder", "rs", "--seed", "5")
    assert told["matches"] == found
    assert told["shed_matches"] == shedding["dropped_partial_matches"]
    assert told["estimated_recall"] == round(shedding["estimated_recall"], 6)


def test_seeds_draw_otherwise_and_0_is_the_usual_one() -> None:
    usual = counts(*RI)
    assert counts(*RI, "--seed", "0") == usual
    assert counts(*RI, "--seed", "1") != usual


def test_a_detector_judges_otherwise() -> None:
    assert counts(*RI, "--detector", "latency") == counts(*RI)
    assert counts(*RI, "--detector", "prediction") != counts(*RI)


def test_a_bound_without_shedder_drops_nothing() -> None:
    assert counts(*BOUND) == counts(*VIRTUAL)


def test_the_index_and_the_table_change_what_work_costs() -> None:
    assert counts(*VIRTUAL[:4], "--latency-bound", "40ns", "--shedder", "ri")["matches"] > counts(*RI)["matches"]
    costs = {"name": "dear", "nanoseconds": fc.CostTable("dear", visited=3.0, created=3.0).nanoseconds}
    Path("dear.json").write_text(json.dumps(costs))
    dear = counts("--clock", "virtual", "--cost-table", "dear.json", *RI[4:])
    assert dear["matches"] < counts(*RI)["matches"]


def test_people_are_told_what_was_shed() -> None:
    result = runner.invoke(app, ["run", "q.cep", "--input", "e.csv", "--limit-print", "0", *RI])
    assert result.exit_code == 0, result.stderr
    some = counts(*RI)
    assert f"shed: {some['shed_events']:,} events, 0 partial matches; estimated recall 0." in result.stdout


# ------------------------------------------------------------------------------------------------------------- memory

SHED = ["--on-memory-limit", "shed", "--index", "key"]


def test_memory_is_shed_instead_of_an_error() -> None:
    whole = counts("--index", "key")
    stopped = start("--index", "key", "--memory-limit", "250KiB")
    assert stopped.exit_code == 2
    assert "over --memory-limit 256,000 bytes" in stopped.stderr
    result = start(*SHED, "--memory-limit", "250KiB", "--shedder", "rs", "--batch-rows", "500")
    assert result.exit_code == 0, result.stderr
    some = json.loads(result.stdout)
    assert some["events"] == EVENTS
    assert some["shed_matches"] > 0
    assert 0 < some["matches"] < whole["matches"]
    assert some["memory_bytes"] <= 250 * 1024


def test_partial_matches_given_up_for_want_of_memory_are_told() -> None:
    """Too much at once: the query starts anew before a detector has a say."""
    some = counts(*SHED, "--memory-limit", "100KiB", "--shedder", "ri")
    assert some["shed_matches"] > 0, "ri drops no partial match by itself"
    assert some["matches"] < counts("--index", "key")["matches"]


# ------------------------------------------------------------------------------------------------------- a checkpoint


def spoil(row: int) -> str:
    """Let a row be one that cannot be taken; give what it was."""
    lines = Path("e.csv").read_text().splitlines(keepends=True)
    lines[row], was = "A,wrong,1,1\n", lines[row]
    Path("e.csv").write_text("".join(lines))
    return was


def mend(row: int, was: str) -> None:
    lines = Path("e.csv").read_text().splitlines(keepends=True)
    lines[row] = was
    Path("e.csv").write_text("".join(lines))


@pytest.mark.parametrize("more", [[], ["--detector", "prediction"], ["--seed", "4"]])
@pytest.mark.parametrize("shedder", ["ri", "rs"])
def test_a_run_that_sheds_goes_on(shedder: str, more: list[str]) -> None:
    options = [*BOUND, "--shedder", shedder, "--batch-rows", "1000", *more]
    plain = counts(*options, "--output", "plain.csv")
    assert plain["shed_events"] + plain["shed_matches"] > 0
    command = [*options, "--output", "durable.csv", "--checkpoint", "state", "--checkpoint-every", "0s"]
    was = spoil(12_345)
    first = start(*command)
    assert first.exit_code == 2 and "start the command again to go on" in first.stderr
    mend(12_345, was)
    assert counts(*command) == plain
    assert Path("durable.csv").read_bytes() == Path("plain.csv").read_bytes()


def test_memory_is_shed_by_a_run_that_goes_on() -> None:
    options = [*SHED, *VIRTUAL[:4], "--memory-limit", "250KiB", "--shedder", "rs", "--batch-rows", "500"]
    plain = counts(*options)
    was = spoil(12_001)  # the first of a batch: what is held depends on how the input is cut
    command = [*options, "--checkpoint", "state", "--checkpoint-every", "0s"]
    assert start(*command).exit_code == 2
    mend(12_001, was)
    again = counts(*command)
    assert again["shed_matches"] > 0 and plain["shed_matches"] > 0
    assert again["events"] == plain["events"]  # what is held, and so what is dropped, depends on when it was restored
    assert again["matches"] == pytest.approx(plain["matches"], rel=0.1)


def stopped(*options: str) -> list[str]:
    """Begin a run that stops in the middle; give the command that goes on."""
    command = [*options, "--checkpoint", "state", "--checkpoint-every", "0s"]
    was = spoil(5000)
    assert start(*command).exit_code == 2
    mend(5000, was)
    return command


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


def test_the_same_bound_may_be_written_otherwise() -> None:
    command = stopped(*BOUND[:-1], "2us")
    assert counts(*command[: command.index("2us")], "2000ns", *command[command.index("2us") + 1 :]) == counts(*VIRTUAL)


def test_a_folder_from_before_these_options_goes_on() -> None:
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
        ([*BOUND, "--shedder", "pspice"], "--shedder 'pspice' comes in a later version; available are 'ri', "),
        ([*BOUND, "--shedder", "classes"], "--shedder 'classes' needs classes and refuse, which Python has"),
        ([*RI, "--detector", "latncy"], "--detector: unknown name 'latncy'; did you mean 'latency'?"),
        (
            [*RI, "--detector", "memory"],
            "--detector 'memory' has no limit to hold: give --memory-limit … with --on-memory-limit shed",
        ),
        (["--detector", "latency"], "--detector without --shedder does nothing: give --shedder"),
        ([*BOUND, "--detector", "queue"], "--detector without --shedder does nothing: give --shedder"),
        (["--seed", "1"], "--seed is what a shedder draws by; give --shedder NAME"),
        ([*RI, "--seed", str(1 << 64)], f"--shedder 'ri': seed={1 << 64}; expected a whole number from 0 to 2^64 - 1"),
        (
            ["--shedder", "ri"],
            "--shedder='ri' has nothing to hold: give --latency-bound …, or --memory-limit … with --on-memory-limit "
            "shed",
        ),
        (["--latency-bound", "40"], "--latency-bound: '40' is no duration; expected a whole number and a unit (ns, us"),
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
        (["--on-memory-limit", "shed"], "--on-memory-limit shed needs a shedder, such as --shedder rs\n"),
        (
            ["--on-memory-limit", "shed", "--memory-limit", "1MiB"],
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
