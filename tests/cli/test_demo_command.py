"""``fastcep demo`` on the complete shipped data set."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fastcep.cli import app
from fastcep.cli.demo import hottest

runner = CliRunner()


def test_demo_as_json(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    result = runner.invoke(app, ["demo", "--json", "--picture", str(picture)])
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["events"] == 326_339
    assert summary["matches"] == 18_638
    assert summary["peak_partial_matches"] > 0
    assert len(summary["hottest"]) == 10
    counts = [row["matches"] for row in summary["hottest"]]
    assert counts == sorted(counts, reverse=True)
    assert all(len(row["path"]) >= 4 for row in summary["hottest"])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 0, result.stderr
    assert "18,638 matches" in result.stdout
    assert "→" in result.stdout
    assert "events/s" in result.stdout
    assert "Live partial matches" in result.stdout
    assert (tmp_path / "hot_paths.png").exists()


def test_picture_into_no_folder(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--picture", str(tmp_path / "no" / "p.png")])
    assert result.exit_code == 2
    assert "does not exist; create it first" in result.stderr


def test_paths_are_counted_and_named() -> None:
    trips = pa.table(
        {
            "start_terminal": [1, 2, 3, 4],
            "start_station": ["one", "two", "three", "four"],
            "end_terminal": [2, 3, 4, 1],
            "end_station": ["two", "three", "four", "one"],
        }
    )
    matches = pa.table(
        {
            "starts": [[1, 2], [1, 2], [2, 3, 4]],
            "reached": [3, 3, 1],
            "onward": [3, 3, 2],
            "finish": [4, 4, 3],
        }
    )
    assert hottest(matches, trips) == [
        (2, ["one", "two", "three", "four"]),
        (1, ["two", "three", "four", "one", "(moved by van)", "two", "three"]),
    ]
