"""The papers' pictures: recall, precision, throughput and shed ratios from the loosest target to the tightest.

Targets stand side by side at equal distances. Strategies are often nearly the same: so those behind have wider lines
and larger markers, which are then seen around those before them, and a second picture of the recall shows how far each
is behind the best. Where not all rows count the marker is hollow, and no line runs through it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from fastcep.plan.explain.text_helpers import clip, shown
from fastcep.report.evaluation.cells import Cell, Evaluation, Strategy
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.number_text import STATISTICS, duration, target_text
from fastcep.report.evaluation.strategy_style import INK, Look, looks

__all__ = ["Chart", "charts", "swatch"]

_LARGE, _SMALL = (560, 370), (560, 290)
_STEPS = (0, 0.5, 1, 2, 5, 10, 20, 50)
_WIDTHS, _SIZES = (1.3, 3.2), (5.0, 9.0)  #: of lines and markers, of the strategy in front and of the one behind all

Value = Callable[[Cell], float | None]
Range = Callable[[Cell], tuple[float, float] | None]


@dataclass(frozen=True)
class Chart:
    """A picture and what is written above it."""

    title: str
    told: str
    svg: str


@dataclass(frozen=True)
class _Plot:
    """What is drawn: a value of every cell, and at which place."""

    title: str
    told: str
    label: str
    value: Value
    range: Range
    unit: str = "%"  # or ×, points
    level: float | None = None  # a line across
    place: Value | None = None  # None: the target's number
    names: Set[str] | None = None  # of the strategies that are drawn; None: all
    across: str = ""  # what the places are


def charts(evaluation: Evaluation) -> list[Chart]:
    """The pictures over all targets; the two of the recall first, and larger."""
    known = [
        plot for plot in _plots(evaluation) if any(plot.value(cell) is not None for cell in evaluation.cells.values())
    ]
    return [
        Chart(plot.title, plot.told, _draw(evaluation, plot, number < 2, f"p{number}-"))
        for number, plot in enumerate(known)
    ]


def swatch(look: Look, prefix: str) -> str:
    """A piece of a strategy's line, for a legend."""

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.plot([0.04, 0.5, 0.96], [0.5, 0.5, 0.5], markevery=[1], **_line(look))

    return picture(draw, 36, 14, "", prefix)


# -------------------------------------------------------------------------------------------------------------- plots


def _key(key: str, over: float = 1.0) -> tuple[Value, Range]:
    """A value of the rows, over a number."""

    def value(cell: Cell) -> float | None:
        mean = cell.mean(key)
        return None if mean is None or not over else mean / over

    def span(cell: Cell) -> tuple[float, float] | None:
        found = cell.range(key)
        return None if found is None or not over else (found[0] / over, found[1] / over)

    return value, span


def _plots(evaluation: Evaluation) -> list[_Plot]:
    recall = _Plot("Recall", "Share of the true matches that were found.", "recall", *_key("recall"))
    precision = _Plot("Precision", "Share of what was found that is true.", "precision", *_key("precision"))
    throughput = _Plot(
        "Throughput", "Events per second of busy time, relative to the run without shedding.", "times",
        *_key("throughput", evaluation.truth.get("throughput") or 0.0), unit="×",
    )  # fmt: skip
    events, matches = _key("shed_event_ratio"), _key("shed_match_ratio")
    plots = [
        throughput,
        _latency(evaluation),
        _Plot("Shed events", "Of those that some variable could bind.", "share shed", *events),
        _Plot("Shed partial matches", "Refused and dropped, of those born and refused.", "share shed", *matches),
    ]
    if evaluation.mode == "demands":
        over = [*_over(evaluation, recall), *_over(evaluation, precision)]
        return [*over[:2], recall, _behind(evaluation), *over[2:], *plots]
    told = "What the shedder said of its recall, less what it was."
    estimate = _Plot("Estimated recall", told, "error, in points", _error, _errors, unit="points", level=0.0)
    return [recall, _behind(evaluation), precision, *plots, estimate]


def _behind(evaluation: Evaluation) -> _Plot:
    """How far from the best strategy at the same target: this tells those apart that nearly coincide."""
    best = {
        target: first.mean("recall") or 0.0
        for target in evaluation.targets
        for first in evaluation.best(target, reference=False)[:1]
    }

    def value(cell: Cell) -> float | None:
        recall = cell.mean("recall")
        return None if recall is None or cell.target not in best else 100 * (recall - best[cell.target])

    def span(cell: Cell) -> tuple[float, float] | None:
        found = cell.range("recall")
        return None if found is None else (100 * (found[0] - best[cell.target]), 100 * (found[1] - best[cell.target]))

    names = {strategy.name for strategy in evaluation.strategies if not strategy.reference}
    told = "Recall less that of the best strategy that counts, in points; logarithmic beyond ±1."
    return _Plot("Behind the best", told, "points", value, span, unit="log points", level=0.0, names=names)


def _error(cell: Cell) -> float | None:
    estimated, recall = cell.mean("estimated_recall"), cell.mean("recall")
    return None if estimated is None or recall is None else 100 * (estimated - recall)


def _errors(cell: Cell) -> tuple[float, float] | None:
    found = [
        100 * (row["estimated_recall"] - row["recall"])
        for row in cell.rows
        if row.get("estimated_recall") is not None and row["recall"] is not None
    ]
    return (min(found), max(found)) if found else None


def _latency(evaluation: Evaluation) -> _Plot:
    """What the bound is about, over the bound; without one over the run without shedding."""
    if evaluation.mode == "demands":
        plain = evaluation.truth["mean_latency"]
        told = "Mean processing latency, relative to the run without shedding."
        return _Plot("Latency", told, "times", *_key("mean_latency", plain), unit="×")
    if evaluation.mode == "rates":
        told = "99th percentile of the event latency, relative to its bound."
        value, span = _key("p99_latency", evaluation.setting["latency_bound"])
        return _Plot("Latency", told, "of the bound", value, span, unit="×", level=1.0)
    key, statistic = evaluation.statistic, STATISTICS[evaluation.setting["statistic"]]

    def spans(cell: Cell) -> tuple[float, float] | None:
        bound = cell.mean("bound")
        return _key(key, bound)[1](cell) if bound else None

    told = f"The {statistic} of the processing latency, relative to its bound: up to the line it is held."
    return _Plot("Latency", told, "of the bound", evaluation.over_bound, spans, unit="×", level=1.0)


def _over(evaluation: Evaluation, plot: _Plot) -> list[_Plot]:
    """A value over what was really shed: once for events, once for partial matches."""
    plots = []
    for what, key in (("events", "shed_event_ratio"), ("partial matches", "shed_match_ratio")):
        names = {cell.strategy.name for cell in evaluation.cells.values() if (cell.mean(key) or 0.0) > 0}
        if names:
            title, across = f"{plot.title} over shed {what}", f"share of the {what} that were shed"
            plots.append(replace(plot, title=title, place=_key(key)[0], names=names, across=across))
    return plots


# ------------------------------------------------------------------------------------------------------------ drawing


def _draw(evaluation: Evaluation, plot: _Plot, large: bool, prefix: str) -> str:
    width, height = _LARGE if large else _SMALL

    def draw(figure: Any) -> None:
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        found = looks(evaluation.strategies)
        own = [each for each in evaluation.strategies if plot.names is None or each.name in plot.names]
        own.sort(key=lambda strategy: strategy.reference)
        for depth, strategy in reversed(list(enumerate(own))):
            _strategy(axes, evaluation, plot, strategy, _line(found[strategy.name], depth / max(len(own) - 1, 1)))
        _axes(axes, plot)
        _across(axes, evaluation, plot, small=not large)

    return picture(draw, width, height, f"{plot.title}. {plot.told}", prefix)


def _strategy(axes: Any, evaluation: Evaluation, plot: _Plot, strategy: Strategy, line: dict[str, Any]) -> None:
    points = [
        (place, *point)
        for number, target in enumerate(evaluation.ordered)
        if (cell := evaluation.cells.get((strategy.name, target))) is not None
        and (point := _point(plot, cell)) is not None
        and (place := number if plot.place is None else plot.place(cell)) is not None
    ]
    if not points:
        return
    places, values, lows, highs, counts = map(list, zip(*points, strict=True))
    if plot.unit != "points":
        axes.fill_between(places, lows, highs, where=counts, color=line["color"], alpha=0.13, linewidth=0)
    axes.vlines(places, lows, highs, color=line["color"], linewidth=1)
    axes.plot(places, [value if ok else nan for value, ok in zip(values, counts, strict=True)], **line)
    hollow = line | {"markerfacecolor": "white", "markeredgecolor": line["color"], "markeredgewidth": 1.3}
    for place, value, ok in zip(places, values, counts, strict=True):
        if not ok:
            axes.plot([place], [value], **hollow)


def _point(plot: _Plot, cell: Cell) -> tuple[float, float, float, bool] | None:
    value = plot.value(cell)
    if value is None:
        return None
    low, high = plot.range(cell) or (value, value)
    return value, low, high, cell.counts


def _line(look: Look, depth: float = 0.5) -> dict[str, Any]:
    """How a strategy is drawn, from in front of all (0) to behind all (1)."""
    width, size = (low + depth * (high - low) for low, high in (_WIDTHS, _SIZES))
    return {
        "color": look.colour, "linestyle": look.line, "linewidth": 1.6 if look.line == "--" else width,
        "marker": look.marker, "markersize": size + 2.5 * (look.marker == "*"), "markeredgewidth": 0.6,
        "markeredgecolor": "white",
    }  # fmt: skip


def _axes(axes: Any, plot: _Plot) -> None:
    axes.set_ylabel(plot.label)
    if plot.level is not None and axes.lines:
        axes.axhline(plot.level, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    if plot.unit == "%":
        axes.set_ylim(-0.025, 1.025)
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        return
    if plot.unit == "×":
        axes.set_ylim(bottom=0)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.05))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        return
    if plot.unit == "log points":
        low, high = axes.get_ylim()
        axes.set_yscale("symlog", linthresh=1, linscale=0.6)
        axes.set_yticks([sign * each for each in _STEPS for sign in (-1, 1)], minor=False)
        axes.set_yticks([], minor=True)
        axes.set_ylim(min(low, -1), max(high, 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")


def _across(axes: Any, evaluation: Evaluation, plot: _Plot, small: bool) -> None:
    if plot.place is not None:
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.set_xlabel(plot.across)
        return
    targets = evaluation.ordered
    axes.set_xlim(-0.4, len(targets) - 0.6)
    axes.set_xticks(range(len(targets)), [_tick(evaluation, target, len(targets), small) for target in targets])
    axes.set_xlabel(_what(evaluation, small))


def _tick(evaluation: Evaluation, target: str, count: int, small: bool) -> str:
    """The label of a target, and below it what it comes to."""
    label = clip(shown(target), max(4, (60 if small else 100) // count))
    more = target_text(evaluation, target)
    return f"{label}\n{more}" if more and not small else label


def _what(evaluation: Evaluation, small: bool) -> str:
    """What the targets are."""
    if evaluation.mode == "bounds":
        statistic = STATISTICS[evaluation.setting["statistic"]]
        return f"bound on the {statistic} of the processing latency{'' if small else ': loose → tight'}"
    if evaluation.mode == "rates":
        return f"rate of arrival{'' if small else '; the bound is ' + duration(evaluation.setting['latency_bound'])}"
    return "share of the work that is to be saved"
