"""The picture of a query in a notebook (headless Chromium): readable on a light and on a dark background."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.browser import NEEDS_CHROMIUM, screenshot
from support.doc_tables.explained import CASES

from fastcep.plan import make_plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.svg import svg

#: Background and text of a notebook.
THEMES = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}

pytestmark = [pytest.mark.thorough, NEEDS_CHROMIUM]


def luminance(pixels: np.ndarray) -> np.ndarray:
    """Return the relative luminance of sRGB colours, as WCAG defines it."""
    share = pixels / 255
    linear = np.where(share <= 0.03928, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["keys", "optional", "group", "negated"])
def test_a_query_in_a_notebook(name: str, theme: str, tmp_path: Path) -> None:
    paper, ink = THEMES[theme]
    html = CASES[name][0]._repr_html_()
    assert html is not None and "known(" not in html
    page = tmp_path / "page.html"
    page.write_text(f'<body style="margin:0;background:{paper};color:{ink}">{html}</body>', encoding="utf-8")
    light = luminance(screenshot(page, 1600, 900, theme, tmp_path))
    background = light[-1, -1]
    contrast = (np.maximum(light, background) + 0.05) / (np.minimum(light, background) + 0.05)
    drawn = contrast > 1.02
    assert 0.005 < drawn.mean() < 0.3, "no area is filled with another background"
    assert (contrast[drawn] > 10).mean() > 0.06, "the text has the contrast of the notebook's text"


def test_lines_and_text_of_a_picture_without_background() -> None:
    plan = make_plan(CASES["optional"][0])
    picture = svg([facts(plan)], with_text=False, background=False)
    assert "currentColor" in picture and "#ffffff" not in picture
    assert 'fill="#ffffff"' in svg([facts(plan)])
