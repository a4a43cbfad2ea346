"""``fastcep migrate simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()


def simulate(*options: str) -> Any:
    return runner.invoke(app, ["migrate", "simulate", *options])


def test_one_json_object() -> None:
    result = simulate("--utility", "skew10", "--sizes", "trips", "--deadline", "5s", "--method", "greedy", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["states"] == 8_000 and found["method_used"] == "greedy" and found["capacity"] == 499_900
    assert found["planned"]["bytes"] <= 499_900 and found["planned"]["states"] == found["received"]["states"]
    assert 0.18 < found["time_share_of_80_percent"] < 0.21
    rows = found["rows"]
    assert len(rows) == 21 and rows[0] == {
        "method": "greedy", "utility": "skew10", "time_share": 0.0, "utility_share": 0.0,
    }  # fmt: skip
    shares = [row["utility_share"] for row in rows]
    assert shares == sorted(shares) and shares[-1] == found["received"]["utility_share"] < 1


def test_the_answer_as_text() -> None:
    result = simulate("--states", "100", "--bandwidth", "1280", "--latency", "0s", "--deadline", "5s")
    assert result.exit_code == 0, result.output
    for text in ("greedy: 50 of 100 states planned, 6,400 of 6,400 bytes", "received 50 states", "all take 10.000 s"):
        assert text in result.stdout
    result = simulate("--states", "100", "--deadline", "0s")
    assert "80% of the utility: not received" in result.stdout
    result = simulate("--states", "100")
    assert "received 100 states and 100.0% of the utility" in result.stdout


def test_sizes_of_a_file_and_a_method(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("51\n50\n50\n")
    options = ("--sizes", str(tmp_path / "sizes.txt"), "--states", "3", "--utility", "size", "--bandwidth", "100")
    used = {}
    for method in ("greedy", "dp", "fptas", "random", "auto"):
        result = simulate(*options, "--latency", "0s", "--deadline", "1s", "--method", method, "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        used[method] = (found["method_used"], found["planned"]["bytes"], found["rows"][0]["method"])
    assert used["greedy"] == ("greedy", 51, "greedy") and used["dp"] == ("dp", 100, "dp")
    assert used["fptas"] == ("fptas", 100, "fptas") and used["auto"][1:] == (100, "auto")
    assert used["random"][0] == "random"


EVENTS = ("--states", "100", "--bandwidth", "12800", "--method", "greedy", "--event-rate", "100", "--service", "1ms")


@pytest.mark.parametrize("track", ["single", "parallel"])
def test_events_during_the_migration(track: str) -> None:
    result = simulate(*EVENTS, "--track", track, "--event-size", "20B", "--deadline", "600ms", "--json")
    assert result.exit_code == 0, result.output
    events = json.loads(result.stdout)["events"]
    assert 0.5 < events["resumed_seconds"] < 0.6 < events["caught_up_seconds"] and 50 <= events["most_buffered"] <= 61
    assert (events["by_old_host"] > 50, events["freeze_seconds"] > 0.55) == (track == "parallel", track == "single")
    assert 0.3 < events["output_share"] < 1
    result = simulate(*EVENTS, "--track", track, "--deadline", "600ms")
    assert "no output for 0." in result.stdout and "expected share of the outputs: " in result.stdout


def test_a_host_that_is_lost_at_once() -> None:
    assert "outputs end" in simulate(*EVENTS, "--deadline", "0s").stdout
    events = json.loads(simulate(*EVENTS, "--deadline", "0s", "--json").stdout)["events"]
    assert events["freeze_seconds"] is events["resumed_seconds"] is events["caught_up_seconds"] is None
    assert "events" not in json.loads(simulate("--states", "10", "--json").stdout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--states", "0"), "--states=0: expected a whole number, at least 1"),
        (("--utility", "skewed"), "--utility='skewed': expected one of uniform"),
        (("--sizes", "nowhere.txt"), "--sizes='nowhere.txt': no such file; expected equal, trips or a file"),
        (("--method", "best"), "--method='best': expected one of auto"),
        (("--deadline", "soon"), "--deadline='soon': 'soon' is no duration"),
        (("--bandwidth", "0"), "--bandwidth='0': '0' is no size"),
        (("--latency", "x"), "--latency='x'"),
        (("--resume", "x"), "--resume='x'"),
        (("--epsilon", "2"), "--epsilon=2.0: expected a number from 0.001"),
        (("--event-rate", "0"), "--event-rate=0.0: expected a number of events per second above 0"),
        (("--event-rate", "1", "--track", "both"), "--track='both': expected single or parallel"),
        (("--event-rate", "1", "--event-size", "0"), "--event-size='0': '0' is no size"),
        (("--event-rate", "1", "--service", "x"), "--service='x': 'x' is no duration"),
        (("--seed", "-1"), "--seed=-1: expected a whole number"),
    ],
)
def test_errors(options: tuple[str, ...], message: str) -> None:
    result = simulate(*options)
    assert result.exit_code == 2 and message in result.output.replace("\n", " ")
