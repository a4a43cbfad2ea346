"""``fastcep degree`` and ``fastcep profile``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pytest
from typer.testing import CliRunner

from fastcep.cli import app
from fastcep.datasets import ds1
from fastcep.parallel import Profile

runner = CliRunner()
LIMIT = ("--buffer-limit", "15", "--probability", "0.95")
PAIRS = """\
STREAM TIME 'ts' UNIT us TYPE 'type' OTHER TYPES IGNORE
EVENT A (ID int64)
EVENT B (ID int64)
QUERY pairs
PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms
"""


def degree(*options: str) -> Any:
    return runner.invoke(app, ["degree", *options])


@pytest.mark.parametrize(
    ("arrival", "service", "instances", "method"),
    [
        ("uniform:100ms:200ms", "exponential:300ms", 10, "M/M/c"),
        ("pareto:50ms:2", "exponential:300ms", 6, "M/M/c"),
        ("exponential:40ms", "uniform:100ms:200ms", 6, "M/D/c"),
        ("exponential:66.67ms", "pareto:50ms:2", 10, "M/D/c"),
        ("exponential:200ms", "deterministic:1.25s", 8, "M/D/c"),
    ],
)
def test_degrees_of_the_paper(arrival: str, service: str, instances: int, method: str) -> None:
    result = degree("--arrival", arrival, "--service", service, *LIMIT, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["instances"], found["method"]) == (instances, method)
    assert found["probability_with_fewer"] < 0.95 <= found["probability"]
    assert found["arrival"]["given"] == arrival and found["service"]["given"] == service


def test_the_answer_as_text() -> None:
    result = degree("--arrival", "uniform:100ms:200ms", "--service", "exponential:300ms", *LIMIT)
    assert result.exit_code == 0, result.output
    for text in ("10 instances", "97.61%", "9 instances: 93.96%", "exponential:43.21ms", "M/M/c"):
        assert text in result.stdout


def test_measured_times(tmp_path: Path) -> None:
    times = np.random.default_rng(5).exponential(40.0, 400)
    (tmp_path / "gaps.txt").write_text("".join(f"{time:.3f}ms\n" for time in times))
    samples = f"samples:{tmp_path / 'gaps.txt'}"
    result = degree("--arrival", samples, "--service", "deterministic:100ms", *LIMIT, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["arrival"]
    assert found["fit"]["accepted"] and found["used"].startswith("exponential:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--service", "deterministic:1ms", "--profile", "FILE"), "give either --service"),
        ((), "give either --service"),
        (("--service", "fast"), "--service: 'fast' is no distribution; expected exponential:MEAN"),
        (("--service", "deterministic:500ms"), "give a limit of at least"),
        (("--service", "deterministic:100ms", "--most", "9"), "the system is unstable: the load keeps 10 instances"),
        (("--service", "deterministic:100ms", "--most", "0"), "--most=0: expected a whole number from 1"),
        (("--service", "samples:nowhere.txt"), "nowhere.txt"),
    ],
)
def test_errors(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    Profile.of({1.0: 1e6}).save(tmp_path / "p.json")
    options = tuple(option.replace("FILE", str(tmp_path / "p.json")) for option in options)
    result = degree("--arrival", "exponential:10ms", *options, *LIMIT)
    assert result.exit_code == 2 and message in result.output.replace("\n", " ")


def test_a_profile_is_measured_and_used(tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(PAIRS)
    csv.write_csv(ds1(20_000, 3), tmp_path / "events.csv")
    profile = tmp_path / "profile.json"
    arguments = ["profile", str(tmp_path / "q.cep"), "--input", str(tmp_path / "events.csv"), "--seconds", "0.05"]
    result = runner.invoke(app, [*arguments, "--rates", "50000,100000", "--output", str(profile)])
    assert result.exit_code == 0, result.output
    assert "50,000" in result.stdout and f"written to {profile}" in result.stdout
    assert [point.rate for point in Profile.load(profile).points] == [50_000, 100_000]
    result = degree("--arrival", "exponential:20us", "--profile", str(profile), *LIMIT, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["service"]["mean_ns"] == pytest.approx(Profile.load(profile).p99(50_000))
    result = runner.invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["points"]) == 5
    result = runner.invoke(app, [*arguments, "--rates", "1,x"])
    assert result.exit_code == 2 and "--rates 1,x: expected numbers of events per second" in result.output
