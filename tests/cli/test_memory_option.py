"""``fastcep run --memory-limit``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()

QUERIES = """\
STREAM TIME 'ts' UNIT s TYPE 'kind'
EVENT A (id int64)
EVENT B (id int64)
QUERY big PATTERN SEQ(A+ x[], B y) WITHIN 1h
QUERY small PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 1s
"""


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """30 events of A, so 2^30 partial matches of `big`; from second 40 on a pair of `small` every other second."""
    (tmp_path / "q.cep").write_text(QUERIES)
    rows = [f"A,{n},{n}" for n in range(30)] + [f"{'AB'[n % 2]},{n // 2},{n}" for n in range(40, 60)]
    (tmp_path / "e.csv").write_text("\n".join(["kind,id,ts", *rows, ""]))
    return ["run", str(tmp_path / "q.cep"), "--input", str(tmp_path / "e.csv")]


@pytest.mark.parametrize("lateness", [[], ["--allowed-lateness", "5s"], ["--allowed-lateness", "1h"]])
def test_what_was_found_is_kept(arguments: list[str], tmp_path: Path, lateness: list[str]) -> None:
    """Found in the batch that comes to the limit, or when what is held back is matched at the end."""
    output = tmp_path / "m.parquet"
    result = runner.invoke(app, [*arguments, "--memory-limit", "1MiB", "--output", str(output), *lateness])
    assert result.exit_code == 2
    assert "over --memory-limit 1,048,576 bytes: 'big' at event" in result.stderr
    rows = parquet.read_table(output).to_pylist()
    assert [(row["a"], row["b"]) for row in rows if row["query"] == "small"] == [(n, n + 1) for n in range(30, 50, 2)]


def test_enough(arguments: list[str]) -> None:
    result = runner.invoke(app, [*arguments, "--memory-limit", "1MiB", "--query", "small"])
    assert result.exit_code == 0, result.stderr
    assert "50 events, 10 matches" in result.stdout


@pytest.mark.parametrize(("size", "message"), [("much", "'much' is no size"), ("1KiB", "is too small")])
def test_wrong_size(arguments: list[str], size: str, message: str) -> None:
    result = runner.invoke(app, [*arguments, "--memory-limit", size])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
