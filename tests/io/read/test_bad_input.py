"""Every kind of bad input, run with and without a file for bad rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.doc_tables import bad_input
from support.doc_tables.bad_input import CASES, EVENTS, QUERY, Case
from typer.testing import CliRunner

from fastcep.cli import app


@pytest.fixture(params=CASES, ids=lambda case: f"{case.name}: {case.title}")
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    case: Case = request.param
    attributes = EVENTS if "SEQUENCE" not in case.stream else "EVENT A (id int64)\nEVENT B (id int64)"
    (tmp_path / "q.cep").write_text(f"{case.stream}\n{attributes}\n{QUERY.replace('1000s', '30d')}\n")
    if case.data is not None:
        (tmp_path / case.name).write_bytes(case.data() if callable(case.data) else case.data)
    return case


def run(folder: Path, case: Case, *options: str) -> tuple[int, str, str, int]:
    """Run a case; return exit code, standard output, error message, and number of matches in the output file."""
    out = folder / "m.parquet"
    out.unlink(missing_ok=True)
    arguments = ["run", str(folder / "q.cep"), "--input", str(folder / case.name), "--output", str(out), "--json"]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr, pq.read_table(out).num_rows if out.exists() else 0


@pytest.mark.thorough
@pytest.mark.parametrize("small", [True, False])
def test_an_error_names_the_fault_and_keeps_all_matches(case: Case, tmp_path: Path, small: bool) -> None:
    rows = ("1000" if "cut off" in case.title else "1") if small else "65536"
    code, _, error, matches = run(tmp_path, case, "--batch-rows", rows)
    assert matches == case.matches
    assert "Traceback" not in error
    if not case.message:
        assert (code, error) == (0, "")
        return
    assert code == 2
    assert case.name in error and case.message in error


@pytest.mark.thorough
def test_bad_rows_go_to_their_file(case: Case, tmp_path: Path) -> None:
    code, out, error, matches = run(tmp_path, case, "--bad-rows", str(tmp_path / "bad.jsonl"))
    if case.bad is None:
        assert code == 2 and case.message in error and matches == case.matches
        return
    assert (code, error) == (0, ""), error
    assert matches == case.taken
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text(encoding="utf-8").splitlines()]
    assert json.loads(out)["bad_rows"] == len(bad) == case.bad
    for row in bad:
        assert row["file"] == str(tmp_path / case.name)
        assert row["found"] and row["expected"] and ("values" in row) != ("raw" in row)
    if case.bad == 1:
        assert f"row {bad[0]['row']}" in case.message
        assert bad[0]["column"] is None or f"column {bad[0]['column']!r}" in case.message


def test_the_page_has_the_table() -> None:
    assert len({(case.title, case.name) for case in CASES}) == len(CASES) >= 30
    assert bad_input.PAGE.read_text(encoding="utf-8") == bad_input.page(), "run python -m support.doc_tables.bad_input"
