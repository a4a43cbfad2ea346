"""The page in a browser (headless Chromium): light and dark, at several widths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.browser import NEEDS_CHROMIUM, screenshot
from support.shedding import evaluation_documents as documents

from fastcep.report.evaluation import save_html

HEIGHT = 6_000
#: Background of the page, RGB from 0 to 1.
PAPER = {"light": (255, 255, 255), "dark": (17, 24, 39)}

pytestmark = [pytest.mark.thorough, NEEDS_CHROMIUM]


@pytest.mark.parametrize("theme", PAPER)
@pytest.mark.parametrize("width", [400, 800, 1280])
def test_page_in_a_browser(width: int, theme: str, tmp_path: Path) -> None:
    save_html(documents.bounds(), tmp_path / "page.html")
    pixels = screenshot(tmp_path / "page.html", width, HEIGHT, theme, tmp_path)
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
