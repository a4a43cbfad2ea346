"""The page in a browser (headless Chromium): light and dark, at several widths."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.shedding import evaluation_documents as documents
from support.waiting import LIMIT

from fastcep.report.evaluation import save_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HEIGHT = 6_000
#: Background of the page, RGB from 0 to 1.
PAPER = {"light": (255, 255, 255), "dark": (17, 24, 39)}

pytestmark = [
    pytest.mark.thorough, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)"),
]  # fmt: skip


def screenshot(page: Path, width: int, theme: str, folder: Path) -> np.ndarray:
    """Return the pixels of a page, int[height, width, 3]."""
    from matplotlib.image import imread

    picture = folder / "page.png"
    scheme = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *scheme,
        f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{HEIGHT}", f"--screenshot={picture}",
        page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=LIMIT, capture_output=True)
    return np.rint(imread(picture)[:, :, :3] * 255).astype(int)


@pytest.mark.parametrize("theme", PAPER)
@pytest.mark.parametrize("width", [400, 800, 1280])
def test_page_in_a_browser(width: int, theme: str, tmp_path: Path) -> None:
    save_html(documents.bounds(), tmp_path / "page.html")
    pixels = screenshot(tmp_path / "page.html", width, theme, tmp_path)
    paper = np.array(PAPER[theme])
    drawn = (pixels != paper).any(axis=2)
    assert not drawn[:, :10].any() and not drawn[:, -10:].any(), "nothing is wider than the page"
    rows = np.flatnonzero(drawn.any(axis=1))
    end = rows[-1]
    assert np.diff(rows).max() < 120, "no gap as high as a chart"
    middle = drawn[: end + 1, width // 2 :].any(axis=1)
    assert middle.mean() > 0.5, "the right half is in use"
    # A dark page has no large light area, and a light page no large dark one.
    brightness = pixels[: end + 1].mean(axis=2)
    opposite = brightness > 200 if theme == "dark" else brightness < 60
    assert opposite.mean() < 0.08
