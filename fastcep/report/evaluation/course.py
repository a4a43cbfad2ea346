"""Latency over time: a small picture for every strategy at a target, with the bound drawn in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.look import BOUND, looks
from fastcep.report.evaluation.words import duration

__all__ = ["Course", "courses"]

_WIDTH, _HEIGHT = 270, 150
_AXES = (0.2, 0.15, 0.775, 0.8)  #: left, bottom, width, height; the same in all, so that they can be compared
_TRUTH = "#b6bcc6"
_ROOM = 1.06


@dataclass(frozen=True)
class Course:
    """The latencies of a strategy in the order of the events, as a picture."""

    cell: Cell
    svg: str


def courses(evaluation: Evaluation, target: str, prefix: str) -> list[Course]:
    """The pictures of a target, on one scale; those of references last. Of the first seed."""
    series = {
        each["shedder"]: each for each in evaluation.document["series"] if each["target"] == target and each["latency"]
    }
    if not series:
        return []
    plain = evaluation.truth.get("series") if evaluation.mode != "rates" else None  # there: another latency
    highest = max(max(each["latency"]) for each in series.values())
    top = _ROOM * max(highest, *(each["bound"] or 0.0 for each in series.values()), *(plain or {}).get("latency", []))
    return [
        Course(cell, _draw(evaluation, cell, series[cell.strategy.name], plain, top, f"{prefix}{number}-"))
        for number, cell in enumerate(evaluation.of(target))
        if cell.strategy.name in series
    ]


def _draw(
    evaluation: Evaluation, cell: Cell, own: Mapping[str, Any], plain: Mapping[str, Any] | None, top: float, prefix: str
) -> str:
    look = looks(evaluation.strategies)[cell.strategy.name]

    def draw(figure: Any) -> None:
        axes = figure.add_axes(_AXES)
        if plain:
            axes.plot(plain["x"], plain["latency"], color=_TRUTH, linewidth=0.7, clip_on=False)
        axes.plot(own["x"], own["latency"], color=look.colour, linewidth=1.1, clip_on=False)
        if own["bound"] is not None:
            axes.axhline(own["bound"], color=BOUND, linewidth=1.2, linestyle=(0, (5, 2)))
        _axes(axes, max([*own["x"], *(plain["x"] if plain else ())]), top)

    told = f"Latency over time of {cell.strategy.name} at {cell.target}; bound {duration(own['bound'])}."
    return picture(draw, _WIDTH, _HEIGHT, told, prefix)


def _axes(axes: Any, last: float, top: float) -> None:
    axes.set_ylim(0, top or 1.0)
    axes.set_xlim(0, last or 1.0)
    axes.locator_params(nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: duration(value) if value else "0")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.tick_params(labelsize=10)
