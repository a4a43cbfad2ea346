"""Latency over time: a small picture for every strategy at a target, with the bound drawn in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.number_text import duration
from fastcep.report.evaluation.strategy_style import INK, looks

__all__ = ["LatencyChart", "courses"]

_WIDTH, _HEIGHT = 270, 150
_AXES = (0.2, 0.15, 0.775, 0.8)  #: left, bottom, width, height; the same in all, so that they can be compared
_TRUTH = "#b6bcc6"
_ROOM = 1.1
_FITS = 3.5  #: the run without shedding is drawn if its mean is at most so many times the bound


@dataclass(frozen=True)
class LatencyChart:
    """The latencies of a strategy in the order of the events, as a picture."""

    cell: Cell
    svg: str


def courses(evaluation: Evaluation, target: str, prefix: str) -> list[LatencyChart]:
    """The pictures of a target, on one scale; those of references last. Of the first seed."""
    series = {
        each["shedder"]: each for each in evaluation.document["series"] if each["target"] == target and each["latency"]
    }
    if not series:
        return []
    plain = evaluation.truth.get("series") if _fits(evaluation, target) else None
    if not plain or not plain["latency"]:
        plain = None
    top = max(_highest(evaluation, each) for each in [*series.values(), *([plain] if plain else [])])
    return [
        LatencyChart(cell, _draw(evaluation, cell, series[cell.strategy.name], plain, top, f"{prefix}{number}-"))
        for number, cell in enumerate(evaluation.of(target))
        if cell.strategy.name in series
    ]


def _highest(evaluation: Evaluation, each: Mapping[str, Any]) -> float:
    """How high a picture must be for what is judged of a series, and for the bound."""
    skipped = evaluation.setting["skip"] * each["x"][-1]
    judged = [value for x, value in zip(each["x"], each["latency"], strict=True) if x >= skipped]
    return _ROOM * float(max([*judged, each.get("bound") or 0.0]))


def _fits(evaluation: Evaluation, target: str) -> bool:
    """Whether the run without shedding is of the same latency, and of a size that leaves the others room."""
    bound = evaluation.common(target, "bound")
    return evaluation.mode != "rates" and (bound is None or evaluation.truth["mean_latency"] <= _FITS * bound)


def _draw(
    evaluation: Evaluation, cell: Cell, own: Mapping[str, Any], plain: Mapping[str, Any] | None, top: float, prefix: str
) -> str:
    look = looks(evaluation.strategies)[cell.strategy.name]

    def draw(figure: Any) -> None:
        axes = figure.add_axes(_AXES)
        last = max([*own["x"], *(plain["x"] if plain else ())])
        axes.axvspan(0, evaluation.setting["skip"] * last, color="#e5e7eb", linewidth=0)
        if plain:
            axes.plot(plain["x"], _cut(plain["latency"], top), color=_TRUTH, linewidth=0.7)
        axes.plot(own["x"], _cut(own["latency"], top), color=look.colour, linewidth=1.0)
        if own["bound"] is not None:
            axes.axhline(own["bound"], color="white", linewidth=2.6, alpha=0.7)
            axes.axhline(own["bound"], color=INK, linewidth=1.3, linestyle=(0, (5, 2)))
        _axes(axes, last, top)

    told = f"Latency over time of {cell.strategy.name} at {cell.target}; bound {duration(own['bound'])}."
    return picture(draw, _WIDTH, _HEIGHT, told, prefix)


def _cut(values: Sequence[float], top: float) -> list[float]:
    return [min(value, top) for value in values]


def _axes(axes: Any, last: float, top: float) -> None:
    axes.set_ylim(0, top or 1.0)
    axes.set_xlim(0, last or 1.0)
    axes.locator_params(nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: duration(value) if value else "0")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.tick_params(labelsize=10)
