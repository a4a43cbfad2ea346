"""Where the parts of a plan's picture stand: states in a row, loops above them, edges that skip states below.

Nothing overlaps, because everything has a strip of its own: a state a slot as wide as its box and the label of its
loop; an edge between neighbours the gap between their slots, as wide as its label; an edge that skips states a lane
below the boxes, which it shares only with edges beside it. Texts are measured in columns of a fixed-width font.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastcep.plan.explain.words import clip, columns, edge_lines, shown, state_lines, type_text
from fastcep.query.printer import name_text

__all__ = ["CHARACTER", "LINE", "Box", "Layout", "Link", "lay_out"]

CHARACTER = 7.5  # px a column, at 12 px; the widest of the usual fixed-width fonts has 7.3
LINE = 16.0
_MOST = 30  # columns of a label; the whole text stands below the picture
_LINES = 3
_GAP = 44.0  # least distance of two slots
_LANE = 26.0
_PORT = 9.0  # least distance of two edges at a box
_LOOP = 30.0
_PADDING = 10.0


@dataclass(slots=True)
class Box:
    """The start or a state: its text and its place (px; ``x`` and ``y`` are the upper left corner)."""

    lines: list[str]
    accepts: bool = False
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    slot: float = 0.0
    incoming: list[Link] = field(default_factory=list)
    outgoing: list[Link] = field(default_factory=list)

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.width / 2


@dataclass(slots=True, eq=False)
class Link:
    """An edge between boxes; ``kind`` is next, loop or skip; a skip runs at height ``lane`` from ``x1`` to ``x2``."""

    source: int
    target: int
    lines: list[str]
    kind: str
    x1: float = 0.0
    x2: float = 0.0
    lane: float = 0.0


@dataclass(slots=True)
class Layout:
    """A picture: boxes (the first is the start), links, the y of the row's middle, and the size."""

    boxes: list[Box]
    links: list[Link]
    row: float
    width: float
    height: float


def lay_out(facts: dict[str, Any]) -> Layout:
    """Place the states and edges of a query."""
    boxes = [Box(["start"]), *(_box(facts, state) for state in facts["states"])]
    links = [_link(edge) for edge in facts["edges"]]
    skips = [link for link in links if link.kind == "skip"]
    for link in sorted(skips, key=lambda link: (link.target - link.source, link.source)):
        boxes[link.source].outgoing.append(link)
        boxes[link.target].incoming.append(link)
    loops = {link.source: link for link in links if link.kind == "loop"}
    gaps = {link.target: link for link in links if link.kind == "next"}
    for number, box in enumerate(boxes):
        ports = len(box.incoming) + len(box.outgoing) + 1
        box.width = max(_widest(box.lines) + 2 * _PADDING, ports * _PORT, 64.0)
        box.slot = max(box.width, _widest(loops[number].lines) if number in loops else 0.0)
    height = max(len(box.lines) for box in boxes) * LINE + _PADDING
    above = max((_LOOP + len(loop.lines) * LINE for loop in loops.values()), default=0.0)
    above = max(above, *(len(link.lines) * LINE - height / 2 for link in gaps.values()), 0.0)
    top, x = above + _PADDING, _PADDING
    for number, box in enumerate(boxes):
        if number:
            x += max(_GAP, _widest(gaps[number].lines) + 28.0) if number in gaps else _GAP
        box.x, box.y, box.height = x + (box.slot - box.width) / 2, top, height
        x += box.slot
    bottom = top + height + _place_skips(boxes, skips, top + height)
    return Layout(boxes, links, top + height / 2, x + _PADDING, bottom + _PADDING)


def _widest(lines: list[str]) -> float:
    return max(map(columns, lines), default=0) * CHARACTER


def _box(facts: dict[str, Any], state: dict[str, Any]) -> Box:
    variable = facts["variables"][state["number"]]
    lines = [f"{name_text(variable['name'])}: {type_text(variable)}"]
    lines += [line for heading, line in state_lines(facts, state) if heading == "event"]
    if state["registers"]:
        lines.append("keeps " + ", ".join(state["registers"]))
    return Box(_short(lines), state["accepts"])


def _link(edge: dict[str, Any]) -> Link:
    source = 0 if edge["source"] is None else edge["source"] + 1
    target = edge["target"] + 1
    kind = "loop" if source == target else "next" if target == source + 1 else "skip"
    lines = edge_lines(edge)
    if kind == "skip":  # one line, clipped when its room is known
        return Link(source, target, [shown("; ".join(lines))] if lines else [], kind)
    return Link(source, target, _short(lines), kind)


def _short(lines: list[str]) -> list[str]:
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"… {len(lines) - _LINES + 1} more"]
    return [clip(shown(line), _MOST) for line in lines]


def _place_skips(boxes: list[Box], skips: list[Link], bottom: float) -> float:
    """Give every skipping edge its ends and its lane; return the height of all lanes.

    At a box incoming edges stand left, the one from nearest leftmost; outgoing ones right, the one that goes nearest
    rightmost. As near ones run in higher lanes, the edges of one side of a box do not cross each other.
    """
    for box in boxes:
        ends = [*box.incoming, *reversed(box.outgoing)]
        for place, link in enumerate(ends):
            x = box.x + box.width * (place + 1) / (len(ends) + 1)
            if place < len(box.incoming):
                link.x2 = x
            else:
                link.x1 = x
    lanes: list[list[Link]] = []
    for link in sorted(skips, key=lambda link: (link.target - link.source, link.source)):
        for lane in lanes:
            if all(link.x2 + _PORT < other.x1 or other.x2 + _PORT < link.x1 for other in lane):
                break
        else:
            lane = []
            lanes.append(lane)
        lane.append(link)
        link.lane = bottom + _LANE * (lanes.index(lane) + 1)
        link.lines = [clip(line, int((link.x2 - link.x1 - 28.0) / CHARACTER)) for line in link.lines]
    return _LANE * len(lanes) + LINE / 2 if lanes else 0.0
