"""Charts of recall, precision, throughput and shed ratios, from the loosest target to the tightest, as in the papers.

Targets are equally spaced. Curves often nearly coincide. Therefore curves in the background have wider lines and larger
markers, which stay visible around those in the foreground, and a second chart shows the distance of each recall from
the best. A marker is hollow, and the line has a gap, if some rows of the cell do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from fastcep.plan.explain.text_helpers import clip, shown
from fastcep.report.evaluation.cells import Cell, Evaluation, Strategy
from fastcep.report.evaluation.colours import INK, PAPER
from fastcep.report.evaluation.figure import picture
from fastcep.report.evaluation.number_text import STATISTICS, duration, target_text
from fastcep.report.evaluation.strategy_style import Look, looks

__all__ = ["Chart", "charts", "swatch"]

_SIZES_OF = {"half": (560, 370), "third": (400, 290)}
_STEPS = (0, 0.5, 1, 2, 5, 10, 20, 50)
_WIDTHS, _SIZES = (1.3, 3.2), (5.0, 9.0)  #: of lines and markers: in the foreground, in the background

Value = Callable[[Cell], float | None]
Range = Callable[[Cell], tuple[float, float] | None]


@dataclass(frozen=True)
class Chart:
    """A chart as SVG, with its title, caption, and width on a wide page: ``half`` or ``third``."""

    title: str
    caption: str
    svg: str
    width: str


@dataclass(frozen=True)
class _Plot:
    """Definition of a chart: y and x value of every cell."""

    title: str
    caption: str
    label: str
    value: Value
    range: Range
    unit: str = "%"  # or ×, points
    level: float | None = None  # y value of a horizontal line
    x_value: Value | None = None  # None: the index of the target
    names: Set[str] | None = None  # strategies to draw; None: all
    x_label: str = ""  # used with x_value


def charts(evaluation: Evaluation) -> list[Chart]:
    """Return the charts over all targets. The two charts of the recall come first, and are larger."""
    with_values = [
        plot for plot in _plots(evaluation) if any(plot.value(cell) is not None for cell in evaluation.cells.values())
    ]
    widths = _widths(len(with_values))
    return [
        Chart(plot.title, plot.caption, _draw(evaluation, plot, width, f"p{number}-"), width)
        for number, (plot, width) in enumerate(zip(with_values, widths, strict=True))
    ]


def _widths(count: int) -> list[str]:
    """Return widths that fill every row of the page: two halves first, then thirds, and halves for the remainder."""
    halves = 2 + (4, 2, 0)[count % 3] if count > 3 else count
    return ["half"] * min(halves, 2) + ["third"] * (count - halves) + ["half"] * (halves - 2)


def swatch(look: Look, prefix: str) -> str:
    """Return a sample of a strategy's line, for a legend."""

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.plot([0.04, 0.5, 0.96], [0.5, 0.5, 0.5], markevery=[1], **_line(look))

    return picture(draw, 36, 14, "", prefix)


# -------------------------------------------------------------------------------------------------------------- plots


def _key(key: str, divisor: float = 1.0) -> tuple[Value, Range]:
    """Return functions for the mean and the range of a value of the rows, divided by a number."""

    def value(cell: Cell) -> float | None:
        mean = cell.mean(key)
        return None if mean is None or not divisor else mean / divisor

    def value_range(cell: Cell) -> tuple[float, float] | None:
        limits = cell.range(key)
        return None if limits is None or not divisor else (limits[0] / divisor, limits[1] / divisor)

    return value, value_range


def _plots(evaluation: Evaluation) -> list[_Plot]:
    recall = _Plot("Recall", "Share of the true matches that were found.", "recall", *_key("recall"))
    precision = _Plot("Precision", "Share of the found matches that are true.", "precision", *_key("precision"))
    throughput = _Plot(
        "Throughput", "Events per second of busy time, relative to the run without shedding.", "times",
        *_key("throughput", evaluation.truth.get("throughput") or 0.0), unit="×",
    )  # fmt: skip
    events, matches = _key("shed_event_ratio"), _key("shed_match_ratio")
    plots = [
        throughput,
        _latency(evaluation),
        _Plot("Shed events", "Share of the events that some variable could bind.", "share shed", *events),
        _Plot("Shed partial matches", "Share refused or dropped, of those born or refused.", "share shed", *matches),
    ]
    if evaluation.mode == "demands":
        over_shed = [*_over_shed(evaluation, recall)]
        if not evaluation.document["query"]["monotonic"]:
            over_shed += _over_shed(evaluation, precision)
        return [*over_shed[:2], recall, _behind_best(evaluation), *over_shed[2:], *plots]
    caption = "Recall as the shedder estimates it, minus the true recall."
    estimate = _Plot("Estimated recall", caption, "error, in points", _error, _error_range, unit="points", level=0.0)
    certain = [] if evaluation.document["query"]["monotonic"] else [precision]
    return [recall, _behind_best(evaluation), *certain, *plots, estimate]


def _behind_best(evaluation: Evaluation) -> _Plot:
    """Return the plot of the distance from the best recall at the same target, which separates close curves."""
    best = {
        target: first.mean("recall") or 0.0
        for target in evaluation.targets
        for first in evaluation.best(target, reference=False)[:1]
    }

    def value(cell: Cell) -> float | None:
        recall = cell.mean("recall")
        return None if recall is None or cell.target not in best else 100 * (recall - best[cell.target])

    def value_range(cell: Cell) -> tuple[float, float] | None:
        limits = cell.range("recall")
        if limits is None:
            return None
        return 100 * (limits[0] - best[cell.target]), 100 * (limits[1] - best[cell.target])

    names = {strategy.name for strategy in evaluation.strategies if not strategy.reference}
    caption = "Recall minus that of the best strategy that counts, in points; logarithmic beyond ±1."
    return _Plot("Behind the best", caption, "points", value, value_range, unit="log points", level=0.0, names=names)


def _error(cell: Cell) -> float | None:
    estimated, recall = cell.mean("estimated_recall"), cell.mean("recall")
    return None if estimated is None or recall is None else 100 * (estimated - recall)


def _error_range(cell: Cell) -> tuple[float, float] | None:
    errors = [
        100 * (row["estimated_recall"] - row["recall"])
        for row in cell.rows
        if row.get("estimated_recall") is not None and row["recall"] is not None
    ]
    return (min(errors), max(errors)) if errors else None


def _latency(evaluation: Evaluation) -> _Plot:
    """Return the plot of the bounded latency relative to its bound; for demands, relative to no shedding."""
    if evaluation.mode == "demands":
        unshed = evaluation.truth["mean_latency"]
        caption = "Mean processing latency, relative to the run without shedding."
        return _Plot("Latency", caption, "times", *_key("mean_latency", unshed), unit="×")
    if evaluation.mode == "rates":
        caption = "99th percentile of the event latency, relative to its bound."
        value, value_range = _key("p99_latency", evaluation.setting["latency_bound"])
        return _Plot("Latency", caption, "of the bound", value, value_range, unit="×", level=1.0)
    key, statistic = evaluation.statistic, STATISTICS[evaluation.setting["statistic"]]

    def range_over_bound(cell: Cell) -> tuple[float, float] | None:
        bound = cell.mean("bound")
        return _key(key, bound)[1](cell) if bound else None

    caption = f"The {statistic} of the processing latency, relative to its bound, which holds up to the line."
    return _Plot("Latency", caption, "of the bound", evaluation.over_bound, range_over_bound, unit="×", level=1.0)


def _over_shed(evaluation: Evaluation, plot: _Plot) -> list[_Plot]:
    """Return plots of a value over the share that was shed: of events, and of partial matches."""
    plots = []
    for items, key in (("events", "shed_event_ratio"), ("partial matches", "shed_match_ratio")):
        names = {cell.strategy.name for cell in evaluation.cells.values() if (cell.mean(key) or 0.0) > 0}
        if names:
            title, x_label = f"{plot.title} over shed {items}", f"share of the {items} that were shed"
            plots.append(replace(plot, title=title, x_value=_key(key)[0], names=names, x_label=x_label))
    return plots


# ------------------------------------------------------------------------------------------------------------ drawing


def _draw(evaluation: Evaluation, plot: _Plot, page_width: str, prefix: str) -> str:
    width, height = _SIZES_OF[page_width]

    def draw(figure: Any) -> None:
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        look_of = looks(evaluation.strategies)
        drawn = [strategy for strategy in evaluation.strategies if plot.names is None or strategy.name in plot.names]
        drawn.sort(key=lambda strategy: strategy.reference)
        for depth, strategy in reversed(list(enumerate(drawn))):
            line = _line(look_of[strategy.name], depth / max(len(drawn) - 1, 1))
            _draw_strategy(axes, evaluation, plot, strategy, line)
        _set_y_axis(axes, plot)
        _set_x_axis(axes, evaluation, plot, small=page_width == "third")

    return picture(draw, width, height, f"{plot.title}. {plot.caption}", prefix)


def _draw_strategy(axes: Any, evaluation: Evaluation, plot: _Plot, strategy: Strategy, line: dict[str, Any]) -> None:
    points = [
        (x, *point)
        for number, target in enumerate(evaluation.ordered)
        if (cell := evaluation.cells.get((strategy.name, target))) is not None
        and (point := _point(plot, cell)) is not None
        and (x := number if plot.x_value is None else plot.x_value(cell)) is not None
    ]
    if not points:
        return
    xs, values, lows, highs, counts = map(list, zip(*points, strict=True))
    if plot.unit != "points":
        axes.fill_between(xs, lows, highs, where=counts, color=line["color"], alpha=0.13, linewidth=0)
    axes.vlines(xs, lows, highs, color=line["color"], linewidth=1)
    axes.plot(xs, [value if ok else nan for value, ok in zip(values, counts, strict=True)], **line)
    hollow = line | {"markerfacecolor": PAPER, "markeredgecolor": line["color"], "markeredgewidth": 1.3}
    for x, value, ok in zip(xs, values, counts, strict=True):
        if not ok:
            axes.plot([x], [value], **hollow)


def _point(plot: _Plot, cell: Cell) -> tuple[float, float, float, bool] | None:
    value = plot.value(cell)
    if value is None:
        return None
    low, high = plot.range(cell) or (value, value)
    return value, low, high, cell.counts


def _line(look: Look, depth: float = 0.5) -> dict[str, Any]:
    """Return the line style of a strategy, from the foreground (depth 0) to the background (1)."""
    width, size = (low + depth * (high - low) for low, high in (_WIDTHS, _SIZES))
    return {
        "color": look.colour, "linestyle": look.line, "linewidth": 1.6 if look.line == "--" else width,
        "marker": look.marker, "markersize": size + 2.5 * (look.marker == "*"), "markeredgewidth": 0.6,
        "markeredgecolor": PAPER,
    }  # fmt: skip


def _set_y_axis(axes: Any, plot: _Plot) -> None:
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
        axes.set_yticks([sign * step for step in _STEPS for sign in (-1, 1)], minor=False)
        axes.set_yticks([], minor=True)
        axes.set_ylim(min(low, -1), max(high, 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")


def _set_x_axis(axes: Any, evaluation: Evaluation, plot: _Plot, small: bool) -> None:
    if plot.x_value is not None:
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.set_xlabel(plot.x_label)
        return
    targets = evaluation.ordered
    axes.set_xlim(-0.4, len(targets) - 0.6)
    axes.set_xticks(range(len(targets)), [_tick(evaluation, target, len(targets), small) for target in targets])
    axes.set_xlabel(_targets_label(evaluation, small))


def _tick(evaluation: Evaluation, target: str, count: int, small: bool) -> str:
    """Return the label of a target, followed by its value if there is room."""
    label = clip(shown(target), max(4, (60 if small else 100) // count))
    value = target_text(evaluation, target)
    return f"{label}\n{value}" if value and not small else label


def _targets_label(evaluation: Evaluation, small: bool) -> str:
    """Return the label of an x axis of targets."""
    if evaluation.mode == "bounds":
        statistic = STATISTICS[evaluation.setting["statistic"]]
        return f"bound on the {statistic} of the processing latency{'' if small else ': loose → tight'}"
    if evaluation.mode == "rates":
        return f"rate of arrival{'' if small else '; the bound is ' + duration(evaluation.setting['latency_bound'])}"
    return "share of the work to save"
