"""Draw the stored results of `bench.migration`."""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bench.papers.draw import STYLE
from bench.plots import IMAGES

__all__ = ["FOLDER", "draw"]

FOLDER = IMAGES / "migration"
_LOOK = {
    "uniform greedy": ("#1f5fa8", "-", "uniform"), "skew10 greedy": ("#c4511d", "-", "skew10"),
    "skew50 greedy": ("#3b8a5a", "-", "skew50"), "uniform random": ("#555555", "--", "random order"),
}  # fmt: skip
_METHODS = {
    "greedy": ("#1f5fa8", "-"), "dp": ("#c4511d", "-"), "fptas": ("#3b8a5a", "--"), "auto": ("#8a5ab0", ":"),
    "random": ("#555555", "--"),
}  # fmt: skip


def draw(results: dict[str, Any]) -> None:
    """Draw figures 4(a) to (d)."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        _curves(results["over_time"], "share", "share of the utility", "figure_4a")
        _curves(results["over_time"], "states", "states at the new host", "figure_4b")
        for name, key in (("few", "figure_4c"), ("many", "figure_4d")):
            _methods(results["comparison"][name], key)


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.8, 3.0), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Figure, name: str) -> None:
    FigureCanvasSVG(figure).print_svg(str(FOLDER / f"{name}.svg"), metadata={"Date": None, "Creator": None})


def _curves(runs: list[dict[str, Any]], column: str, label: str, name: str) -> None:
    figure, axes = _axes()
    for run in runs:
        colour, line, text = _LOOK[f"{run['utility']} {run['method']}"]
        axes.plot(run["seconds"], run[column], color=colour, linestyle=line, label=text, linewidth=1.2)
    if column == "share":
        axes.axhline(0.8, color="#999999", linewidth=0.6, linestyle=":")
    else:
        axes.axvline(runs[0]["deadline"], color="#b3123a", linewidth=0.8, linestyle="--")
    axes.set(xlabel="seconds; all states take 10 s", ylabel=label, xlim=(0, 10), ylim=(0, None))
    axes.legend(fontsize=7, loc="lower right")
    _save(figure, name)


def _methods(runs: list[dict[str, Any]], name: str) -> None:
    figure, axes = _axes()
    for run in runs:
        colour, line = _METHODS[run["method"]]
        axes.plot(run["time_share"], run["first"], color=colour, linestyle=line, label=run["method"], linewidth=1.2)
    axes.set(xlabel="deadline as a share of the full time", ylabel="share of the utility", xlim=(0, 1), ylim=(0, 1))
    axes.legend(fontsize=7, loc="lower right")
    _save(figure, name)
