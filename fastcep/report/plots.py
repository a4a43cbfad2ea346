"""Plots of a number over time: as a PNG (matplotlib), and as text for the terminal (plotext).

Both libraries are slow to import, and are loaded only when something is drawn.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcep.errors import ValidationError

__all__ = ["draw_line", "load", "save_line", "thin"]

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_DAY = 86_400 * 10**9


def _check(times: NDArray[np.int64], values: NDArray[Any]) -> None:
    if times.ndim != 1 or times.shape != values.shape or len(times) == 0:
        raise ValidationError(
            f"cannot draw times of shape {times.shape} against values of shape {values.shape}; "
            "expected two equally long, non-empty, one-dimensional arrays"
        )


def load(module: str) -> Any:
    """Import an optional drawing library."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValidationError(f"plots need {error.name}; install it with: pip install 'fastcep[report]'") from error


def thin(times: NDArray[np.int64], values: NDArray[Any], points: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Reduce a curve to at most ``points`` points without losing its peaks.

    Parameters
    ----------
    times
        int64[n], nanoseconds since 1970, ascending.
    values
        number[n].
    points
        Largest number of points, at least 1.

    Returns
    -------
    times, values
        Arrays of the same length m <= ``points``: the largest value of each group of consecutive points, at the time of
        the first point of the group.

    Raises
    ------
    ValidationError
        If the arrays are empty or differ in shape, or ``points`` < 1.
    """
    _check(times, values)
    if points < 1:
        raise ValidationError(f"cannot thin a curve to {points} points; expected at least 1")
    if len(times) <= points:
        return times, values
    starts = np.arange(points) * len(times) // points
    return times[starts], np.maximum.reduceat(values, starts)


def save_line(
    path: str | Path, times: NDArray[np.int64], values: NDArray[Any], *, title: str, label: str, dpi: int = 120
) -> None:
    """Write a PNG of ``values`` over ``times``.

    Parameters
    ----------
    path
        File to write. Its folder must exist; an existing file is replaced.
    times
        int64[n], nanoseconds since 1970 (UTC), ascending.
    values
        number[n].
    title, label
        Text above the plot and beside the vertical axis.
    dpi
        Pixels per inch; the plot is 10 by 4 inches.

    Raises
    ------
    ValidationError
        If the arrays are empty or differ in shape, or the drawing library is not installed.
    OSError
        If the file cannot be written.
    """
    _check(times, values)
    dates = load("matplotlib.dates")
    figure = load("matplotlib.figure").Figure(figsize=(10, 4), layout="constrained")
    canvas = load("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(times.astype("datetime64[ns]"), values, linewidth=0.6, color="#1f5fa8")
    axes.fill_between(times.astype("datetime64[ns]"), values, alpha=0.2, linewidth=0, color="#1f5fa8")
    locator = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.grid(alpha=0.3)
    canvas.print_figure(str(path), format="png", dpi=dpi)


def _ticks(times: NDArray[np.int64], count: int) -> tuple[list[int], list[str]]:
    """Choose ``count`` evenly spread positions (indices into ``times``) and their labels."""
    positions = sorted({round(k * (len(times) - 1) / (count - 1)) for k in range(count)})
    unit = "D" if int(times[-1]) - int(times[0]) >= 2 * _DAY else "s"
    return positions, [str(times[k].astype("datetime64[ns]").astype(f"datetime64[{unit}]")) for k in positions]


def draw_line(times: NDArray[np.int64], values: NDArray[Any], *, title: str, width: int = 100, height: int = 18) -> str:
    """Draw ``values`` over ``times`` as plain text without colour codes.

    Parameters
    ----------
    times
        int64[n], nanoseconds since 1970 (UTC), ascending, about evenly spaced.
    values
        number[n]; where several values share a character, the largest is drawn.
    title
        Text above the drawing.
    width, height
        Size in characters.

    Returns
    -------
    str
        ``height`` lines of at most ``width`` characters.

    Raises
    ------
    ValidationError
        If the arrays are empty or differ in shape, or the drawing library is not installed.
    """
    times, values = thin(times, values, 2 * width)
    plotext = load("plotext")
    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    figure.theme("colorless")
    figure.title(title)
    signal = figure.signal(list(range(len(values))), [float(value) for value in values], marker="hd")
    signal.lines()
    figure.draw(signal)
    figure.ruler("y").lim(min(0.0, float(values.min())), max(1.0, float(values.max())))
    figure.ruler("x").ticks(*_ticks(times, 5))
    drawing = _ANSI.sub("", str(figure.build()))
    figure.clear()
    return "\n".join(line.rstrip() for line in drawing.strip("\n").splitlines())
