"""Colours of a page, light and dark: a colour of the light page is a CSS variable with another value on a dark page.

Colours are written as ``#rrggbb`` wherever they are chosen. `adaptable` makes variables of them, and `dark_values`
lists the values of these variables for dark pages.
"""

from __future__ import annotations

import re
from colorsys import hls_to_rgb, rgb_to_hls

__all__ = ["AXIS", "FAINT", "GRID", "INK", "PAPER", "UNSHED", "adaptable", "dark_values"]

INK, FAINT, AXIS, GRID, UNSHED, PAPER = "#1f2937", "#6b7280", "#9ca3af", "#e5e7eb", "#b6bcc6", "#ffffff"
_DARK = {
    INK: "#e5e7eb", FAINT: "#9ca3af", AXIS: "#6b7280", GRID: "#374151", UNSHED: "#4b5563", PAPER: "#111827",
}  # fmt: skip
_COLOUR = re.compile(r"#([0-9a-f]{6})\b")
_VARIABLE = re.compile(r"var\(--c-([0-9a-f]{6}),")


def adaptable(css: str) -> str:
    """Make a variable of each colour in CSS; on a light page it has that colour."""
    return _COLOUR.sub(r"var(--c-\1,#\1)", css)


def dark_values(page: str) -> str:
    """Return CSS that gives each variable of a page its value on a dark page."""
    return " ".join(f"--c-{colour}: {_dark(f'#{colour}')};" for colour in sorted(set(_VARIABLE.findall(page))))


def _dark(colour: str) -> str:
    """Return a colour that is legible on a dark page: of the same hue, and lighter; darker colours stay darker."""
    if colour in _DARK:
        return _DARK[colour]
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    hue, lightness, saturation = rgb_to_hls(red, green, blue)
    parts = hls_to_rgb(hue, 0.55 + 0.35 * lightness, saturation)
    return "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in parts))
