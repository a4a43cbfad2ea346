"""Report of an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shedding.evaluations import evaluated

import fastcep as fc
from fastcep.evaluation import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluated(["ri", "rs"], bounds=["60%", "0.1%"])


def test_json_and_its_file(report: Report, tmp_path: Path) -> None:
    text = report.to_json(tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == text and text.count("\n") == 1
    with pytest.raises(fc.ValidationError, match="there is no folder"):
        report.to_json(tmp_path / "none" / "r.json")


def test_rows_as_a_table(report: Report) -> None:
    table = report.to_arrow()
    assert table.num_rows == 4 and table["shedder"].to_pylist() == ["ri", "rs"] * 2
    assert table["recall"].to_pylist() == [row["recall"] for row in report.rows]
    assert table["rate"].null_count == 4
    assert [name for name in report.rows[0] if name not in table.column_names] == []


def test_remedies(report: Report) -> None:
    """Without a decision nothing is shed and the bound is not held; a tighter bound would not help."""
    with pytest.raises(fc.ValidationError, match="where the bound was not held, give a larger bound") as caught:
        evaluated("ri", bounds="60%", cost_table="measured", detector="queue").check()
    assert "detector never fired" in str(caught.value) and "tighter" not in str(caught.value)


def test_representation(report: Report) -> None:
    assert repr(report) == "Report('ri', 'rs': 4 rows, 2 of which do not count)"
    sound = evaluated("ri", bounds="60%")
    assert repr(sound) == "Report('ri': 1 rows)" and sound.check() is sound
