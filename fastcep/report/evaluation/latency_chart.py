"""Charts of latency over time: a small chart with the bound for each strategy at a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastcep.report.evaluation.cells import Cell, Evaluation
from fastcep.report.evaluation.colours import GRID, INK, PAPER, UNSHED
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.number_text import duration
from fastcep.report.evaluation.strategy_style import looks

__all__ = ["LatencyChart", "latency_charts"]

_WIDTH, _HEIGHT = 270, 150
_AXES = (0.2, 0.15, 0.775, 0.8)  #: left, bottom, width, height; the same in all charts, so that they can be compared
_HEADROOM = 1.1
_LARGEST_RATIO = 3.5  #: the run without shedding is drawn if its mean latency is at most this multiple of the bound


@dataclass(frozen=True)
class LatencyChart:
    """Chart of the latencies of a strategy, in order of the events."""

    cell: Cell
    svg: str


def latency_charts(evaluation: Evaluation, target: str, prefix: str) -> list[LatencyChart]:
    """Return the charts of a target for the first seed, on one scale, references last."""
    series_of = {
        series["shedder"]: series
        for series in evaluation.document["series"]
        if series["target"] == target and series["latency"]
    }
    if not series_of:
        return []
    unshed = evaluation.truth.get("series") if _shows_unshed(evaluation, target) else None
    if not unshed or not unshed["latency"]:
        unshed = None
    top = max(_top(evaluation, series) for series in [*series_of.values(), *([unshed] if unshed else [])])
    return [
        LatencyChart(cell, _draw(evaluation, cell, series_of[cell.strategy.name], unshed, top, f"{prefix}{number}-"))
        for number, cell in enumerate(evaluation.cells_of(target))
        if cell.strategy.name in series_of
    ]


def _top(evaluation: Evaluation, series: Mapping[str, Any]) -> float:
    """Return the upper limit of the y axis for a series after its warm-up, and for the bound."""
    skipped = evaluation.setting["skip"] * series["x"][-1]
    judged = [value for x, value in zip(series["x"], series["latency"], strict=True) if x >= skipped]
    return _HEADROOM * float(max([*judged, series.get("bound") or 0.0]))


def _shows_unshed(evaluation: Evaluation, target: str) -> bool:
    """Return whether to draw the run without shedding: its latency must be of the same kind, and not too large."""
    bound = evaluation.value_of(target, "bound")
    return evaluation.mode != "rates" and (bound is None or evaluation.truth["mean_latency"] <= _LARGEST_RATIO * bound)


def _draw(
    evaluation: Evaluation,
    cell: Cell,
    series: Mapping[str, Any],
    unshed: Mapping[str, Any] | None,
    top: float,
    prefix: str,
) -> str:
    look = looks(evaluation.strategies)[cell.strategy.name]

    def draw(figure: Any) -> None:
        axes = figure.add_axes(_AXES)
        last = max([*series["x"], *(unshed["x"] if unshed else ())])
        axes.axvspan(0, evaluation.setting["skip"] * last, color=GRID, linewidth=0)
        if unshed:
            axes.plot(unshed["x"], _clipped(unshed["latency"], top), color=UNSHED, linewidth=0.7)
        axes.plot(series["x"], _clipped(series["latency"], top), color=look.colour, linewidth=1.0)
        if series["bound"] is not None:
            axes.axhline(series["bound"], color=PAPER, linewidth=2.6, alpha=0.7)
            axes.axhline(series["bound"], color=INK, linewidth=1.3, linestyle=(0, (5, 2)))
        _set_axes(axes, last, top)

    description = f"Latency over time of {cell.strategy.name} at {cell.target}; bound {duration(series['bound'])}."
    return picture(draw, _WIDTH, _HEIGHT, description, prefix)


def _clipped(values: Sequence[float], top: float) -> list[float]:
    return [min(value, top) for value in values]


def _set_axes(axes: Any, last: float, top: float) -> None:
    axes.set_ylim(0, top or 1.0)
    axes.set_xlim(0, last or 1.0)
    axes.locator_params(nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: duration(value) if value else "0")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.tick_params(labelsize=10)
