"""Charts as SVG for embedding in a page: reproducible byte for byte, with ids that are unique in the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from fastcep.report.evaluation.colours import AXIS, FAINT, GRID, INK, adaptable
from fastcep.report.plots import load

__all__ = ["FONTS", "picture"]

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', Arial, sans-serif"
_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"-?\d+\.\d{3,}")
_FAMILY = re.compile(r"font-family: [^;]*; ?")  # the page sets the font
_STYLE = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "fastcep",
    "text.parse_math": False,  # do not parse names as formulas
    "font.size": 12,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": INK,
    "axes.edgecolor": AXIS,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
}


def picture(draw: Callable[[Any], None], width: float, height: float, description: str, prefix: str) -> str:
    """Draw an SVG.

    Nothing is clipped: drawings must stay inside their axes.

    Parameters
    ----------
    draw
        Draws on the matplotlib figure that it receives.
    width, height
        Size in pixels; the picture shrinks with the page.
    description
        Text alternative of the picture, for screen readers.
    prefix
        Prefix of the ids, unique for each picture of a page.

    Returns
    -------
    str
        The ``svg`` element in one line.

    Raises
    ------
    ValidationError
        If the drawing library is not installed.
    """
    style = load("matplotlib.style")
    figure_class = load("matplotlib.figure").Figure
    canvas_class = load("matplotlib.backends.backend_svg").FigureCanvasSVG
    text = io.StringIO()
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # depends on the fonts of the reader
        figure = figure_class(figsize=(width / 72, height / 72))
        draw(figure)
        canvas_class(figure).print_svg(text, metadata={"Date": None})
    return _clean(text.getvalue(), width, height, description, prefix)


def _clean(text: str, width: float, height: float, description: str, prefix: str) -> str:
    """Remove parts that only a standalone file needs, or that would affect the page."""
    root = ElementTree.fromstring(text)
    used = {element.get(_HREF, "")[1:] for element in root.iter()}
    _prune(root)
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
        _tidy(element, used, prefix)
    root.attrib.clear()
    root.attrib.update(
        {
            "xmlns": _SVG, "viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}",
            "role": "img", "aria-label": description, "font-family": FONTS,
        }
    )  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _prune(element: ElementTree.Element) -> None:
    for child in list(element):
        if child.tag.partition("}")[2] in ("metadata", "style", "clipPath"):
            element.remove(child)
        else:
            _prune(child)
    if not (element.text or "").strip():
        element.text = None
    element.tail = None


def _tidy(element: ElementTree.Element, used: set[str], prefix: str) -> None:
    attributes = element.attrib
    attributes.pop("clip-path", None)
    if _HREF in attributes:
        attributes["href"] = f"#{prefix}{attributes.pop(_HREF)[1:]}"
    if "id" in attributes:
        element_id = attributes.pop("id")
        if element_id in used:
            attributes["id"] = f"{prefix}{element_id}"
    if "style" in attributes:
        attributes["style"] = adaptable(attributes["style"])
    for name in ("d", "transform", "x", "y", "points"):
        if name in attributes:
            attributes[name] = _LONG.sub(lambda match: f"{float(match[0]):.2f}", attributes[name]).replace("\n", "")
    if element.tag == "text":
        attributes["style"] = _FAMILY.sub("", attributes.get("style", ""))
        if attributes.get("transform", "").startswith("rotate(-0 "):
            del attributes["transform"]
