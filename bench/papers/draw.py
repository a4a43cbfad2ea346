"""Draw the stored results of a figure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator, NullLocator

from bench.papers.figures import Figure, Panel, Picture
from bench.papers.results import PartResult
from bench.plots import IMAGES

__all__ = ["FOLDER", "draw", "image_path"]

FOLDER = IMAGES / "papers"
#: Colour and marker of each shedder, the same in all pictures.
LOOK = {
    "ri": ("#1f5fa8", "o"), "si": ("#6aa5dc", "s"), "rs": ("#c4511d", "^"), "ss": ("#eaa05a", "v"),
    "pm-bl": ("#8b3a8f", "D"), "e-bl": ("#3b8a5a", "P"), "bl": ("#8fbf5a", "X"),
    "hybrid": ("#b3123a", "h"), "hyi": ("#123f8f", "p"), "hys": ("#7a2d0b", "H"), "hybrid-count": ("#d983a0", "<"),
    "hybrid-cut": ("#8a4fb3", ">"),
    "pspice": ("#b3123a", "h"), "pspice--": ("#d983a0", "<"), "pspice-renewed": ("#123f8f", "p"),
    "pspice-fixed": ("#eaa05a", "v"),
    "espice": ("#123f8f", "p"), "espice-literal": ("#7d8fe0", ">"),
    "oracle": ("#222222", "*"), "informed": ("#888888", "d"),
}  # fmt: skip
#: A fixed salt keeps the ids of elements the same in every run; text stays text.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fastcep", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
}  # fmt: skip
_SCALE = {"ns": 1.0, "us": 1e3, "ms": 1e6}


def image_path(figure: Figure, picture: Picture) -> Path:
    """Return the path of a picture."""
    return FOLDER / f"{figure.stem}_{picture.name}.svg"


def draw(figure: Figure, parts: Mapping[str, PartResult]) -> None:
    """Draw the pictures of a figure whose parts have results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture in figure.restricted_to(parts).pictures:
        with rc_context(STYLE):
            _draw_picture(picture, parts, image_path(figure, picture))


def _draw_picture(picture: Picture, parts: Mapping[str, PartResult], path: Path) -> None:
    rows = -(-len(picture.panels) // picture.columns)
    canvas = Canvas(figsize=(9, 2.7 * rows + 0.4), layout="constrained")
    all_axes = list(canvas.subplots(rows, picture.columns, squeeze=False).flat)
    for axes in all_axes[len(picture.panels) :]:
        axes.remove()
    for axes, panel in zip(all_axes, picture.panels, strict=False):
        (_draw_series if panel.x == "series" else _draw_lines)(axes, panel, parts[panel.part])
        axes.set_xlabel(panel.xlabel)
        axes.set_ylabel(panel.ylabel)
        if panel.log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
            if panel.x != "series":
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        if panel.falling:
            axes.invert_xaxis()
        axes.grid(alpha=0.25, linewidth=0.5)
    plots = [axes for axes, panel in zip(canvas.axes, picture.panels, strict=True) if panel.x != "series"]
    labelled = [(str(line.get_label()), line) for axes in plots for line in axes.lines]
    handles = {name: line for name, line in labelled if not name.startswith("_")}
    if handles:
        canvas.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), frameon=False,
            fontsize="small",
        )  # fmt: skip
    buffer = StringIO()
    FigureCanvasSVG(canvas).print_figure(buffer, format="svg", metadata={"Date": None})
    path.write_text(_compact_svg(buffer.getvalue()), encoding="utf-8")


def _compact_svg(text: str) -> str:
    """Halve the size of a picture: no indentation, hundredths of a point, one style for all markers of a group."""
    text = re.sub(r' transform="rotate\(-?0 [^)]*\)"| id="[a-z0-9.]+_\d+"', "", text)
    text = re.sub(r"(?<![#\w.>-])-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    return re.sub(r"<g([^>]*)>\n((?:<use [^>]*/>\n){2,})", _hoist_style, text)


def _hoist_style(group: re.Match[str]) -> str:
    """Move the style of a group's markers to the group if all have the same."""
    styles = set(re.findall(r' style="[^"]*"', group[2]))
    if len(styles) > 1 or "style=" in group[1]:
        return group[0]
    (style,) = styles
    return f"<g{group[1]}{style}>\n{group[2].replace(style, '')}"


def _draw_lines(axes: Axes, panel: Panel, part: PartResult) -> None:
    """Draw a line for each group of shedders with equal results; invalid points are hollow."""
    for names in part.groups():
        name = names[0]
        if panel.only and name not in panel.only:
            continue
        colour, mark = LOOK[name]
        x, y = part.values(name, panel.x), part.values(name, panel.y)
        reference = name in part.references
        (line,) = axes.plot(
            x, y, "--" if reference else "-", color=colour, linewidth=1.0, marker=mark, markersize=4,
            markeredgewidth=0.8, label=", ".join(names),
        )  # fmt: skip
        hollow = [point for point, target in enumerate(part.targets) if not part.is_valid(name, target)]
        if hollow:
            axes.plot(
                [x[point] for point in hollow], [y[point] for point in hollow], linestyle="none", marker=mark,
                markersize=4, markeredgewidth=0.8, markeredgecolor=colour, markerfacecolor="white",
                zorder=line.zorder + 1,
            )  # fmt: skip
    if panel.y != "speed":
        axes.set_ylim(0, None)


def _draw_series(axes: Axes, panel: Panel, part: PartResult) -> None:
    """Draw latency over time and its bound, in the unit of the label, or recall over time."""
    scale = next((value for unit, value in _SCALE.items() if f", {unit}" in panel.ylabel), 1.0)
    targets = list(dict.fromkeys(line["target"] for line in part.document["series"]))
    for line in part.document["series"]:
        axes.plot(
            line["x"], [value / scale for value in line[panel.y]], color=LOOK[line["shedder"]][0], linewidth=0.8,
            alpha=1 - 0.5 * targets.index(line["target"]) / len(targets),
            label=f"{line['shedder']} at {line['target']}",
        )  # fmt: skip
    if panel.y == "latency":
        axes.axhline(line["bound"] / scale, color="#aa0000", linewidth=0.8, linestyle=":", label="bound")
    else:
        axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=4)
    axes.legend(framealpha=0.8, edgecolor="none", fontsize="small")
