"""Run the evaluations of a figure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.papers.figures import Figure, Part
from bench.papers.queueing import match_probability, options_of
from bench.papers.recall_over_time import recall_over_time
from bench.papers.results import condense, merge_points, read, results_path
from bench.papers.strategies import available, needs_history, strategies
from fastcep.errors import ValidationError
from fastcep.evaluation import Report, evaluate
from fastcep.evaluation.references import REFERENCES

__all__ = ["evaluate_part", "merge_reports", "run_figure", "run_references"]


def run_figure(
    figure: Figure, *, events: int | None = None, seeds: int | None = None, reports: Path | None = None
) -> dict[str, Any]:
    """Run all parts of a figure and return the results to store.

    A part whose data is missing keeps the results that are stored already.

    Parameters
    ----------
    figure
        Figure to run.
    events, seeds
        Numbers of events and of seeds that replace those of the parts.
    reports
        Folder for the full report of each part, as JSON and as HTML.
    """
    parts = {}
    for part in figure.parts:
        if part.required_path is not None and not part.required_path.exists():
            print(f"{figure.stem} {part.name}: not run, as it needs {part.required_path.name}", flush=True)
            old = read(figure.stem)["parts"] if results_path(figure.stem).exists() else {}
            parts |= {name: result for name, result in old.items() if name == part.name}
            continue
        begin = time.perf_counter()
        parts[part.name] = _run_part(figure, part, events, seeds, reports)
        runs = len(parts[part.name]["rows"])
        print(f"{figure.stem} {part.name}: {runs} runs in {time.perf_counter() - begin:.0f} s", flush=True)
    return parts


def run_references(figure: Figure) -> dict[str, Any]:
    """Run only the references of a figure's parts; return the stored results of the strategies together with theirs.

    Raises
    ------
    ValueError
        If the matches, or the latencies without shedding, differ from the stored ones: the strategies must run again.
    """
    stored = read(figure.stem)["parts"]
    return {part.name: _with_references(part, stored[part.name]) for part in figure.parts if part.name in stored}


def _with_references(part: Part, stored: dict[str, Any]) -> dict[str, Any]:
    if not part.references or (part.required_path is not None and not part.required_path.exists()):
        return stored
    rows, strategies = [], []
    for label in part.points or [""]:
        point = replace(part.at_point(label) if label else part, strategies=())
        document = condense(evaluate_part(point, stored["events"], 1).document, (), "")
        truth = stored["truths"][label] if label else stored["truth"]
        if not document["truth"].items() <= truth.items():
            raise ValueError(f"{part.name} {label}: the run without shedding differs from the stored one; run it all")
        rows += [{**row, "target": label} if label else row for row in document["rows"]]
        strategies = document["setting"]["strategies"]
    names = [strategy["name"] for strategy in strategies]
    kept = [row for row in stored["rows"] if row["shedder"] not in names]
    setting = stored["setting"]
    targets = setting["targets"]
    others = [strategy for strategy in setting["strategies"] if strategy["name"] not in names]
    return {
        **stored,
        "setting": {**setting, "strategies": [*others, *strategies]},
        "rows": sorted([*kept, *rows], key=lambda row: targets.index(row["target"])),
    }


def _run_part(
    figure: Figure, part: Part, events: int | None, seeds: int | None, reports: Path | None
) -> dict[str, Any]:
    """Run a part and return the results to store."""
    if part.points:
        points = {
            label: replace(part.at_point(label), name=f"{part.name}_{label.rstrip('%')}") for label in part.points
        }
        results = {label: _run_part(figure, point, events, seeds, reports) for label, point in points.items()}
        return merge_points(results)
    size = events or part.size
    if part.measure is not None:
        return part.measure(size, seeds or part.seeds)
    report = evaluate_part(part, size, seeds or part.seeds)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        report.to_json(reports / f"{figure.stem}_{part.name}.json")
        report.to_html(reports / f"{figure.stem}_{part.name}.html")
    result = condense(report.document, part.series, _check(report) if part.shows_check else "")
    if part.shows_match_probability:
        result["truth"]["match_probability"] = match_probability(part.query(), part.events(size))
    return {**result, "series": recall_over_time(part, size)} if part.recall_intervals else result


def evaluate_part(part: Part, events: int, seeds: int) -> Report:
    """Evaluate the strategies of a part with several seeds, and its references, which are hardly random, with one."""
    query, table, reports = part.query(), part.events(events), []
    options = options_of(part, table)
    if part.strategies:
        history = {} if part.history is None or not any(map(needs_history, available(part.strategies))) else {
            "history": part.history(events)
        }  # fmt: skip
        shedders = strategies(part.strategies, part.model)
        reports.append(evaluate(query, table, shedders=shedders, seeds=seeds, **history, **options))
    references = [name for name in part.references if name in REFERENCES]
    if references:
        reports.append(evaluate(query, table, shedders=references, seeds=1, **options))
    return merge_reports(reports)


def merge_reports(reports: Sequence[Report]) -> Report:
    """Merge reports on the same events, targets and setting, but different strategies, into one."""
    documents = [report.document for report in reports]
    first = documents[0]
    if any(document["truth"] != first["truth"] for document in documents):
        raise ValueError("reports on different events cannot be merged")
    targets = first["setting"]["targets"]
    merged = {
        key: sorted(
            (item for document in documents for item in document[key]),
            key=lambda item: targets.index(item["target"]),
        )
        for key in ("rows", "series", "shed_by")
    }  # fmt: skip
    strategies = [item for document in documents for item in document["setting"]["strategies"]]
    return Report({**first, **merged, "setting": {**first["setting"], "strategies": strategies}})


def _check(report: Report) -> str:
    try:
        report.check()
    except ValidationError as error:
        return str(error)
    return ""
