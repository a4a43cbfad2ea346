"""Draw the stored results of `bench.degree`."""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bench.degree.traffic import PROFILE
from bench.papers.draw import STYLE
from bench.plots import IMAGES

__all__ = ["FOLDER", "draw"]

FOLDER = IMAGES / "degree"
_LOOK = {
    "paper 400": ("#6aa5dc", "paper's loop, 400 samples"), "paper 1600": ("#1f5fa8", "paper's loop, 1,600"),
    "window 400": ("#eaa05a", "with the window, 400 samples"), "window 1600": ("#c4511d", "with the window, 1,600"),
    "cpu 0": ("#555555", "CPU rule"),
}  # fmt: skip
_NAMES = {"shared": "shared queue", "turn": "windows in turn", "fewest": "windows to the fewest"}


def draw(results: dict[str, Any]) -> None:
    """Draw the pictures of the parts that have results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        _profile()
        if "traffic" in results:
            for scenario in ("static", "dynamic"):
                _queues(results["traffic"], scenario)
                _instances(results["traffic"], scenario)
        if "approximations" in results:
            _approximations(results["approximations"])
        if "day" in results:
            _day(results["day"])
        if "live" in results:
            _live(results["live"])


def _figure(columns: int, height: float = 2.9, rows: int = 1) -> tuple[Figure, Any]:
    figure = Figure(figsize=(3.9 * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Figure, name: str) -> None:
    FigureCanvasSVG(figure).print_svg(str(FOLDER / f"{name}.svg"), metadata={"Date": None, "Creator": None})


def _profile() -> None:
    figure, ((axes,),) = _figure(1)
    rates = [0.1 * at for at in range(1, 61)]
    axes.plot(rates, [PROFILE.p99(rate) / 1e9 for rate in rates], color="#1f5fa8")
    axes.set(xlabel="events of position 2 per second", ylabel="99th percentile of the service time, s")
    _save(figure, "profile")


def _with_series(runs: list[dict[str, Any]], scenario: str, division: str) -> list[dict[str, Any]]:
    return [of for of in runs if "series" in of and of["scenario"] == scenario and of["division"] == division]


def _queues(runs: list[dict[str, Any]], scenario: str) -> None:
    figure, (all_axes,) = _figure(3)
    for axes, division in zip(all_axes, _NAMES, strict=True):
        for of in _with_series(runs, scenario, division):
            colour, name = _LOOK[f"{of['policy']} {of['samples']}"]
            length = [max(at, 0.5) for at in of["queue"]["length"]]
            axes.step(length, of["queue"]["share"], where="post", color=colour, label=name, linewidth=1.1)
        _limit(axes, vertical=True)
        axes.axhline(0.95, color="#999999", linewidth=0.6, linestyle=":")
        axes.set(xscale="log", xlabel="events in the queue", ylabel="share of the time", title=_NAMES[division])
        axes.legend(fontsize=7, loc="lower right")
    _save(figure, f"{scenario}_queue")


def _instances(runs: list[dict[str, Any]], scenario: str) -> None:
    figure, (all_axes,) = _figure(3)
    for axes, division in zip(all_axes, _NAMES, strict=True):
        for of in _with_series(runs, scenario, division):
            colour, name = _LOOK[f"{of['policy']} {of['samples']}"]
            axes.step(of["series"]["hours"], of["series"]["instances"], color=colour, label=name, linewidth=1.0)
        axes.set(xlabel="hours", ylabel="instances", ylim=(0, None), title=_NAMES[division])
        axes.legend(fontsize=7)
    _save(figure, f"{scenario}_instances")


def _approximations(cases: dict[str, Any]) -> None:
    figure, ((axes,),) = _figure(1)
    for name, colour in zip(cases, ("#1f5fa8", "#6aa5dc", "#c4511d", "#eaa05a"), strict=True):
        of = next(iter(cases[name].values()))
        axes.step(
            of["queue"]["length"], of["queue"]["share"], where="post", color=colour,
            label=f"{name}, {of['degree'][0]} instances",
        )  # fmt: skip
    _limit(axes, vertical=True)
    axes.set(xlabel="events in the queue", ylabel="share of the time")
    axes.legend(fontsize=7)
    _save(figure, "approximations")


def _day(of: dict[str, Any]) -> None:
    figure, axes = _figure(2, 1.7, 3)
    for row in axes:
        row[1].remove()
    grid = [row[0] for row in axes]
    figure.set_size_inches(8.8, 5.4)
    for at in grid:
        at.set_subplotspec(at.get_gridspec()[grid.index(at), :])
    hours, rates = zip(*of["rates"], strict=True)
    grid[0].plot(hours, rates, color="#1f5fa8")
    grid[0].set(ylabel="vehicles/s")
    grid[1].step(of["series"]["hours"], of["series"]["instances"], color="#c4511d")
    grid[1].set(ylabel="instances")
    grid[2].step(of["series"]["hours"], of["series"]["queue"], color="#3b8a5a")
    _limit(grid[2], vertical=False)
    grid[2].set(ylabel="events in the queue", xlabel="hour of the day")
    for at in grid:
        at.set(xlim=(0, 24), ylim=(0, None))
    _save(figure, "day")


def _live(of: dict[str, Any]) -> None:
    figure, axes = _figure(1, 1.8, 2)
    figure.set_size_inches(8.8, 3.8)
    (queue,), (instances,) = axes
    times, waiting, ready, wanted = zip(*of["samples"], strict=True)
    queue.plot(times, waiting, color="#3b8a5a", linewidth=0.9)
    queue.axhline(of["buffer_limit"], color="#b3123a", linewidth=0.8, linestyle="--")
    queue.set(ylabel="waiting events")
    instances.step(times, ready, where="post", color="#c4511d", label="ready")
    instances.step(times, wanted, where="post", color="#1f5fa8", linestyle=":", label="wanted")
    instances.set(ylabel="processes", xlabel="seconds", ylim=(0, 2.3))
    instances.legend(fontsize=7)
    _save(figure, "live")


def _limit(axes: Axes, *, vertical: bool) -> None:
    line = axes.axvline if vertical else axes.axhline
    line(15, color="#b3123a", linewidth=0.8, linestyle="--")
