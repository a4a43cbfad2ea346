"""``fastcep calibrate`` with fixed times of the runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastcep.arrivals import calibration as module
from fastcep.arrivals.calibration import COUNTERS, TimedRun
from fastcep.cli import app
from fastcep.overload.costs import cost_table

runner = CliRunner()
COSTS = (1.5, 20.0, 4.0, 12.0, 7.25)


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the timed runs by five runs of one operation each."""
    timed_runs = [
        TimedRun(f"only {key}", {**dict.fromkeys(COUNTERS, 0), key: 1000}, 1000 * cost)
        for key, cost in zip(COUNTERS, COSTS, strict=True)
    ]
    monkeypatch.setattr(module, "measure", lambda *_: timed_runs)
    monkeypatch.setattr(module, "workload_stream", lambda: None)
    monkeypatch.setattr(module, "measure_shedding", lambda *_: {"refused": 2.0, "purged": 2.0, "decision": 20_000.0})


def test_the_table_is_shown_and_written(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    result = runner.invoke(app, ["calibrate", "--output", str(path), "--seconds", "1"])
    assert result.exit_code == 0, result.stderr
    table = cost_table(path)
    assert table.name == "here"
    assert table.nanoseconds == dict(zip(COUNTERS, COSTS, strict=True)) | {
        "refused": 2.0, "purged": 2.0, "decision": 20_000.0,
    }  # fmt: skip
    for text in (
        "20,000.000",
        "fitted",
        "measured separately",
        "only created",
        "median relative error 0.0% over 5 runs",
        table.hash,
    ):
        assert text in result.stdout
    assert json.loads(path.read_text())["about"]["measured_apart"] == ["refused", "purged", "decision"]


def test_json_is_all_that_is_printed() -> None:
    result = runner.invoke(app, ["calibrate", "--json"])
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["name"] == "calibrated"
    assert data["nanoseconds"]["relevant"] == 20.0
    assert len(data["about"]["runs"]) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--seconds", "0"], "expected more than 0"), (["--output", "none/x.json"], "there is no folder 'none'")],
)
def test_wrong_options(options: list[str], message: str) -> None:
    result = runner.invoke(app, ["calibrate", *options])
    assert result.exit_code == 2
    assert message in result.stderr
