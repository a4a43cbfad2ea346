"""Pictures of pages in a browser (headless Chromium), light and dark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.waiting import LIMIT

__all__ = ["NEEDS_CHROMIUM", "screenshot"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)")


def screenshot(page: Path, width: int, height: int, theme: str, folder: Path) -> np.ndarray:
    """Return the pixels of a page in the theme ``light`` or ``dark``, int[height, width, 3]."""
    from matplotlib.image import imread

    picture = folder / "page.png"
    scheme = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *scheme,
        f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", f"--screenshot={picture}",
        page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=LIMIT, capture_output=True)
    return np.rint(imread(picture)[:, :, :3] * 255).astype(int)
