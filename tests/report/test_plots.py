"""Plots keep the peaks; drawing libraries are loaded only when something is drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.report import draw_line, save_line, thin

HOUR = 3600 * 10**9
TIMES = 1_388_534_400 * 10**9 + HOUR * np.arange(8760, dtype=np.int64)
VALUES = np.where(np.arange(8760) == 5000, 900, np.arange(8760) % 24)


def test_thin_keeps_the_peak_and_the_order() -> None:
    times, values = thin(TIMES, VALUES, 100)
    assert len(times) == len(values) == 100
    assert values.max() == 900
    assert (np.diff(times) > 0).all()


def test_thin_keeps_a_short_curve_unchanged() -> None:
    times, values = thin(TIMES[:5], VALUES[:5], 5)
    assert times.tolist() == TIMES[:5].tolist()
    assert values.tolist() == VALUES[:5].tolist()


@pytest.mark.parametrize("points", [0, -1])
def test_thin_rejects_no_points(points: int) -> None:
    with pytest.raises(ValidationError, match="at least 1"):
        thin(TIMES, VALUES, points)


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValidationError, match="equally long"):
        draw_line(TIMES, VALUES[:-1], title="x")


def test_drawing_has_title_dates_and_size() -> None:
    drawing = draw_line(TIMES, VALUES, title="live partial matches", width=80, height=15)
    lines = drawing.splitlines()
    assert len(lines) == 15
    assert all(len(line) <= 80 for line in lines)
    assert "live partial matches" in lines[0]
    assert "900" in drawing
    assert "2014-01-01" in lines[-1]
    assert "\x1b" not in drawing


@pytest.mark.parametrize("count", [1, 2, 3])
def test_drawing_of_few_points(count: int) -> None:
    assert "t" in draw_line(TIMES[:count], VALUES[:count], title="t", width=40, height=10)


def test_picture_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "line.png"
    save_line(path, TIMES, VALUES, title="t", label="l")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert len(data) > 5_000


def test_import_loads_no_drawing_library() -> None:
    code = "import sys, fastcep.report; print({'matplotlib', 'plotext', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
