"""The figures of the papers: their declarations, results, pictures, page and small runs."""

from __future__ import annotations

import inspect
import json
import re
import runpy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from bench.papers import PAPERS, draw, runs
from bench.papers.__main__ import main
from bench.papers.espice.operator import EqualCosts
from bench.papers.figures import Figure, Part
from bench.papers.page import PAGE, page, section
from bench.papers.recall_over_time import recall_over_time
from bench.papers.results import (
    FOLDER,
    PartResult,
    condense,
    merge_points,
    part_results,
    read,
    results_path,
    save,
)
from bench.papers.runs import evaluate_part, merge_reports, run_figure, run_references
from bench.papers.strategies import (
    COUNTING,
    CUTTING,
    ESPICE,
    ESPICE_LITERAL,
    FIXED,
    HYBRID,
    PSPICE,
    RENEWED,
    available,
    needs_history,
)
from fastcep.evaluation import Report, evaluate
from fastcep.evaluation.oracle import Oracle
from fastcep.evaluation.references import REFERENCES
from fastcep.shedding.names import SHEDDERS

pytestmark = pytest.mark.thorough

FIGURES = [figure for paper in PAPERS.values() for figure in paper.figures]
each = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
KEYS = {
    "target", "speed", "recall", "precision", "shed_event_ratio", "shed_match_ratio", "false_negatives", "used",
    "match_probability", "share_over_bound", "overhead", "seconds", "missed", "false_positives", "dropped",
    "used_while_shedding",
}  # fmt: skip
#: Events of the small runs: enough for a match of each query.
SMALL = {"hybrid": 3_000, "pspice": 8_000, "espice": 8_000}
LARGEST_RESULT, LARGEST_PICTURE = 200_000, 125_000  # bytes


@each
def test_figures_are_well_formed(figure: Figure) -> None:
    assert figure.title and figure.statement and figure.setup
    parts = {part.name: part for part in figure.parts}
    assert len(parts) == len(figure.parts) and (figure.pictures or figure.tables)
    parameters = inspect.signature(evaluate).parameters
    for part in figure.parts:
        assert set(available(part.strategies)) <= {*SHEDDERS, COUNTING, CUTTING, FIXED, RENEWED, ESPICE_LITERAL}
        assert set(part.strategies) <= set(draw.LOOK)
        assert not set(part.references) & set(part.strategies) and (part.strategies or part.references)
        assert part.history is not None or not any(map(needs_history, part.strategies))
        for label in part.points:
            assert len(part.at_point(label).targets) == 1 and float(label.rstrip("%")) > 0
        assert set(part.options) <= set(parameters) - {"queries", "events", "shedders", "seeds", "history"}
        assert all(shedder in part.strategies and target in part.targets for shedder, target in part.series)
        assert set(part.strategies) | set(part.references) <= set(draw.LOOK)
        assert part.query() == part.query()
    for panel in (panel for picture in figure.pictures for panel in picture.panels):
        part = parts[panel.part]
        if panel.x == "series":
            assert part.series and bool(part.recall_intervals) == (panel.y == "recall")
        else:
            assert {panel.x, panel.y} <= KEYS
        assert set(panel.only) <= {*part.strategies, *part.references}
    for table in figure.tables:
        assert set(table.keys) <= KEYS and set(table.targets) <= set(parts[table.part].targets)


def test_names_of_figures_are_unique() -> None:
    names = [figure.stem for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert {figure.paper for figure in FIGURES} <= set(PAPERS)


@each
def test_results_are_small_and_match_the_declaration(figure: Figure) -> None:
    assert results_path(figure.stem).stat().st_size < LARGEST_RESULT
    parts = part_results(read(figure.stem))
    assert list(parts) == [part.name for part in figure.parts]
    for part in figure.parts:
        stored = parts[part.name]
        assert stored.targets == part.targets
        expected = available(part.strategies)
        assert stored.shedders[: len(expected)] == list(expected)
        assert set(stored.references) <= set(part.references)
        assert all(stored.rows_of(shedder, target) for shedder in stored.shedders for target in stored.targets)
        assert all(stored.truth(target)["matches"] >= 1_000 for target in stored.targets)
        series = [pair for pair in part.series if pair[0] in expected]
        assert [(line["shedder"], line["target"]) for line in stored.document["series"]] == series


@each
def test_pictures_are_small_and_on_the_page(figure: Figure) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for picture in figure.pictures:
        file = draw.image_path(figure, picture)
        drawn = file.read_text(encoding="utf-8")
        assert len(drawn) < LARGEST_PICTURE and f"images/papers/{file.name}" in text
        assert "<text" in drawn and not re.search(r"<dc:date>", drawn)


def test_no_results_or_pictures_are_left_over() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == {figure.stem for figure in FIGURES}
    pictures = {draw.image_path(figure, picture).name for figure in FIGURES for picture in figure.pictures}
    assert {file.name for file in draw.FOLDER.iterdir()} == pictures


def test_the_page_matches_the_results() -> None:
    """If this fails, run ``python -m bench.papers.page``."""
    assert PAGE.read_text(encoding="utf-8") == page({figure.stem: read(figure.stem) for figure in FIGURES})


def few_points(points: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """Return the first and the last point."""
    names = list(points)
    return {name: points[name] for name in dict.fromkeys([*names[:1], *names[-1:]])}


def small(part: Part) -> Part:
    """Return a part with few points or rates, and without strategies that take long to fit beside others."""
    options = dict(part.options)
    if not part.points and not part.series and len(part.targets) > 2 and "rates" in options:
        options["rates"] = part.targets[::len(part.targets) - 1]
    slow = {HYBRID} if {PSPICE, ESPICE} & set(part.strategies) else set()
    names = tuple(name for name in part.strategies if name not in slow)
    points = {label: without(slow, point) for label, point in few_points(part.points).items()}
    return replace(part, points=points, options=options, strategies=names)


def without(slow: set[str], point: Mapping[str, object]) -> Mapping[str, object]:
    """Return a point of which a run with equal costs leaves out some strategies."""
    run = point.get("measure")
    if not isinstance(run, EqualCosts):
        return point
    return {**point, "measure": replace(run, strategies=tuple(name for name in run.strategies if name not in slow))}


class CheapReference(Oracle):
    """Replacement for `informed`, which generates a long stream."""

    name = "informed"


@pytest.mark.filterwarnings("ignore:model .espice.:UserWarning")  # few events say little
@each
def test_a_small_run_is_stored_drawn_and_described(figure: Figure, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bench.papers.results.FOLDER", tmp_path)
    monkeypatch.setattr(draw, "FOLDER", tmp_path / "images")
    monkeypatch.setitem(REFERENCES, "informed", CheapReference)
    figure = replace(figure, parts=tuple(map(small, figure.parts)))
    for module in ("pspice.counting", "espice.overhead"):
        monkeypatch.setattr(f"bench.papers.{module}._PASSES", 2)
    # With less than five windows pSPICE counts nothing; its longest ones have 10,000 events.
    events = 60_000 if figure.stem == "pspice_counting" else SMALL[figure.paper]
    run = partial(run_figure, events=events, seeds=1)
    with_reports, without = (replace(figure, parts=parts) for parts in (figure.parts[:1], figure.parts[1:]))
    # The pages of the reports take as long as the runs.
    save(figure.stem, run(with_reports, reports=tmp_path / "reports") | run(without))
    results = read(figure.stem)
    if not results["parts"]:
        pytest.skip("all parts need data outside the repository")
    draw.draw(figure, part_results(results))
    text = "\n".join(section(figure, results))
    figure = figure.restricted_to(results["parts"])  # some parts need data outside the repository
    assert f"{events:,} events" in text
    for part in figure.parts:
        if part.measure is not None or any("measure" in point for point in part.points.values()):
            continue
        expected, stored = list(available(part.strategies)), results["parts"][part.name]
        assert stored["events"] == events
        assert [row["shedder"] for row in stored["rows"]][: len(expected)] == expected
        if part not in with_reports.parts:
            continue
        for file in [f"{figure.stem}_{part.name}{label and '_'}{label.rstrip('%')}" for label in part.points or [""]]:
            assert (tmp_path / "reports" / f"{file}.html").stat().st_size > 10_000
            document = json.loads((tmp_path / "reports" / f"{file}.json").read_text())
            assert document["stream"]["events"] == events
            assert [row["shedder"] for row in document["rows"]][: len(expected)] == expected
    assert all(draw.image_path(figure, picture).exists() for picture in figure.pictures)


def test_pictures_are_the_same_every_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(draw, "FOLDER", tmp_path)
    figure, parts = FIGURES[-1], part_results(read(FIGURES[-1].stem))
    drawn = []
    for _ in range(2):
        draw.draw(figure, parts)
        drawn.append([draw.image_path(figure, picture).read_bytes() for picture in figure.pictures])
    assert drawn[0] == drawn[1]


def test_references_run_once_and_follow_the_strategies_of_a_target(monkeypatch) -> None:
    monkeypatch.setattr(runs, "REFERENCES", {"oracle": REFERENCES["oracle"]})
    part = next(part for figure in FIGURES for part in figure.parts if figure.name == "fig4")
    report = evaluate_part(part, 1_500, 2)
    rows = [(row["target"], row["shedder"], row["seed"]) for row in report.rows]
    expected = [*((name, seed) for name in available(part.strategies) for seed in range(2)), ("oracle", 0)]
    assert rows == [(target, *pair) for target in part.targets for pair in expected]
    assert len(report.document["series"]) == len(part.targets) * (len(available(part.strategies)) + 1)


def test_references_alone_replace_only_their_rows(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("bench.papers.results.FOLDER", tmp_path)
    whole = next(figure for figure in FIGURES if figure.stem == "pspice_fig5a")
    part = replace(whole.parts[0], strategies=("pm-bl",), points=few_points(whole.parts[0].points))
    figure = replace(whole, parts=(part,))
    save(figure.stem, run_figure(figure, events=8_000, seeds=2))
    stored = read(figure.stem)
    save(figure.stem, run_references(figure), keep_environment=True)
    again = read(figure.stem)
    assert again["parts"] == stored["parts"] and again["environment"] == stored["environment"]
    assert again["references"]["date"] in "\n".join(section(figure, again))
    (result,) = part_results(again).values()
    assert result.shedders == ["pm-bl", "oracle"] and result.references == ["oracle"]
    stored["parts"][part.name]["truths"][next(iter(part.points))]["matches"] += 1
    monkeypatch.setattr(runs, "read", lambda _: stored)
    with pytest.raises(ValueError, match="differs from the stored one"):
        run_references(figure)


def test_reports_on_different_events_are_not_merged() -> None:
    part = FIGURES[0].parts[0]
    documents = [evaluate(part.query(), part.events(size), shedders=["ri"], **part.options) for size in (1_000, 2_000)]
    with pytest.raises(ValueError, match="different events"):
        merge_reports(documents)


def row(shedder: str, seed: int, **values: object) -> dict[str, object]:
    keys = (
        "recall", "precision", "estimated_recall", "mean_latency", "p95_latency", "p99_latency", "share_over_bound",
        "throughput", "shed_event_ratio", "shed_match_ratio", "overhead",
    )  # fmt: skip
    return {"shedder": shedder, "target": "50%", "seed": seed, **dict.fromkeys(keys), "why": "", **values}


def document(*rows: dict[str, object]) -> dict[str, object]:
    names = list(dict.fromkeys(row["shedder"] for row in rows))
    line = {"shedder": "ri", "target": "50%", "seed": 0, "x": list(range(240)), "latency": [1.23456] * 240, "bound": 2}
    return {
        "query": {"text": "PATTERN"}, "stream": {"events": 9, "span": 8},
        "setting": {
            "mode": "bounds", "clock": "virtual", "index": "key", "statistic": "mean", "latency_bound": None,
            "maximum_rate": None, "skip": 0.02, "seeds": [0, 1], "targets": ["50%"], "cost_table": {"name": "paper"},
            "strategies": [{"name": name, "label": name, "reference": name == "oracle"} for name in names],
        },
        "truth": {"matches": 5_000, "throughput": 100.0, "series": {}}, "rows": list(rows), "series": [line],
    }  # fmt: skip


def test_values_are_means_over_seeds() -> None:
    rows = [row("ri", 0, recall=0.25, throughput=150.0), row("ri", 1, recall=0.75, throughput=250.0, why="not held")]
    kept = condense(document(*rows, row("oracle", 0)), [("ri", "50%")], "")
    assert [len(kept["series"][0][key]) for key in ("x", "latency")] == [120, 120]
    assert kept["series"][0]["latency"][0] == 1.235
    (stored,) = part_results({"parts": {"paper": kept}}).values()
    assert stored.value("ri", "50%", "recall") == 0.5
    assert stored.value("ri", "50%", "speed") == 2.0
    assert stored.value("ri", "50%", "target") == 50.0
    assert stored.value("oracle", "50%", "recall") is None
    assert not stored.is_valid("ri", "50%") and stored.is_valid("oracle", "50%")
    assert stored.references == ["oracle"]


def test_shedders_that_do_the_same_are_grouped() -> None:
    rows = [row(name, 0, recall=recall) for name, recall in (("ri", 0.5), ("rs", 0.6), ("si", 0.5))]
    assert PartResult(document(*rows)).groups() == [["ri", "si"], ["rs"]]


def test_points_take_the_place_of_targets() -> None:
    speeds = {"2": 50.0, "3": 80.0}
    points = {label: condense(document(row("ri", 0, throughput=speed)), [], "") for label, speed in speeds.items()}
    points["3"]["truth"]["throughput"] = 40.0
    stored = PartResult(merge_points(points))
    assert stored.targets == ["2", "3"] and stored.values("ri", "target") == [2.0, 3.0]
    assert stored.values("ri", "speed") == [0.5, 2.0]
    assert stored.document["setting"]["asked"] == "50%"


def test_a_part_at_a_point_has_its_setting() -> None:
    part = next(part for figure in FIGURES for part in figure.parts if figure.name == "fig10")
    other = replace(part, points={"5": {"options": {"index": "none"}, "model": {"slices": 5}}}).at_point("5")
    assert other.options == {**part.options, "index": "none"} and other.model == {"slices": 5} and not other.points
    assert other.targets == ["20%"]


def test_recall_over_time_agrees_with_the_recall_of_the_stream() -> None:
    part = next(part for figure in FIGURES for part in figure.parts if figure.name == "fig12")
    lines = recall_over_time(replace(part, recall_intervals=4, series=(("ri", "40%"),)), 4_000)
    assert [(line["shedder"], line["target"], line["x"]) for line in lines] == [
        ("ri", "40%", [1_000, 2_000, 3_000, 4_000])
    ]
    recall = evaluate(part.query(), part.events(4_000), shedders="ri", **part.options).rows[0]["recall"]
    assert min(lines[0]["recall"]) - 1e-3 <= recall <= max(lines[0]["recall"]) + 1e-3


def test_the_command_of_a_paper_passes_its_name(monkeypatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr("bench.papers.__main__.main", calls.append)
    monkeypatch.setattr("sys.argv", ["bench.papers.hybrid", "fig7", "--seeds", "1"])
    runpy.run_module("bench.papers.hybrid", run_name="__main__")
    assert calls == [["hybrid", "fig7", "--seeds", "1"]]


def test_parts_that_cannot_be_run_are_kept_as_they_are(monkeypatch, tmp_path, capsys) -> None:
    figure = next(figure for figure in FIGURES if figure.name == "fig16")
    figure = replace(figure, parts=(replace(figure.parts[0], required_path=tmp_path / "absent"),))
    monkeypatch.setattr("bench.papers.results.FOLDER", tmp_path)
    assert run_figure(figure) == {}
    save(figure.stem, {"cluster": {"rows": []}, "other": {"rows": []}})
    assert run_figure(figure) == {"cluster": {"rows": []}}
    assert "not run, as it needs absent" in capsys.readouterr().out


def test_the_command_runs_the_named_figure(monkeypatch, capsys) -> None:
    done: list[object] = []
    monkeypatch.setattr(
        "bench.papers.__main__.run_figure", lambda figure, **options: done.append((figure.name, options)) or {}
    )
    monkeypatch.setattr("bench.papers.__main__.save", lambda *arguments: done.append("saved"))
    monkeypatch.setattr("bench.papers.__main__.write_page", lambda: done.append("written"))
    monkeypatch.setattr("sys.argv", ["bench.papers", "hybrid", "fig6", "--events", "10", "--seeds", "2"])
    main()
    assert done == [("fig6", {"events": 10, "seeds": 2, "reports": None}), "saved", "written"]
    monkeypatch.setattr("sys.argv", ["bench.papers", "hybrid", "fig99"])
    with pytest.raises(SystemExit):
        main()
    assert "no figure 'fig99'; hybrid has fig4" in capsys.readouterr().err


def test_a_valid_report_has_no_message() -> None:
    part = FIGURES[0].parts[0]
    report = evaluate(part.query(), part.events(2_000), shedders=["ri"], demands="30%", cost_table="paper", index="key")
    assert isinstance(report, Report) and runs._check(report) == ""
