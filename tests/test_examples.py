"""Run the examples: scripts by their functions, notebooks cell by cell."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastcep as fc

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def run_notebook(path: Path) -> dict[str, Any]:
    """Run the code cells and display the last expression of each, as Jupyter does; return their names."""
    names: dict[str, Any] = {"__name__": "__notebook__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        assert "outputs" not in cell or not cell["outputs"], "clear the outputs before you save a notebook"
        if cell["cell_type"] != "code":
            continue
        where = f"{path.name}, cell {number}"
        tree = ast.parse("".join(cell["source"]), where)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), where, "eval"), names)
            getattr(shown, "_repr_html_", shown.__repr__)()
    return names


def test_every_example_has_a_test() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert scripts <= tested
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == {"first_query.ipynb", "compare_shedders.ipynb"}


@pytest.mark.thorough
def test_card_fraud() -> None:
    fraud = example("card_fraud")
    today = fraud.payments(20_000, seed=2)
    model = fc.fit(fraud.QUERY, fraud.payments(20_000, seed=3), exclude=["terminal"])
    everything, late = fraud.run(today, None)
    chance, in_time = fraud.run(today, "rs")
    matches, modelled = fraud.run(today, fc.shedding.Hybrid(model))
    assert late > 3 * 25 and max(in_time, modelled) <= 25
    assert matches > 0.95 * everything > 0.9 * everything > chance


@pytest.mark.thorough
def test_bike_hot_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    example("bike_hot_paths").main(str(tmp_path / "map.svg"))
    assert "San Francisco Caltrain (Townsend at 4th)" in capsys.readouterr().out
    assert "Embarcadero at Sansome" in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_cluster_monitoring() -> None:
    cluster = example("cluster_monitoring")
    jobs = cluster.faulty_jobs()
    assert jobs.most_common(1) == [(5285926325, 1895)] and jobs == cluster.faulty_jobs(batch_size=50_000)


def test_device_heartbeats() -> None:
    heartbeats = example("device_heartbeats")
    stream = heartbeats.heartbeats()
    lines = list(heartbeats.alarms(stream))
    assert lines == list(heartbeats.alarms(stream, batch_size=1))
    assert [line.split(" ", 1)[1] for line in lines] == [
        "sensor-13 has been silent for 30 s", "sensor-18 has been silent for 30 s", "sensor-18 is back after 70.0 s",
    ]  # fmt: skip


def test_stock_patterns() -> None:
    matches = example("stock_patterns").recoveries(minutes=30)
    assert len(matches) > 50
    for match in matches:
        assert len(match["fall"]) >= 5
        assert match["now"] - match["low"] >= 0.5 * (match["before"] - match["low"])
        assert (np.diff([*match["fall"], *match["rise"]]) > 0).all()


def test_first_query() -> None:
    names = run_notebook(EXAMPLES / "first_query.ipynb")
    assert [(match["a"], match["b"], match["c"]) for match in names["matches"]] == [(0, 2, 3)]


@pytest.mark.thorough
def test_compare_shedders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    names = run_notebook(EXAMPLES / "compare_shedders.ipynb")
    assert names["rows"]["held"].all() and (tmp_path / "shedders.html").stat().st_size > 10_000
