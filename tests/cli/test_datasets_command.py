"""``fastcep datasets list | show | make``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
from typer.testing import CliRunner

from fastcep.cli import app

runner = CliRunner()


def test_list_names_every_data_set() -> None:
    result = runner.invoke(app, ["datasets", "list"])
    assert result.exit_code == 0
    made = ("ds1", "ds2", "market", "soccer", "traffic", "bike_chains", "task_lives")
    for name in ("bayarea_2014", "google_2011", *made):
        assert name in result.stdout
    assert "326,339" in result.stdout


def test_show_gives_credit_terms_and_columns() -> None:
    result = runner.invoke(app, ["datasets", "show", "bayarea_2014"])
    assert result.exit_code == 0
    assert "CC0" in result.stdout
    assert "start_terminal" in result.stdout


def test_unknown_name_is_an_error_with_a_suggestion() -> None:
    result = runner.invoke(app, ["datasets", "show", "bayarea_2015"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean 'bayarea_2014'" in result.stderr
    assert "Traceback" not in result.stderr


def test_make_is_reproducible(tmp_path: Path) -> None:
    texts = []
    for name in ("one.csv", "two.csv"):
        arguments = ["datasets", "make", "ds1", "--output", str(tmp_path / name), "--events", "100", "--seed", "3"]
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 100


def test_make_with_header(tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    arguments = ["datasets", "make", "ds1", "--output", str(out), "--events", "5", "--header"]
    assert runner.invoke(app, arguments).exit_code == 0
    assert out.read_text().splitlines()[0].replace('"', "") == "type,ID,V,ts"


def test_make_parquet(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    assert runner.invoke(app, ["datasets", "make", "ds2", "--output", str(out), "--events", "5"]).exit_code == 0
    assert parquet.read_metadata(out).num_rows == 5


def test_make_into_no_folder(tmp_path: Path) -> None:
    result = runner.invoke(app, ["datasets", "make", "ds1", "--output", str(tmp_path / "no" / "x.csv")])
    assert result.exit_code == 2
    assert "does not exist; create it first" in result.stderr
