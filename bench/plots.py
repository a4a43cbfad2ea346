"""Draw stored results into ``docs/images``.

================================= ====================================================
picture                           results
================================= ====================================================
``sweep_NAME.svg``                a sweep of ``sweeps.json``
``limit.svg``                     C, fastcep and its peers: ``limit.json``, ``peers.json``
``shedding_bounds.svg``           baselines of load shedding: ``shedding.json``
``overview.svg``, for the README  ``papers/hybrid_fig5.json``, ``peers.json``
================================= ====================================================
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from bench.queries import RESULTS

IMAGES = Path(__file__).parent.parent / "docs" / "images"
#: Titles; a sweep without one is not drawn.
TITLES = {
    "window": "Q1 with shorter and longer windows",
    "keys": "Keys with four live rows each (with the most keys one)",
    "queries": "Queries in one engine, each on a hundredth of the events",
    "width": "Wide events",
    "key_kind": "Keys of numbers and of text",
    "selectivity": "Q1s over the events that pass a condition on themselves",
}
COLOURS = ("#1f5fa8", "#c4511d", "#3b8a5a")
MARKERS = ("o", "s", "^")


def draw(name: str, sweep: dict[str, Any], path: Path) -> None:
    """Draw a sweep: events per second and, on a second plot, the growth of the time or the memory if it is known."""
    second = next((kind for kind in ("growth", "bytes_per_key") if _has(sweep, kind)), None)
    figure = Figure(figsize=(9 if second else 5.5, 3.6), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    axes = figure.subplots(1, 2 if second else 1, squeeze=False)[0]
    _lines(axes[0], sweep, "million_events_per_cpu_second")
    axes[0].set_ylabel("million events per CPU second")
    if second == "growth":
        _lines(axes[1], sweep, "growth")
        fastcep = {"series": {"fastcep": sweep["series"]["fastcep"]}}
        _lines(axes[1], fastcep, "growth_without_system", "fastcep, without the system's pages")
        axes[1].set_ylabel("time, relative to the shortest window")
    elif second is not None:
        _lines(axes[1], sweep, "bytes_per_key", "a key")
        _lines(axes[1], sweep, "bytes_per_row", "a row")
        axes[1].set_ylabel("bytes held")
    for each in axes:
        each.set_xscale("log")
        each.set_yscale("log")
        for axis in (each.xaxis, each.yaxis):
            axis.set_major_formatter("{x:g}")
        each.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        each.yaxis.set_minor_formatter("{x:g}")
        each.set_xlabel(sweep["x"])
        each.grid(alpha=0.3, which="major")
        if len(each.lines) > 1:
            each.legend(frameon=False, fontsize="small")
    figure.suptitle(TITLES[name], fontsize="medium")
    canvas.print_figure(str(path), metadata={"Date": None})


def draw_limit(limit: dict[str, Any], peers: list[dict[str, Any]], path: Path) -> None:
    """Draw the throughput of the limit queries: C and fastcep from one run, the peers from another."""
    names = list(limit)
    speeds = {"hand-written C": [limit[name]["limit"] for name in names]}
    speeds["fastcep"] = [limit[name]["fastcep"] for name in names]
    others = [row for row in peers if row["asked"] == "all matches" and row["peer"] != "fastcep"]
    for peer in dict.fromkeys(row["peer"] for row in others):
        by_query = {row["query"]: row["million_events_per_cpu_second"] for row in others if row["peer"] == peer}
        speeds[peer] = [by_query.get(name, 0.0) for name in names]
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    axes = figure.subplots()
    width = 0.85 / len(speeds)
    for number, (program, values) in enumerate(speeds.items()):
        positions = [group + number * width for group in range(len(names))]
        axes.bar(positions, values, width, label=program, color=f"C{number}")
    axes.set_xticks([group + 0.425 - width / 2 for group in range(len(names))], names)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("million events per CPU second")
    axes.grid(alpha=0.3, axis="y")
    axes.legend(frameon=False, fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    canvas.print_figure(str(path), metadata={"Date": None})


def draw_bounds(bounds: dict[str, Any], path: Path) -> None:
    """Draw the recall of every baseline over the latency bound, for each ``index`` option."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    for axes, (index, results) in zip(figure.subplots(1, 2, sharey=True), bounds.items(), strict=True):
        for number, name in enumerate(dict.fromkeys(row["shedder"] for row in results["rows"])):
            rows = [row for row in results["rows"] if row["shedder"] == name]
            axes.plot(
                [row["bound"] for row in rows], [row["recall"] for row in rows],
                color=f"C{number}", marker="os^vDxP"[number], markersize=4, linewidth=1.2, label=name,
            )  # fmt: skip
        axes.set_title(f'index="{index}"', fontsize="medium")
        axes.set_xlabel("bound on the mean latency, share of the mean without shedding")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend(frameon=False, fontsize="small")
    canvas.print_figure(str(path), metadata={"Date": None})


def draw_overview(bounds: dict[str, Any], peers: list[dict[str, Any]], path: Path) -> None:
    """Draw the README's picture: recall under latency bounds, and throughput compared with other engines."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    canvas = FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2)
    for name, label in (("hybrid", "hybrid"), ("rs", "random partial matches"), ("ri", "random events")):
        rows = [row for row in bounds["rows"] if row["shedder"] == name]
        shares = [float(row["target"].rstrip("%")) for row in rows]
        number = len(left.lines)
        recalls = [row["recall"] for row in rows]
        left.plot(shares, recalls, color=COLOURS[number], marker=MARKERS[number], markersize=4, label=label)
    left.invert_xaxis()
    left.set_xlabel("latency bound, % of the latency without shedding")
    left.set_ylabel("matches found (recall)")
    left.set_ylim(0, 1.05)
    left.grid(alpha=0.3)
    left.legend(frameon=False, fontsize="small")
    rows = [row for row in peers if row["query"] == "Q1s" and row["asked"] == "all matches"]
    rows.sort(key=lambda row: row["million_events_per_cpu_second"])
    speeds = [row["million_events_per_cpu_second"] for row in rows]
    colours = [COLOURS[0] if row["peer"] == "fastcep" else "#9aa4ad" for row in rows]
    bars = right.barh([row["peer"] for row in rows], speeds, color=colours)
    right.bar_label(bars, [f" {speed:.3g}" for speed in speeds], fontsize="small")
    right.set_xscale("log")
    right.set_xlim(right=4 * max(speeds))
    right.xaxis.set_major_formatter("{x:g}")
    right.set_xlabel("million events per CPU second")
    canvas.print_figure(str(path), metadata={"Date": None})


def _has(sweep: dict[str, Any], kind: str) -> bool:
    """Return whether all points have a value of this kind; with several series only the growth is drawn."""
    series = list(sweep["series"].values())
    return (len(series) == 1 or kind == "growth") and all(kind in point for points in series for point in points)


def _lines(axes: Axes, sweep: dict[str, Any], kind: str, label: str | None = None) -> None:
    for series, points in sweep["series"].items():
        number = len(axes.lines)
        axes.plot(
            [point["x"] for point in points], [point[kind] for point in points],
            color=COLOURS[number], marker=MARKERS[number], markersize=4, linewidth=1.2, label=label or series,
        )  # fmt: skip


def main() -> None:
    """Draw all pictures."""
    rcParams["svg.hashsalt"] = "fastcep"  # the same ids of elements in every run
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, sweep in json.loads((RESULTS / "sweeps.json").read_text())["sweeps"].items():
        if name in TITLES:
            draw(name, sweep, IMAGES / f"sweep_{name}.svg")
    limit = json.loads((RESULTS / "limit.json").read_text())["million_events_per_cpu_second"]
    draw_limit(limit, json.loads((RESULTS / "peers.json").read_text())["rows"], IMAGES / "limit.svg")
    draw_bounds(json.loads((RESULTS / "shedding.json").read_text())["parts"]["bounds"], IMAGES / "shedding_bounds.svg")
    bounds = json.loads((RESULTS / "papers" / "hybrid_fig5.json").read_text())["parts"]["paper"]
    draw_overview(bounds, json.loads((RESULTS / "peers.json").read_text())["rows"], IMAGES / "overview.svg")


if __name__ == "__main__":
    main()
