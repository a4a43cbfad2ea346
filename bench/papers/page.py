"""Draw the pictures and write docs/reproduction.md from what is stored; nothing is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.papers import PAPERS
from bench.papers.draw import draw, image
from bench.papers.figures import Figure, Table
from bench.papers.stored import Stored, parts_of, path_of, read
from bench.shedding_page import table

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "reproduction.md"

_HEAD = """\
# The papers' figures, run again

Each section has a figure of a paper: what the paper says, our picture and numbers, and where they differ.
[`fc.evaluate`](evaluation.md) makes the runs: one without shedding gives the truth, then every strategy is run for
every bound or rate. `ri`, `si`, `rs`, `ss`, `pm-bl`, `e-bl` and `bl` are the papers'
[baselines](shedding.md#shedders). What learns does so from another stream of the same generator, or from the first half
of real events. A [reference](evaluation.md#references) (dashed) is no strategy: the `oracle` knows what is to come, and
`informed` knows the generator of the stream.

All is on the virtual clock, so that a result is the same on every machine: an event takes the sum over its counted
operations of what a [cost table](shedding.md#clocks-and-cost-tables) says. `paper` counts partial matches looked at and
stored, a nanosecond each; `measured` has what operations really take, decisions on shedding included. A point whose
bound was not held, or where nothing was shed, does not count: it is hollow in pictures, and in brackets in tables.
Values are means over seeds; throughput is relative to that without shedding.

`python -m bench.papers --jobs 2` runs all of this again (half an hour), draws it and writes this page. `python -m
bench.papers.hybrid fig4` runs one figure, `--events` and `--seeds` make it smaller, and `python -m bench.papers.page`
only draws and writes. The numbers are in `bench/results/papers/`.
"""


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the page, by what is stored of each figure."""
    text = [_HEAD]
    for paper in PAPERS.values():
        text.append(f"## {paper.title}\n")
        for figure in paper.figures:
            if figure.file in results:
                text += section(figure, results[figure.file])
        if paper.later:
            text.append(f"### Not yet\n\n{paper.later}\n")
    return "\n".join(text)


def section(figure: Figure, results: Mapping[str, Any]) -> Iterator[str]:
    """What is said of a figure."""
    parts = parts_of(results)
    figure = figure.having(parts)
    where = results["environment"]
    yield f"### {figure.title}\n"
    yield f"**The paper.** {figure.statement}\n"
    yield f"**Here.** {figure.shown} {_sizes(figure, parts)} ({where['date']}, commit {where['commit']}.)\n"
    for picture in figure.pictures:
        yield f"![{picture.caption}](images/papers/{image(figure, picture).name})\n"
    for one in figure.tables:
        yield f"{one.caption}:\n"
        yield cells(one, parts[one.part])
    yield "**The honest difference.**\n"
    yield "\n".join(f"* {said}" for said in figure.difference(parts)) + "\n"


def cells(one: Table, part: Stored) -> str:
    """A table of a part; what does not count is in brackets."""
    targets = list(one.targets) or part.targets

    def cell(shedder: str, target: str) -> str:
        values = [part.value(shedder, target, key) for key in one.keys]
        text = ", ".join("n/a" if value is None else f"{value:.2f}" for value in values)
        return text if part.counts(shedder, target) else f"({text})"

    rows = [[name, *(cell(name, target) for target in targets)] for name in part.shedders]
    return table(["shedder", *(target.replace("%", " %") for target in targets)], rows)


def main() -> None:
    """Draw all that is stored, and write the page."""
    figures = [figure for paper in PAPERS.values() for figure in paper.figures if path_of(figure.file).exists()]
    results = {figure.file: read(figure.file) for figure in figures}
    for figure in figures:
        draw(figure, parts_of(results[figure.file]))
    PAGE.write_text(page(results), encoding="utf-8")


def _sizes(figure: Figure, parts: Mapping[str, Stored]) -> str:
    """How many events and seeds, and matches."""
    said = []
    for part in figure.parts:
        stored = parts[part.name]
        seeds = len(stored.document["setting"]["seeds"])
        name = f"{part.title}: " if len(figure.parts) > 1 else ""
        found = sorted(stored.truth(target)["matches"] for target in stored.targets)
        matches = f"{found[0]:,}" + (f" to {found[-1]:,}" if found[-1] > found[0] else "")
        said.append(
            f"{name}{stored.document['events']:,} events, {matches} matches, {seeds} seed{'s' if seeds > 1 else ''}"
        )
    return "; ".join(said)[0].upper() + "; ".join(said)[1:] + "."


if __name__ == "__main__":
    main()
