"""Load shedding on unseen streams: cases, small runs, the summary and the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from bench.unseen import results
from bench.unseen.__main__ import main, run_named
from bench.unseen.cells import COLUMNS, COSTS, MOST_EVENTS, UNATTAINABLE, available_shedders, plays_for, run_case
from bench.unseen.kinds import AutoOfHistory, kind_case, kind_names, kinds
from bench.unseen.page import PAGE, page
from bench.unseen.pspice import _used
from bench.unseen.random_cases import TRAITS, random_case
from bench.unseen.real import REAL, WINDOWED, real_case
from bench.unseen.repeated import Repeated
from bench.unseen.results import read, rows_of, save_case
from bench.unseen.summary import cells_of, summary_of

pytestmark = pytest.mark.thorough

NOWHERE = Path("nowhere")
SHIPPED = [name for name in REAL if name.startswith(("bayarea", "google", "ds1"))]
SMALL = 3_000


@pytest.mark.parametrize("name", SHIPPED)
def test_cases_of_shipped_data_have_a_history_and_events_to_measure(name: str) -> None:
    case = real_case(name, NOWHERE, SMALL)
    assert case is not None and case.queries
    assert len(case.history) == len(case.measured) == SMALL // 2


def test_cases_whose_data_is_missing_are_left_out() -> None:
    assert all(real_case(name, NOWHERE) is None for name in REAL if name not in SHIPPED)


def test_random_cases_depend_on_the_seed_only() -> None:
    first, second, other = random_case(3, 5, SMALL), random_case(3, 5, SMALL), random_case(4, 5, SMALL)
    assert first.document == second.document and first.table.equals(second.table) and first.notes == second.notes
    assert first.document != other.document
    assert TRAITS[5] in first.notes and "NEG" in first.document


@pytest.mark.parametrize("name", ["bayarea_triangle", "google_prefix"])
def test_a_short_stream_is_played_again(name: str) -> None:
    case = real_case(name, NOWHERE, SMALL)
    assert case is not None
    once, column = case.measured, case.queries[0].schema.time
    played = replace(case, plays=3).measured
    assert len(played) == 3 * len(once) and played.schema == once.schema
    assert played.drop_columns(column).equals(pa.concat_tables([once] * 3).drop_columns(column))
    times = np.array(played[column].cast(pa.int64())).reshape(3, -1)
    assert (np.diff(times, axis=1) == np.diff(times[0])).all() and (times[1:, 0] > times[:-1, -1]).all()
    assert (times[0] == np.array(once[column].cast(pa.int64()))).all()


def test_a_stream_is_played_until_it_takes_long_enough() -> None:
    assert plays_for(0.0, 100.0, 1_000) == 1
    assert plays_for(100_000.0, 100.0, 1_000) == 1
    assert plays_for(250_000.0, 100.0, 1_000) == 3
    assert plays_for(1e12, 100.0, MOST_EVENTS // 2) == 2
    assert plays_for(1e12, 100.0, 2 * MOST_EVENTS) == 1


def test_streams_are_played_again_only_where_decisions_cost_something() -> None:
    case = real_case("bayarea_triangle", NOWHERE, SMALL)
    assert case is not None
    cell: dict[str, Any] = {"statistics": ("mean",), "bounds": ("50%",)}
    once = run_case(case, (1,), ("rs",), **cell)
    again = run_case(case, (1,), ("rs",), **cell, duration=2.5 * once["mean"] * SMALL / 2)
    assert (once["plays"], again["plays"]) == (1, 3) and once["matches"] == again["matches"]
    before, after = ({row["costs"]: row for row in result["rows"]} for result in (once, again))
    assert before["free"] == after["free"] and before["measured"]["decisions"] < after["measured"]["decisions"]
    assert "plays" not in run_case(case, (1,), ("rs",), **cell, costs=("free",), duration=1e9)


def test_a_case_runs_with_every_shedder_for_every_bound() -> None:
    case = real_case("bayarea_triangle", NOWHERE, SMALL)
    assert case is not None
    result = run_case(case, (1,))
    assert result["events"] == SMALL // 2 and result["matches"] > 0
    assert len(result["rows"]) == len(COSTS) * 2 * 4 * len(available_shedders())
    for row in result["rows"]:
        assert tuple(row) == COLUMNS and row["error"] in (None, UNATTAINABLE)
        assert row["precision"] in (None, 1.0)


def test_a_failed_fit_is_a_row_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ValueError("no history")

    monkeypatch.setattr("fastcep.shedding.hybrid.Hybrid.fit", fail)
    case = real_case("bayarea_triangle", NOWHERE, SMALL)
    assert case is not None
    rows = [row for row in run_case(case, (1,), ("rs", "hybrid"))["rows"] if row["shedder"] == "hybrid"]
    assert {row["error"] for row in rows} == {"fit: ValueError: no history"}
    assert len(summary_of(cells_of({"case": "x", **row} for row in rows)).failed) == len(rows)


def test_the_command_stores_results_and_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr("bench.unseen.page.PAGE", tmp_path / "unseen.md")
    monkeypatch.setattr("bench.unseen.__main__.PLAYED_TIME", 1e6)
    options = ["--events", str(SMALL), "--shared", str(NOWHERE), "--shedders", "rs", "hybrid"]
    main(["--part", "real", "--cases", "bayarea_hot_path", "jersey_triangle", *options])
    main(["--part", "random", "--cases", "0", "--seed", "2", *options])
    stored = json.loads((tmp_path / "unseen.json").read_text())["parts"]
    assert list(stored["real"]["1"]) == ["bayarea_hot_path"] and list(stored["random"]["2"]) == ["random_2_0"]
    text = (tmp_path / "unseen.md").read_text(encoding="utf-8")
    assert "bayarea_hot_path" in text and "random_2_0" in text and "## Virtual clock" in text


def row(shedder: str, recall: float | None, mean: float | None = 1.0, **values: Any) -> dict[str, Any]:
    labels = {"case": "case", "costs": "free", "statistic": "mean", "bound": "50%", "seed": 1}
    held = mean is not None and mean <= 1.01
    return {
        **dict.fromkeys(COLUMNS),
        **labels,
        "shedder": shedder,
        "recall": recall,
        "mean": mean,
        "held": held,
        **values,
    }


def test_hybrid_is_compared_with_baselines_that_hold_the_bound() -> None:
    (cell,) = cells_of([row("ri", 0.9, 1.2), row("rs", 0.6), row("ss", 0.5), row("hybrid", 0.7, 0.8)])
    assert cell.best is not None and cell.best["shedder"] == "rs"
    assert cell.gain == pytest.approx(0.1) and cell.is_as_good


def test_a_hybrid_that_misses_its_bound_is_compared_with_baselines_of_its_latency() -> None:
    (cell,) = cells_of([row("ri", 0.95, 1.4), row("rs", 0.8, 1.3), row("hybrid", 0.7, 1.3)])
    assert cell.best is not None and cell.best["shedder"] == "rs"
    assert cell.gain == pytest.approx(-0.1) and not cell.is_as_good
    summary = summary_of([cell])
    assert summary.missed == summary.missed_by_all == [cell] and summary.as_good == 0


def test_a_baseline_that_holds_a_missed_bound_is_counted() -> None:
    (cell,) = cells_of([row("rs", 0.5), row("hybrid", 0.9, 1.1)])
    assert cell.is_as_good and cell.gain == pytest.approx(0.4)
    summary = summary_of([cell])
    assert summary.missed == [cell] and not summary.missed_by_all


def test_estimates_are_compared_with_the_recall() -> None:
    hybrids = [(0.5, 0.52, 0.4, 0.6), (0.5, 0.9, 0.8, 1.0), (0.5, 0.5, 0.45, 0.55), (0.5, None, None, None)]
    rows = [
        row("hybrid", recall, estimated=estimated, low=low, high=high, seed=seed)
        for seed, (recall, estimated, low, high) in enumerate(hybrids)
    ]
    summary = summary_of(cells_of(rows))
    assert summary.close == pytest.approx(2 / 3) and summary.inside == pytest.approx(2 / 3)
    assert summary.without_estimate == 1 and summary.estimates[0][0].key[-1] == 1


def test_gains_of_a_stream_are_averaged_over_its_cells() -> None:
    recalls = {("good", 1): (0.5, 0.8), ("good", 2): (0.5, 0.4), ("bad", 1): (0.5, 0.5), ("bad", 2): (0.5, 0.3)}
    rows = [
        row(shedder, recall, case=case, seed=seed)
        for (case, seed), pair in recalls.items() for shedder, recall in zip(("rs", "hybrid"), pair, strict=True)
    ]  # fmt: skip
    gains = summary_of(cells_of(rows)).gain_by_stream
    assert list(gains) == ["bad", "good"] and list(gains.values()) == pytest.approx([-0.1, 0.1])


def test_bounds_that_no_shedding_can_hold_do_not_count() -> None:
    assert not summary_of(cells_of([row("hybrid", None, None, error=UNATTAINABLE)])).cells


def test_the_share_of_the_bound_that_pspice_uses_counts_where_it_holds_the_bound() -> None:
    cells = cells_of(
        row(name, 0.5, latency, seed=seed)
        for seed, latency in enumerate((0.7, 0.9, 1.0, 1.3)) for name in ("hybrid", "pspice")
    )  # fmt: skip
    (sentence,) = _used([("free, mean", cells), ("free, p95", cells)])
    assert sentence.endswith("is 0.90 (median of 3 cells, free, mean; lower quartile 0.80, least 0.70).\n")
    assert _used([("free, mean", cells[3:])]) == []


def test_stored_rows_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    rows = [{key: value for key, value in row("rs", 0.5).items() if key != "case"}]
    for seed in (1, 2, 2):
        save_case("real", seed, "case", {"events": 7, "rows": rows})
    assert list(rows_of(read(), "real")) == [row("rs", 0.5)] * 2


def test_rows_of_other_shedders_on_the_same_stream_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)

    def save(recall: float, *names: str, events: int = 7) -> None:
        rows = [{key: value for key, value in row(name, recall).items() if key != "case"} for name in names]
        save_case("real", 1, "case", {"events": events, "fit_seconds": dict.fromkeys(names, recall), "rows": rows})

    save(0.5, "rs", "pspice")
    save(0.7, "pspice")
    assert sorted((one["shedder"], one["recall"]) for one in rows_of(read(), "real")) == [("pspice", 0.7), ("rs", 0.5)]
    assert read()["parts"]["real"]["1"]["case"]["fit_seconds"] == {"rs": 0.5, "pspice": 0.7}
    with pytest.raises(ValueError, match="real case: stored runs with other shedders or costs are on another stream"):
        save(0.8, "rs", events=8)
    save(0.9, "rs", "pspice", events=8)
    assert {one["recall"] for one in rows_of(read(), "real")} == {0.9}


def test_rows_with_other_costs_on_the_same_stream_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)

    def save(recall: float, costs: str, *names: str, **numbers: int) -> None:
        rows = [row(name, recall, costs=costs) for name in names]
        save_case("real", 1, "case", {"rows": rows, **numbers})

    save(0.5, "free", "rs", "hybrid")
    save(0.6, "measured", "rs", "hybrid", plays=3)
    save(0.7, "free", "rs")
    stored = {(one["costs"], one["shedder"]): one["recall"] for one in rows_of(read(), "real")}
    assert stored == {
        ("free", "rs"): 0.7, ("free", "hybrid"): 0.5, ("measured", "rs"): 0.6, ("measured", "hybrid"): 0.6,
    }  # fmt: skip
    assert read()["parts"]["real"]["1"]["case"]["plays"] == 3
    assert set(read()["measured"]) == {"real free", "real measured"}
    with pytest.raises(ValueError, match="on another stream"):
        save(0.8, "measured", "rs", plays=4)
    save(0.8, "measured", "rs", "hybrid", plays=4)
    assert read()["parts"]["real"]["1"]["case"]["plays"] == 4


@pytest.mark.parametrize("part", ["wall", "pauses", "ready"])
def test_other_parts_replace_what_is_stored(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    for recall in (0.5, 0.6):
        save_case(part, 1, "ds1", {"rows": [{"shedder": "rs", "recall": recall}]})
    assert list(rows_of(read(), part)) == [{"case": "ds1", "shedder": "rs", "recall": 0.6}]


def test_a_repeated_stream_has_ascending_times() -> None:
    table = pa.table({"v": [1, 2, 3], "ts": pa.array([10, 10, 30], pa.timestamp("us"))})
    repeated = pa.Table.from_batches(list(Repeated(table, "ts", 8, block=2)))
    assert repeated["v"].to_pylist() == [1, 2, 3, 1, 2, 3, 1, 2]
    times = repeated["ts"].cast(pa.int64()).to_pylist()
    assert times == sorted(times) and times[3] > times[2]


def test_the_page_matches_the_results() -> None:
    """If this fails, run ``python -m bench.unseen.page``."""
    assert PAGE.read_text(encoding="utf-8") == page(read())


def test_kinds_of_queries_are_drawn_from_the_seed() -> None:
    first, second = kind_case(1, "18", SMALL), kind_case(1, "18", SMALL)
    assert first.document == second.document and first.table.equals(second.table)
    assert first.name == "one match per window 1" and "LIMIT 1 PER WINDOW" in first.document
    assert "NEG" in kind_case(1, "6", SMALL).document and len(kind_case(1, "9", SMALL).queries) == 2


def test_kinds_with_any_and_with_windows_closed_after_a_time() -> None:
    several, timed = kind_case(1, "24", SMALL), kind_case(1, "27", SMALL)
    assert several.name == "ANY(n) 1" and "ANY(" in several.document and "skip_till_next" in several.document
    assert timed.name == "windows closed after a time 1" and timed.queries[0].window.closing.nanoseconds
    assert kind_names()[-1 - len(WINDOWED)] == "29" and kind_names()[-len(WINDOWED) :] == list(WINDOWED)


def test_kinds_on_real_data_are_left_out_by_name_without_the_data() -> None:
    assert all(real_case(name, NOWHERE) is None for name in WINDOWED)
    assert run_named("real data 1", part="kinds", seed=1, events=SMALL, shared=NOWHERE) == ("real data 1", None)


def test_types_are_at_similar_positions_where_positions_matter() -> None:
    case = kind_case(1, "21", SMALL)
    size = case.queries[0].window.closing.events
    kinds = case.table["type"].to_numpy(zero_copy_only=False)[: SMALL // size * size].reshape(-1, size)
    place = {name: (kinds == name).argmax(axis=1).mean() for name in "AD"}
    assert place["A"] < place["D"] and sorted(case.table["ts"].to_pylist()) == case.table["ts"].to_pylist()


def test_the_table_of_kinds() -> None:
    def cell(case: str, seed: int, recalls: dict[str, float | None], **missed: bool) -> list[Any]:
        rows = [
            row(name, recall, 1.2 if missed.get(name) else 0.9) | {"seed": seed, "case": case, "estimated": 0.1 * seed}
            for name, recall in recalls.items()
        ]
        return [[one[column] for column in COLUMNS] for one in rows]

    near = cell("sequence, WITHIN 1", 1, {"hybrid": 0.9, "rs": 0.95, "ri": 0.6, "auto": 0.89}, rs=True)
    far = cell("sequence, WITHIN 1", 2, {"hybrid": 0.8, "rs": 0.5, "ri": 0.6, "auto": 0.7})
    stored = {"columns": list(COLUMNS), "rows": near + far}
    text = "\n".join(kinds({"parts": {"kinds": {"1": {"sequence, WITHIN 1": stored}}}}))
    figures = (
        "| 0.850 / 0.80 / 0.20, best in 2 | – | – | 0.500 / 0.50 / 0.20, best in 0 (1) "
        "| 0.600 / 0.60 / 0.10, best in 0 | 0.795 / 0.70 / 0.20 |"
    )
    assert f"| sequence, WITHIN | 2 {figures}" in text
    assert "0 more cells are left out" in text
    assert "in 1 of 2 cells, 50% (goal ≥ 90 %: NOT met)" in text and "hybrid 0.80, 0.70" in text
    assert kinds({"parts": {}}) == []


def test_auto_begins_with_the_models_that_it_chooses() -> None:
    case = kind_case(1, "0", SMALL)
    shedder = AutoOfHistory(0.5).fit(
        case.queries, case.history, cost_table=fc.CostTable.named("measured"), index="full"
    )(3)
    assert shedder.seed == 3 and set(shedder.models_in_use) <= {"q"}
