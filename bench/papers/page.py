"""Draw the pictures and write docs/reproduction.md from the stored results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.papers import PAPERS
from bench.papers.draw import draw, image_path
from bench.papers.figures import Figure, Table
from bench.papers.results import PartResult, part_results, read, results_path
from bench.shedding_page import table

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "reproduction.md"

#: Formats of values in tables that differ from two decimals.
_FORMATS = {"overhead": "{:.2%}", "share_over_bound": "{:.2%}", "seconds": "{:.3f}"}

_HEAD = """\
# Reproduced figures of the papers

Each section reproduces a figure of a paper: the paper's result, our picture and numbers, and how the two compare.
[`fc.evaluate`](evaluation.md) runs the experiments: first without shedding, for the true matches, then every strategy
under every bound or rate.

* `ri`, `si`, `rs`, `ss`, `pm-bl`, `e-bl` and `bl` are the papers' [baselines](shedding.md#shedders).
* `hybrid`, `hyi` and `hys` are the [hybrid shedders](hybrid.md), `pspice` and `pspice--` those of [pSPICE](pspice.md).
  Their models are fitted on another stream of the same generator, or on the first half of real events.
* `oracle` and `informed` are [references](evaluation.md#references), not strategies: `oracle` knows the future of the
  stream, `informed` knows its generator. Their lines are dashed.

Unless stated otherwise, runs use the virtual clock, so that results are the same on every machine: the operations of
an event are counted, and the event takes the sum of their costs. A [cost table](shedding.md#clocks-and-cost-tables)
gives the cost of each operation. The table `paper` counts the partial matches that are visited and created, one
nanosecond each. The table `measured` has the measured cost of every operation, shedding decisions included.

A point is invalid if its bound was not held or nothing was shed. Invalid points are hollow in pictures and in
parentheses in tables. Values are means over seeds. Throughput is relative to that without shedding.

`python -m bench.papers --seeds 3 --jobs 2` runs everything (an hour), draws the pictures and writes this page.
`python -m bench.papers pspice --seeds 3 --jobs 2` runs one paper, `python -m bench.papers.hybrid fig4` one figure;
`--events` and `--seeds` make it smaller. `python -m bench.papers.page` only draws and writes. The numbers are in
`bench/results/papers/`.
"""


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of the page for the stored results of each figure."""
    text = [_HEAD]
    for paper in PAPERS.values():
        text.append(f"## {paper.title}\n")
        if paper.introduction:
            text.append(f"{paper.introduction}\n")
        for figure in paper.figures:
            if figure.stem in results:
                text += section(figure, results[figure.stem])
    return "\n".join(text)


def section(figure: Figure, results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paragraphs of a figure's section."""
    parts = part_results(results)
    figure = figure.restricted_to(parts)
    yield f"### {figure.title}\n"
    yield f"**The paper.** {figure.statement}\n"
    yield f"**Here.** {figure.setup} {_stream_sizes(figure, parts)} Measured on {_dates(results)}.\n"
    for picture in figure.pictures:
        yield f"![{picture.caption}](images/papers/{image_path(figure, picture).name})\n"
    for result_table in figure.tables:
        yield f"{result_table.caption}:\n"
        yield cells(result_table, parts[result_table.part])
    yield "**Findings.**\n"
    yield "\n".join(f"* {sentence}" for sentence in figure.findings(parts)) + "\n"


def cells(result_table: Table, part: PartResult) -> str:
    """Return a table of a part in Markdown; invalid values are in parentheses."""
    targets = list(result_table.targets) or part.targets

    def cell(shedder: str, target: str) -> str:
        values = [part.value(shedder, target, key) for key in result_table.keys]
        text = ", ".join(
            "n/a" if value is None else _FORMATS.get(key, "{:.2f}").format(value)
            for key, value in zip(result_table.keys, values, strict=True)
        )
        return text if part.is_valid(shedder, target) else f"({text})"

    def header(target: str) -> str:
        label, probability = target.replace("%", " %"), part.truth(target).get("match_probability")
        return label if probability is None else f"{label} ({100 * probability:.0f} %)"

    rows = [[name, *(cell(name, target) for target in targets)] for name in part.shedders]
    return table(["shedder", *map(header, targets)], rows)


def main() -> None:
    """Draw all stored results and write the page."""
    figures = [figure for paper in PAPERS.values() for figure in paper.figures if results_path(figure.stem).exists()]
    results = {figure.stem: read(figure.stem) for figure in figures}
    for figure in figures:
        draw(figure, part_results(results[figure.stem]))
    PAGE.write_text(page(results), encoding="utf-8")


def _dates(results: Mapping[str, Any]) -> str:
    """Return the date of the runs, and that of the references if only they ran later."""
    date, later = results["environment"]["date"], results.get("references", results["environment"])["date"]
    return str(date) if later == date else f"{date}, references on {later}"


def _stream_sizes(figure: Figure, parts: Mapping[str, PartResult]) -> str:
    """Return a sentence with the numbers of events, matches and seeds of each part."""
    clauses = []
    for part in figure.parts:
        result = parts[part.name]
        seeds = len(result.document["setting"]["seeds"])
        name = f"{part.title}: " if len(figure.parts) > 1 else ""
        counts = sorted(result.truth(target)["matches"] for target in result.targets)
        matches = f"{counts[0]:,}" + (f" to {counts[-1]:,}" if counts[-1] > counts[0] else "")
        clauses.append(
            f"{name}{result.document['events']:,} events, {matches} matches, {seeds} seed{'s' if seeds > 1 else ''}"
        )
    sentence = "; ".join(clauses)
    return sentence[0].upper() + sentence[1:] + "."


if __name__ == "__main__":
    main()
