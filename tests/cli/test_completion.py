"""The shell completes commands, options, names and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastcep.cli import app

QUERIES = """\
EVENT Payment (card int64)
QUERY large PATTERN SEQ(Payment a) WITHIN 1h
QUERY late PATTERN SEQ(Payment a) WITHIN 2h
QUERY small PATTERN SEQ(Payment a) WITHIN 3h
"""
ODD = """\
EVENT Payment (card int64)
QUERY odd PATTERN SEQ(Payment a) WHERE a.card = NULL WITHIN 1h
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fraud.cep").write_text(QUERIES)
    (tmp_path / "odd.cep").write_text(ODD)
    (tmp_path / "events.csv").write_text("ts,card\n")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "more.cep").write_text(QUERIES)
    (tmp_path / "data" / "more.csv").write_text("ts,card\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(words: str) -> list[str]:
    """Return the words that bash offers after ``fastcep`` and these words, the last of which may be empty."""
    environment = {
        "_FASTCEP_COMPLETE": "complete_bash",
        "COMP_WORDS": f"fastcep {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    result = CliRunner().invoke(app, [], prog_name="fastcep", env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ex", ["explain"]),
        ("run fraud.cep --latency", ["--latency-bound"]),
        ("datasets show d", ["ds1", "ds2"]),
        ("datasets make bike", ["bike_chains"]),
        ("run fraud.cep --shedder h", ["hybrid", "hyi", "hys"]),
        ("evaluate fraud.cep --shedders ri,h", ["ri,hybrid", "ri,hyi", "ri,hys"]),
        ("evaluate fraud.cep --shedders ri,or", ["ri,oracle"]),
        ("run fraud.cep --detector p", ["prediction"]),
        ("run fraud.cep --format p", ["parquet"]),
        ("run fraud.cep --index k", ["key"]),
        ("run fraud.cep --cost-table m", ["measured"]),
        ("fit fraud.cep --kind e", ["espice"]),
        ("explain fraud.cep --format m", ["mermaid"]),
        ("run fraud.cep --query la", ["large", "late"]),
        ("run odd.cep --query o", ["odd"]),
        ("run missing.cep --query la", []),
        ("run ", ["data/", "fraud.cep", "odd.cep"]),
        ("run data/", ["data/more.cep"]),
        ("run none/", []),
        ("run fraud.cep --input ", ["data/", "events.csv", "fraud.cep", "odd.cep"]),
        ("run fraud.cep --input .", [".hidden"]),
        ("run fraud.cep --input data/m", ["data/more.cep", "data/more.csv"]),
    ],
)
@pytest.mark.filterwarnings("error::fastcep.errors.QueryWarning")  # the shell would show it
def test_completion(folder: Path, words: str, expected: list[str]) -> None:
    assert completed(words) == expected


def test_the_completion_can_be_installed() -> None:
    result = CliRunner().invoke(app, ["--help"], prog_name="fastcep", env={"COLUMNS": "120"})
    assert "--install-completion" in result.stdout and "--show-completion" in result.stdout
