"""Draw what is stored of a figure; nothing is measured."""

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
from bench.papers.stored import Stored
from bench.plots import IMAGES

__all__ = ["PLACE", "draw", "image"]

PLACE = IMAGES / "papers"
#: The same everywhere: colour, mark.
LOOK = {
    "ri": ("#1f5fa8", "o"), "si": ("#6aa5dc", "s"), "rs": ("#c4511d", "^"), "ss": ("#eaa05a", "v"),
    "pm-bl": ("#8b3a8f", "D"), "e-bl": ("#3b8a5a", "P"), "bl": ("#8fbf5a", "X"),
    "hybrid": ("#b3123a", "h"), "hyi": ("#123f8f", "p"), "hys": ("#7a2d0b", "H"), "hybrid-count": ("#d983a0", "<"),
    "hybrid-cut": ("#8a4fb3", ">"),
    "oracle": ("#222222", "*"), "informed": ("#888888", "d"),
}  # fmt: skip
#: The same picture from the same figures, with text as text.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fastcep", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
}  # fmt: skip
_SCALE = {"ns": 1.0, "us": 1e3, "ms": 1e6}


def image(figure: Figure, picture: Picture) -> Path:
    """Where a picture is."""
    return PLACE / f"{figure.file}_{picture.name}.svg"


def draw(figure: Figure, parts: Mapping[str, Stored]) -> None:
    """Draw all pictures of a figure whose parts are there."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for picture in figure.having(parts).pictures:
        with rc_context(STYLE):
            _draw(picture, parts, image(figure, picture))


def _draw(picture: Picture, parts: Mapping[str, Stored], path: Path) -> None:
    rows = -(-len(picture.panels) // picture.columns)
    canvas = Canvas(figsize=(9, 2.7 * rows + 0.4), layout="constrained")
    places = canvas.subplots(rows, picture.columns, squeeze=False).flat
    for axes, panel in zip(places, picture.panels, strict=True):
        (_course if panel.x == "series" else _lines)(axes, panel, parts[panel.part])
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
    named = [(str(line.get_label()), line) for axes in plots for line in axes.lines]
    handles = {name: line for name, line in named if not name.startswith("_")}
    if handles:
        canvas.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), frameon=False,
            fontsize="small",
        )  # fmt: skip
    drawn = StringIO()
    FigureCanvasSVG(canvas).print_figure(drawn, format="svg", metadata={"Date": None})
    path.write_text(_small(drawn.getvalue()), encoding="utf-8")


def _small(text: str) -> str:
    """The same picture in half of the bytes: no indentation, hundredths of a point, the style of marks told once."""
    text = re.sub(r' transform="rotate\(-?0 [^)]*\)"| id="[a-z0-9.]+_\d+"', "", text)
    text = re.sub(r"(?<![#\w.>-])-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    return re.sub(r"<g([^>]*)>\n((?:<use [^>]*/>\n){2,})", _told_once, text)


def _told_once(group: re.Match[str]) -> str:
    """Marks in a group, where all have one style, which they inherit."""
    styles = set(re.findall(r' style="[^"]*"', group[2]))
    if len(styles) > 1 or "style=" in group[1]:
        return group[0]
    (style,) = styles
    return f"<g{group[1]}{style}>\n{group[2].replace(style, '')}"


def _lines(axes: Axes, panel: Panel, part: Stored) -> None:
    """A line per shedder, or those that do the same; points that do not count are hollow."""
    for names in part.groups():
        name = names[0]
        if panel.only and name not in panel.only:
            continue
        colour, mark = LOOK[name]
        x, y = part.line(name, panel.x), part.line(name, panel.y)
        reference = name in part.references
        (line,) = axes.plot(
            x, y, "--" if reference else "-", color=colour, linewidth=1.0, marker=mark, markersize=4,
            markeredgewidth=0.8, label=", ".join(names),
        )  # fmt: skip
        hollow = [place for place, target in enumerate(part.targets) if not part.counts(name, target)]
        if hollow:
            axes.plot(
                [x[place] for place in hollow], [y[place] for place in hollow], linestyle="none", marker=mark,
                markersize=4, markeredgewidth=0.8, markeredgecolor=colour, markerfacecolor="white",
                zorder=line.zorder + 1,
            )  # fmt: skip
    if panel.y != "speed":
        axes.set_ylim(0, None)


def _course(axes: Axes, panel: Panel, part: Stored) -> None:
    """Latency over time, and the bound, in the unit that the label names; or recall over time."""
    scale = next((value for unit, value in _SCALE.items() if f", {unit}" in panel.ylabel), 1.0)
    for line in part.document["series"]:
        axes.plot(
            line["x"], [value / scale for value in line[panel.y]], color=LOOK[line["shedder"]][0], linewidth=0.8,
            label=f"{line['shedder']} at {line['target']}",
        )  # fmt: skip
    if panel.y == "latency":
        axes.axhline(line["bound"] / scale, color="#aa0000", linewidth=0.8, linestyle=":", label="bound")
    else:
        axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.locator_params(axis="x", nbins=4)
    axes.legend(framealpha=0.8, edgecolor="none", fontsize="small")
