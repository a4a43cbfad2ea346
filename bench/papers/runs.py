"""Carry out the runs of a figure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.papers.figures import Figure, Part
from bench.papers.stored import condensed
from fastcep.errors import ValidationError
from fastcep.evaluate import Report, evaluate
from fastcep.evaluate.references import REFERENCES

__all__ = ["joined", "report_of", "run"]


def run(
    figure: Figure, *, events: int | None = None, seeds: int | None = None, reports: Path | None = None
) -> dict[str, Any]:
    """Run all parts of a figure, and give what is stored of them.

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
        begin = time.perf_counter()
        report = report_of(part, events or part.size, seeds or part.seeds)
        if reports is not None:
            reports.mkdir(parents=True, exist_ok=True)
            report.to_json(reports / f"{figure.file}_{part.name}.json")
            report.to_html(reports / f"{figure.file}_{part.name}.html")
        parts[part.name] = condensed(report.document, part.series, _check(report) if part.tells else "")
        print(f"{figure.file} {part.name}: {len(report.rows)} runs in {time.perf_counter() - begin:.0f} s", flush=True)
    return parts


def report_of(part: Part, events: int, seeds: int) -> Report:
    """Judge the strategies of a part with several seeds, and its references, that draw next to nothing, with one."""
    query, table = part.query(), part.events(events)
    reports = [evaluate(query, table, shedders=list(part.strategies), seeds=seeds, **part.options)]
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
