"""Carry out the runs of a figure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.papers.course import courses
from bench.papers.figures import Figure, Part
from bench.papers.stored import condensed, path_of, read, swept
from bench.papers.strategies import learns, strategies, there
from fastcep.errors import ValidationError
from fastcep.evaluation import Report, evaluate
from fastcep.evaluation.references import REFERENCES

__all__ = ["joined", "report_of", "run"]


def run(
    figure: Figure, *, events: int | None = None, seeds: int | None = None, reports: Path | None = None
) -> dict[str, Any]:
    """Run all parts of a figure, and give what is stored of them; of what cannot be run here what was stored before.

    Parameters
    ----------
    figure
        Which.
    events, seeds
        How many, instead of what the parts say.
    reports
        Folder for the whole report of each part, as JSON and as a page.
    """
    parts = {}
    for part in figure.parts:
        if part.needs is not None and not part.needs.exists():
            print(f"{figure.file} {part.name}: not run, as it needs {part.needs.name}", flush=True)
            old = read(figure.file)["parts"] if path_of(figure.file).exists() else {}
            parts |= {name: stored for name, stored in old.items() if name == part.name}
            continue
        begin = time.perf_counter()
        parts[part.name] = _run(figure, part, events, seeds, reports)
        runs = len(parts[part.name]["rows"])
        print(f"{figure.file} {part.name}: {runs} runs in {time.perf_counter() - begin:.0f} s", flush=True)
    return parts


def _run(figure: Figure, part: Part, events: int | None, seeds: int | None, reports: Path | None) -> dict[str, Any]:
    """What is stored of a part."""
    if part.points:
        named = {label: replace(part.at(label), name=f"{part.name}_{label.rstrip('%')}") for label in part.points}
        return swept({label: _run(figure, point, events, seeds, reports) for label, point in named.items()})
    size = events or part.size
    report = report_of(part, size, seeds or part.seeds)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        report.to_json(reports / f"{figure.file}_{part.name}.json")
        report.to_html(reports / f"{figure.file}_{part.name}.html")
    stored = condensed(report.document, part.series, _check(report) if part.tells else "")
    return {**stored, "series": courses(part, size)} if part.recalls else stored


def report_of(part: Part, events: int, seeds: int) -> Report:
    """Judge the strategies of a part with several seeds, and its references, that draw next to nothing, with one."""
    query, table, reports = part.query(), part.events(events), []
    if part.strategies:
        history = {} if part.history is None or not any(map(learns, there(part.strategies))) else {
            "history": part.history(events)
        }  # fmt: skip
        shedders = strategies(part.strategies, part.model)
        reports.append(evaluate(query, table, shedders=shedders, seeds=seeds, **history, **part.options))
    references = [name for name in part.references if name in REFERENCES]
    if references:
        reports.append(evaluate(query, table, shedders=references, seeds=1, **part.options))
    return joined(reports)


def joined(reports: Sequence[Report]) -> Report:
    """One report of several about the same events, targets and setting, each with strategies of its own."""
    documents = [report.document for report in reports]
    first = documents[0]
    if any(own["truth"] != first["truth"] for own in documents):
        raise ValueError("reports about different events cannot be joined")
    targets = first["setting"]["targets"]
    together = {
        key: sorted(
            (item for own in documents for item in own[key]), key=lambda item: targets.index(item["target"])
        )
        for key in ("rows", "series", "shed_by")
    }  # fmt: skip
    strategies = [item for own in documents for item in own["setting"]["strategies"]]
    return Report({**first, **together, "setting": {**first["setting"], "strategies": strategies}})


def _check(report: Report) -> str:
    try:
        report.check()
    except ValidationError as error:
        return str(error)
    return ""
