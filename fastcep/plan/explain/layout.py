"""Layout of a plan's picture: states in a row, loops above them, the other edges below.

Nothing overlaps, because every part has its own area. A state has a slot as wide as its box and the labels of its
loops. An edge to the next state has the gap between their slots, which is as wide as its label. Every other edge has a
track below the boxes, shared only with edges beside it. Text widths are measured in columns of a fixed-width font.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastcep.plan.explain.text_helpers import binding, clip, columns, edge_lines, shown, state_lines, title, wrap

__all__ = ["CHARACTER", "LINE", "TURN", "Box", "Layout", "Link", "lay_out"]

CHARACTER = 7.5  # px per column at 12 px; the widest common fixed-width font has 7.3
LINE = 16.0
TURN = 9.0  # px by which a loop is higher than the one inside it
_MAX_COLUMNS = 30  # of a label; the text below the picture is complete
_LINES = 3
_GAP = 44.0  # minimum distance between two slots
_TRACK = 26.0
_PORT = 9.0  # minimum distance between two edges at a box
_LOOP = 30.0
_PADDING = 10.0


@dataclass(slots=True)
class Box:
    """The start or a state: its text, and its position in px (``x`` and ``y`` are the upper left corner)."""

    lines: list[str]
    accepts: bool = False
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    slot: float = 0.0
    left: list[Link] = field(default_factory=list)
    right: list[Link] = field(default_factory=list)

    @property
    def middle(self) -> float:
        """Return the x coordinate of its centre."""
        return self.x + self.width / 2


@dataclass(slots=True, eq=False)
class Link:
    """An edge between boxes. ``kind`` is next, loop or skip; a skip runs at the y coordinate ``track`` from ``x1`` to
    ``x2``.

    Several loops of a box are nested: ``turn`` is the number of loops inside this one. Their labels are above all of
    them, and ``track`` is the distance in px from the box to the label.
    """

    source: int
    target: int
    lines: list[str]
    kind: str
    x1: float = 0.0
    x2: float = 0.0
    track: float = 0.0
    turn: int = 0

    @property
    def span(self) -> int:
        """Return the number of boxes between its ends, in either direction."""
        return abs(self.target - self.source)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the x coordinates of its left and right ends."""
        return min(self.x1, self.x2), max(self.x1, self.x2)


@dataclass(slots=True)
class Layout:
    """A picture: boxes (the first is the start), links, the y coordinate of the row's centre, and the size in px."""

    boxes: list[Box]
    links: list[Link]
    row: float
    width: float
    height: float


def lay_out(facts: dict[str, Any]) -> Layout:
    """Place the states and edges of a query."""
    boxes = [Box(["start"]), *(_box(facts, state) for state in facts["states"])]
    links: list[Link] = []
    for edge in facts["edges"]:
        links.append(_link(facts, edge, links))
    skips = sorted((link for link in links if link.kind == "skip"), key=lambda link: (link.span, link.source))
    for link in skips:
        forward = link.source < link.target
        (boxes[link.source].right if forward else boxes[link.source].left).append(link)
        (boxes[link.target].left if forward else boxes[link.target].right).append(link)
    loops = [_place_loops([link for link in links if link.kind == "loop" and link.source == number])
             for number in range(len(boxes))]  # fmt: skip
    gaps = {link.target: link for link in links if link.kind == "next"}
    short = [link for link in skips if link.span == 1]
    for box, box_loops in zip(boxes, loops, strict=True):
        ports = len(box.left) + len(box.right) + 1
        box.width = max(_widest(box.lines) + 2 * _PADDING, ports * _PORT, 64.0)
        box.slot = max([box.width, *(_widest(loop.lines) for loop in box_loops)])
    height = max(len(box.lines) for box in boxes) * LINE + _PADDING
    above = max((loop.track + len(loop.lines) * LINE for box_loops in loops for loop in box_loops), default=0.0)
    above = max(above, *(len(link.lines) * LINE - height / 2 for link in gaps.values()), 0.0)
    top, x = above + _PADDING, _PADDING
    for number, box in enumerate(boxes):
        if number:
            labels = list(gaps[number].lines) if number in gaps else []
            here = [link for link in short if max(link.source, link.target) == number]
            labels += [clip(line, _MAX_COLUMNS) for link in here for line in link.lines]
            x += max(_GAP, _widest(labels) + 28.0) if labels else _GAP
        box.x, box.y, box.height = x + (box.slot - box.width) / 2, top, height
        x += box.slot
    bottom = top + height + _place_skips(boxes, skips, top + height)
    return Layout(boxes, links, top + height / 2, x + _PADDING, bottom + _PADDING)


def _widest(lines: list[str]) -> float:
    return max(map(columns, lines), default=0) * CHARACTER


def _box(facts: dict[str, Any], state: dict[str, Any]) -> Box:
    details = state_lines(facts, state)
    lines = [line for heading, line in details if heading.startswith("event")]
    if state["registers"]:
        lines.append("keeps " + ", ".join(state["registers"]))
    lines = _short(lines, _LINES - 1)
    if state.get("waits") or state.get("accept_absences"):
        lines += _short([f"{heading} {line}" for heading, line in details if heading in ("accepts", "waits")])
    name, types = title(facts, state)
    # A name is never clipped, so that names stay distinct.
    heading_lines = [clip(shown(f"{name}: {types}"), _MAX_COLUMNS)] if types else wrap(shown(name), _MAX_COLUMNS)
    return Box([*heading_lines, *lines], state["accepts"])


def _link(facts: dict[str, Any], edge: dict[str, Any], others: list[Link]) -> Link:
    source = 0 if edge["source"] is None else edge["source"] + 1
    target = edge["target"] + 1
    lines = [*filter(None, [binding(facts, edge)]), *edge_lines(facts, edge)]
    if source == target:
        return Link(source, target, _short(lines), "loop")
    if target == source + 1 and not any(link.source == source and link.target == target for link in others):
        return Link(source, target, _short(lines), "next")
    # One line, clipped when its width is known.
    return Link(source, target, [shown("; ".join(lines))] if lines else [], "skip")


def _place_loops(loops: list[Link]) -> list[Link]:
    """Nest the loops of one box."""
    height = _LOOP + TURN * (len(loops) - 1)
    for turn, link in enumerate(loops):
        link.turn, link.track = turn, height
        height += len(link.lines) * LINE
    return loops


def _short(lines: list[str], maximum: int = _LINES) -> list[str]:
    if len(lines) > maximum:
        lines = [*lines[: maximum - 1], f"… {len(lines) - maximum + 1} more"]
    return [clip(shown(line), _MAX_COLUMNS) for line in lines]


def _place_skips(boxes: list[Box], skips: list[Link], bottom: float) -> float:
    """Assign ends and a track to every edge below the boxes; return the height of all tracks.

    Edges to and from the left are attached at the left of a box, the shortest leftmost; edges to and from the right at
    the right, the shortest rightmost. Short edges use higher tracks, so edges on one side of a box do not cross.
    """
    for number, box in enumerate(boxes):
        ends = [*box.left, *reversed(box.right)]
        for position, link in enumerate(ends):
            x = box.x + box.width * (position + 1) / (len(ends) + 1)
            if link.target == number:
                link.x2 = x
            else:
                link.x1 = x
    tracks: list[list[Link]] = []
    for link in skips:
        left, right = link.ends
        for track in tracks:
            if all(right + _PORT < other.ends[0] or other.ends[1] + _PORT < left for other in track):
                break
        else:
            track = []
            tracks.append(track)
        track.append(link)
        link.track = bottom + _TRACK * (tracks.index(track) + 1)
        link.lines = [clip(line, int((right - left - 28.0) / CHARACTER)) for line in link.lines]
    return _TRACK * len(tracks) + LINE / 2 if tracks else 0.0
