"""The figures of docs/migration.md: small runs, and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.migration import figures, link, page
from bench.queries import RESULTS


@pytest.mark.thorough
def test_curves_of_figure_4a_and_4b() -> None:
    runs = {f"{run['utility']} {run['method']}": run for run in figures.over_time()}
    for run in runs.values():
        assert (np.diff(run["share"]) >= 0).all() and (np.diff(run["states"]) >= 0).all()
        assert run["share"][0] == 0 and run["share"][-1] > 0.999 and run["states"][-1] == run["received_states"]
        assert 0.54 < run["received_bytes"] / run["bytes"] < 0.56
    shares = [run["received_share"] for run in runs.values()]
    assert shares[1] > 0.9 and shares[2] > 0.95 > shares[0] > shares[3]
    assert runs["uniform greedy"]["received_states"] > runs["uniform random"]["received_states"]


@pytest.mark.thorough
def test_dp_is_better_for_few_large_states_and_equal_for_many() -> None:
    few = {run["method"]: run for run in figures._received([figures.few_large(seed, 0.3) for seed in range(5)], 10)}
    assert few["dp"]["mean"] > few["greedy"]["mean"] + 0.002 and few["dp"]["largest_gain"] > 0.02
    assert few["auto"]["worse"] == few["greedy"]["largest_loss"] == 0 and few["random"]["worse"] > 0.5
    many = {run["method"]: run for run in figures._received([figures.many_small(1)], 4)}
    assert abs(many["dp"]["mean"] - many["greedy"]["mean"]) < 1e-3


def test_the_parallel_track_shortens_the_time_without_output() -> None:
    runs = {(run["track"], run["deadline"]): run for run in figures.freeze(20)}
    for deadline in (None, 5.5, 2.0):
        single, parallel = runs["single", deadline], runs["parallel", deadline]
        assert parallel["freeze"] < 0.5 * single["freeze"] and parallel["output_share"] >= single["output_share"]
    assert runs["single", 2.0]["freeze"] < runs["single", 5.5]["freeze"] < runs["single", None]["freeze"]


def test_the_page_has_the_stored_results() -> None:
    stored = json.loads((RESULTS / "migration.json").read_text())
    assert page.SECTION.page_with(page.text(stored)) == page.SECTION.page.read_text(encoding="utf-8")
    cells = {(cell["utility"], cell["sizes"]): np.median(cell["shares"]) for cell in stored["shares"]}
    assert all(cells[key] <= goal for key, goal in page._GOALS.items())


def test_the_page_of_the_transfer_has_the_stored_results() -> None:
    stored = json.loads((RESULTS / "migration_link.json").read_text())
    assert link.SECTION.page_with(link.table(stored)) == link.SECTION.page.read_text(encoding="utf-8")
    given = [run for run in stored["runs"] if run["states"].startswith("trips") and run["options"]]
    assert min(run["of_plan"] for run in given) >= 0.99 and {run["link"] for run in given} >= {"proxy"}
