"""Draw plans as SVG without scripts, style sheets, ids or references, so that any page can embed it.

Lines and text have the current colour: in a page that of the text around the picture, whether it is light or dark; in a
file, which has a white background, a dark one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from fastcep.plan.explain.layout import CHARACTER, LINE, TURN, Box, Layout, Link, lay_out
from fastcep.plan.explain.text import text
from fastcep.plan.explain.text_helpers import columns, notes, shown, wrap
from fastcep.query.printer import name_text

__all__ = ["svg"]

_INK = "#1f2937"  # the current colour of a picture with a background
_ACCENT = "#6366f1"  # has a contrast of at least 4 to white and to black
_MIN_WIDTH = 720.0  # px, so that the text below a small picture fits
_MARGIN = 12.0
_MAX_STATES = 128  # a picture with more states would be metres wide; only its text is written


def svg(queries: Sequence[dict[str, Any]], *, with_text: bool = True, background: bool = True) -> str:
    """Draw the queries below one another.

    Parameters
    ----------
    queries
        Facts of the plans.
    with_text
        Whether the explanation as text is below each picture; otherwise only the notes on operators are.
    background
        Whether the picture has a white background and dark text. Otherwise it has no background and the colour of the
        text around it.
    """
    layouts = [lay_out(facts) if len(facts["states"]) <= _MAX_STATES else None for facts in queries]
    width = max([_MIN_WIDTH if with_text or None in layouts else 0.0, *(layout.width for layout in layouts if layout)])
    body: list[str] = []
    y = 0.0
    for facts, layout in zip(queries, layouts, strict=True):
        y += LINE + _MARGIN
        title = shown(f"query {name_text(facts['name'], anywhere=True)}, {facts['window']['text']}")
        for row, line in enumerate(wrap(title, int(width / CHARACTER))):
            y += LINE if row else 0.0
            body.append(_text(0, y, line, bold=True))
        if layout is None:
            y += LINE
            body.append(_text(0, y, f"{len(facts['states'])} states and {len(facts['edges'])} edges: too many to draw"))
        else:
            y += 6
            body.append(f'<g transform="translate(0 {_number(y)})">')
            body += _picture(layout)
            body.append("</g>")
            y += layout.height
        note_lines = [shown(f"{heading:<12}{line}") for heading, line in notes(facts, full=True)]
        for line in text(facts).split("\n") if with_text else note_lines:
            for part in wrap(line, int(width / CHARACTER)):
                y += LINE
                body.append(_text(0, y, part))
    width, height = width + 2 * _MARGIN, y + 2 * _MARGIN
    size = f"{_number(width)} {_number(height)}"
    color = f' color="{_INK}"' if background else ""
    paper = [f'<rect width="{_number(width)}" height="{_number(height)}" fill="#ffffff"/>'] if background else []
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_number(width)}" '
            f'height="{_number(height)}" font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" '
            f'font-size="12"{color}>',
            *paper,
            f'<g transform="translate({_number(_MARGIN)} 0)">',
            *body,
            "</g>",
            "</svg>",
        ]
    )


def _picture(layout: Layout) -> Iterator[str]:
    boxes = layout.boxes
    for link in layout.links:
        yield from _DRAW[link.kind](link, boxes, layout.row)
    for box in boxes:
        yield from _box(box)
    for link in layout.links:
        yield from _label(link, boxes, layout.row)


def _box(box: Box) -> Iterator[str]:
    style = f'fill="{_ACCENT}" fill-opacity="0.12" stroke="currentColor"'
    yield _rect(box.x, box.y, box.width, box.height, f'rx="8" {style}')
    if box.accepts:
        yield _rect(box.x + 3, box.y + 3, box.width - 6, box.height - 6, 'rx="6" fill="none" stroke="currentColor"')
    y = box.y + box.height / 2 - (len(box.lines) - 1) * LINE / 2 + 4
    for row, line in enumerate(box.lines):
        yield _text(box.middle, y + row * LINE, line, anchor="middle", bold=row == 0, faint=row > 0)


def _next(link: Link, boxes: list[Box], row: float) -> Iterator[str]:
    x1, x2 = boxes[link.source].x + boxes[link.source].width, boxes[link.target].x
    yield _path(f"M{_number(x1)} {_number(row)}H{_number(x2 - 8)}")
    yield _arrow(x2, row, -8, -4, -8, 4)


def _loop(link: Link, boxes: list[Box], row: float) -> Iterator[str]:
    x, y = boxes[link.source].middle, boxes[link.source].y
    half, far = 14.0 + TURN * link.turn, _number(y - 34 - link.turn * TURN / 0.75)  # the curve reaches 3/4 of it
    right, left, wide = _number(x + half), _number(x - half), half + 12
    yield _path(f"M{right} {_number(y)}C{_number(x + wide)} {far} {_number(x - wide)} {far} {left} {_number(y - 8)}")
    yield _arrow(x - half, y, -4, -8, 4, -8)


def _skip(link: Link, boxes: list[Box], row: float) -> Iterator[str]:
    top = boxes[link.source].y + boxes[link.source].height
    x1, x2, track, turn = link.x1, link.x2, link.track, 10.0
    along = turn if x1 < x2 else -turn
    yield _path(
        f"M{_number(x1)} {_number(top)}V{_number(track - turn)}Q{_number(x1)} {_number(track)} {_number(x1 + along)} "
        f"{_number(track)}{_gap(link)}H{_number(x2 - along)}"
        f"Q{_number(x2)} {_number(track)} {_number(x2)} {_number(track - turn)}V{_number(top + 8)}"
    )
    yield _arrow(x2, top, -4, 8, 4, 8)


def _gap(link: Link) -> str:
    """Return the steps that leave the line out where its label is."""
    if not link.lines:
        return ""
    middle, half = (link.x1 + link.x2) / 2, columns(link.lines[0]) * CHARACTER / 2 + 3
    half = half if link.x1 < link.x2 else -half
    return f"H{_number(middle - half)}M{_number(middle + half)} {_number(link.track)}"


_DRAW = {"next": _next, "loop": _loop, "skip": _skip}


def _label(link: Link, boxes: list[Box], row: float) -> Iterator[str]:
    if not link.lines:
        return
    if link.kind == "loop":
        box = boxes[link.source]
        x, last = box.middle, box.y - link.track - 2
    elif link.kind == "next":
        source = boxes[link.source]
        # Between the slots, not the boxes, because a box is narrower than the label of a wide loop.
        left = source.middle + source.slot / 2
        right = boxes[link.target].middle - boxes[link.target].slot / 2
        x, last = (left + right) / 2, row - 6
    else:
        x, last = (link.x1 + link.x2) / 2, link.track + 4
    for up, line in enumerate(reversed(link.lines)):
        yield _text(x, last - up * LINE, line, anchor="middle")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rect(x: float, y: float, width: float, height: float, attributes: str) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    return f"<rect {place} {attributes}/>"


def _path(steps: str) -> str:
    return f'<path d="{steps}" fill="none" stroke="{_ACCENT}"/>'


def _arrow(x: float, y: float, *sides: float) -> str:
    points = [(x, y), (x + sides[0], y + sides[1]), (x + sides[2], y + sides[3])]
    points_text = " ".join(f"{_number(a)},{_number(b)}" for a, b in points)
    return f'<polygon points="{points_text}" fill="{_ACCENT}"/>'


def _text(x: float, y: float, line: str, *, anchor: str = "start", bold: bool = False, faint: bool = False) -> str:
    attributes = f' text-anchor="{anchor}"' if anchor != "start" else ""
    attributes += ' font-weight="bold"' if bold else ""
    attributes += ' fill-opacity="0.75"' if faint else ""
    place = f'x="{_number(x)}" y="{_number(y)}"'
    return f'<text {place} fill="currentColor"{attributes} xml:space="preserve">{escape(line)}</text>'
