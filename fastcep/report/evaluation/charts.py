"""The papers' pictures: recall, precision, throughput and shed ratios from the loosest target to the tightest.

Targets stand side by side at equal distances; strategies are set a little apart at each, as their values are often
nearly the same. Where not all rows count the marker is hollow and no line runs through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from math import nan
from typing import Any

from fastcep.plan.explain.words import clip, shown
from fastcep.report.evaluation.cells import Cell, Evaluation, Strategy
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.look import FAINT, Look, looks
from fastcep.report.evaluation.words import STATISTICS, duration, target_text

__all__ = ["Chart", "charts", "swatch"]

_LARGE, _SMALL = (880, 400), (560, 300)
_APART = 0.62  #: share of the distance between two targets over which the strategies are set apart


Value = Callable[[Cell], float | None]
Range = Callable[[Cell], tuple[float, float] | None]


@dataclass(frozen=True)
class Chart:
    """A picture and what is written above it."""

    title: str
    told: str
    svg: str
    large: bool = False


@dataclass(frozen=True)
class _Plot:
    """What is drawn: a value of every cell, and at which place."""

    title: str
    told: str
    label: str
    value: Value
    range: Range
    share: bool = True
    place: Value | None = None  # None: the target's number
    names: Set[str] | None = None  # of the strategies that are drawn; None: all
    place_label: str = ""


def charts(evaluation: Evaluation) -> list[Chart]:
    """The pictures over all targets; the recall first, and large."""
    made = []
    for number, plot in enumerate(_plots(evaluation)):
        large = number == 0 and plot.place is None
        made.append(Chart(plot.title, plot.told, _draw(evaluation, plot, large, f"p{number}-"), large))
    return made


def swatch(look: Look, prefix: str) -> str:
    """A piece of a strategy's line, for a legend."""

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.plot([0.04, 0.5, 0.96], [0.5, 0.5, 0.5], markevery=[1], **_line(look))

    return picture(draw, 36, 14, "", prefix)


# -------------------------------------------------------------------------------------------------------------- plots


def _key(key: str) -> tuple[Value, Range]:
    return lambda cell: cell.mean(key), lambda cell: cell.range(key)


def _plots(evaluation: Evaluation) -> list[_Plot]:
    recall, precision = _key("recall"), _key("precision")
    events, matches = _key("shed_event_ratio"), _key("shed_match_ratio")
    found = "Share of the true matches that were found."
    true = "Share of what was found that is true."
    plots = [
        _Plot("Recall", found, "recall", *recall),
        _Plot("Precision", true, "precision", *precision),
        _throughput(evaluation),
        _Plot("Shed events", "Of those that some variable could bind.", "share shed", *events),
        _Plot("Shed partial matches", "Refused and dropped, of those born and refused.", "share shed", *matches),
    ]
    if evaluation.mode != "demands":
        return plots
    return [
        *_over(evaluation, "Recall", found, "recall", *recall),
        *_over(evaluation, "Precision", true, "precision", *precision),
        *plots[2:],
    ]


def _throughput(evaluation: Evaluation) -> _Plot:
    plain = evaluation.truth.get("throughput") or nan

    def span(cell: Cell) -> tuple[float, float] | None:
        found = cell.range("throughput")
        return (found[0] / plain, found[1] / plain) if found else None

    told = "Events per second of busy time, relative to the run without shedding."
    return _Plot("Throughput", told, "times that without shedding", evaluation.throughput, span, share=False)


def _over(evaluation: Evaluation, title: str, told: str, label: str, value: Value, span: Range) -> list[_Plot]:
    """A value over what was really shed: once for events, once for partial matches."""
    plots = []
    for what, key in (("events", "shed_event_ratio"), ("partial matches", "shed_match_ratio")):
        names = {cell.strategy.name for cell in evaluation.cells.values() if (cell.mean(key) or 0.0) > 0}
        across = f"share of the {what} that were shed"
        if names:
            plots.append(_Plot(f"{title} over shed {what}", told, label, value, span, True, _key(key)[0], names, across))
    return plots


# ------------------------------------------------------------------------------------------------------------ drawing


def _draw(evaluation: Evaluation, plot: _Plot, large: bool, prefix: str) -> str:
    width, height = _LARGE if large else _SMALL

    def draw(figure: Any) -> None:
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for strategy in _back_to_front(evaluation.strategies):
            if plot.names is None or strategy.name in plot.names:
                _strategy(axes, evaluation, plot, strategy)
        _axes(axes, evaluation, plot, small=not large)

    return picture(draw, width, height, f"{plot.title}. {plot.told}", prefix)


def _back_to_front(strategies: Sequence[Strategy]) -> list[Strategy]:
    """References lie below, the first strategy above all."""
    return sorted(strategies[::-1], key=lambda strategy: not strategy.reference)


def _shift(evaluation: Evaluation, strategy: Strategy) -> float:
    """How far from the target's place the strategy is drawn."""
    count = len(evaluation.strategies)
    step = min(_APART / max(count - 1, 1), 0.085)
    return step * (evaluation.strategies.index(strategy) - (count - 1) / 2)


def _strategy(axes: Any, evaluation: Evaluation, plot: _Plot, strategy: Strategy) -> None:
    look = looks(evaluation.strategies)[strategy.name]
    shift = _shift(evaluation, strategy)
    points = [
        (place, *point)
        for number, target in enumerate(evaluation.ordered)
        if (cell := evaluation.cells.get((strategy.name, target))) is not None
        and (point := _point(plot, cell)) is not None
        and (place := number + shift if plot.place is None else plot.place(cell)) is not None
    ]
    if not points:
        return
    places, values, lows, highs, counts = map(list, zip(*points, strict=True))
    solid = [value if ok else nan for value, ok in zip(values, counts, strict=True)]
    axes.plot(places, solid, **_line(look))
    axes.fill_between(places, lows, highs, where=counts, color=look.colour, alpha=0.13, linewidth=0)
    axes.vlines(places, lows, highs, color=look.colour, linewidth=1.2)
    for place, value, ok in zip(places, values, counts, strict=True):
        if not ok:
            axes.plot([place], [value], **_line(look) | {"markerfacecolor": "white", "markeredgecolor": look.colour})


def _point(plot: _Plot, cell: Cell) -> tuple[float, float, float, bool] | None:
    value = plot.value(cell)
    if value is None:
        return None
    low, high = plot.range(cell) or (value, value)
    return value, low, high, cell.counts


def _line(look: Look) -> dict[str, Any]:
    return {
        "color": look.colour, "linestyle": look.line, "linewidth": 1.5, "marker": look.marker,
        "markersize": 8.5 if look.marker == "*" else 6, "markeredgewidth": 0.7, "markeredgecolor": "white",
        "clip_on": False,
    }  # fmt: skip


def _axes(axes: Any, evaluation: Evaluation, plot: _Plot, small: bool) -> None:
    axes.set_ylabel(plot.label)
    if plot.share:
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    if plot.place is not None:
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.set_xlabel(plot.place_label)
        return
    targets = evaluation.ordered
    axes.set_xlim(-0.5, len(targets) - 0.5)
    axes.set_xticks(range(len(targets)), [_tick(evaluation, target, len(targets), small) for target in targets])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    for between in range(1, len(targets)):
        axes.axvline(between - 0.5, color=FAINT, linewidth=0.4, alpha=0.4)
    axes.set_xlabel(_across(evaluation))


def _tick(evaluation: Evaluation, target: str, count: int, small: bool) -> str:
    """The label of a target, and below it what it comes to."""
    label = clip(shown(target), max(4, (60 if small else 100) // count))
    more = target_text(evaluation, target)
    return f"{label}\n{more}" if more and not (small and count > 7) else label


def _across(evaluation: Evaluation) -> str:
    if evaluation.mode == "bounds":
        statistic = STATISTICS[evaluation.setting["statistic"]]
        return f"bound on the {statistic} of the processing latency: loose → tight"
    if evaluation.mode == "rates":
        return f"rate of arrival; the bound is {duration(evaluation.setting['latency_bound'])}"
    return "share of the work that is to be saved"
