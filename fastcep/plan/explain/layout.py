"""Where the parts of a plan's picture stand: states in a row, loops above them, the other edges below.

Nothing overlaps, because everything has a strip of its own: a state a slot as wide as its box and the labels of its
loops; an edge to the next state the gap between their slots, as wide as its label; every other edge a lane below the
boxes, which it shares only with edges beside it. Texts are measured in columns of a fixed-width font.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastcep.plan.explain.text_helpers import binding, clip, columns, edge_lines, shown, state_lines, title, wrap

__all__ = ["CHARACTER", "LINE", "TURN", "Box", "Layout", "Link", "lay_out"]

CHARACTER = 7.5  # px a column, at 12 px; the widest of the usual fixed-width fonts has 7.3
LINE = 16.0
TURN = 9.0  # px by which a loop is higher than the one inside of it
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
    left: list[Link] = field(default_factory=list)
    right: list[Link] = field(default_factory=list)

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.width / 2


@dataclass(slots=True, eq=False)
class Link:
    """An edge between boxes; ``kind`` is next, loop or skip; a skip runs at height ``lane`` from ``x1`` to ``x2``.

    Several loops of a box stand around each other, ``turn`` of them inside of this one, their labels above all of them:
    ``lane`` is how high above the box the label begins.
    """

    source: int
    target: int
    lines: list[str]
    kind: str
    x1: float = 0.0
    x2: float = 0.0
    lane: float = 0.0
    turn: int = 0

    @property
    def span(self) -> int:
        """How many boxes further it goes, in either direction."""
        return abs(self.target - self.source)

    @property
    def ends(self) -> tuple[float, float]:
        """The x of its left and its right end."""
        return min(self.x1, self.x2), max(self.x1, self.x2)


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
    for box, own in zip(boxes, loops, strict=True):
        ports = len(box.left) + len(box.right) + 1
        box.width = max(_widest(box.lines) + 2 * _PADDING, ports * _PORT, 64.0)
        box.slot = max([box.width, *(_widest(loop.lines) for loop in own)])
    height = max(len(box.lines) for box in boxes) * LINE + _PADDING
    above = max((loop.lane + len(loop.lines) * LINE for own in loops for loop in own), default=0.0)
    above = max(above, *(len(link.lines) * LINE - height / 2 for link in gaps.values()), 0.0)
    top, x = above + _PADDING, _PADDING
    for number, box in enumerate(boxes):
        if number:
            labels = list(gaps[number].lines) if number in gaps else []
            here = [link for link in short if max(link.source, link.target) == number]
            labels += [clip(line, _MOST) for link in here for line in link.lines]
            x += max(_GAP, _widest(labels) + 28.0) if labels else _GAP
        box.x, box.y, box.height = x + (box.slot - box.width) / 2, top, height
        x += box.slot
    bottom = top + height + _place_skips(boxes, skips, top + height)
    return Layout(boxes, links, top + height / 2, x + _PADDING, bottom + _PADDING)


def _widest(lines: list[str]) -> float:
    return max(map(columns, lines), default=0) * CHARACTER


def _box(facts: dict[str, Any], state: dict[str, Any]) -> Box:
    told = state_lines(facts, state)
    lines = [line for heading, line in told if heading.startswith("event")]
    if state["registers"]:
        lines.append("keeps " + ", ".join(state["registers"]))
    lines = _short(lines, _LINES - 1)
    if state.get("waits") or state.get("accept_absences"):
        lines += _short([f"{heading} {line}" for heading, line in told if heading in ("accepts", "waits")])
    name, types = title(facts, state)
    # A name is never clipped, so that no two look the same.
    named = [clip(shown(f"{name}: {types}"), _MOST)] if types else wrap(shown(name), _MOST)
    return Box([*named, *lines], state["accepts"])


def _link(facts: dict[str, Any], edge: dict[str, Any], others: list[Link]) -> Link:
    source = 0 if edge["source"] is None else edge["source"] + 1
    target = edge["target"] + 1
    lines = [*filter(None, [binding(facts, edge)]), *edge_lines(facts, edge)]
    if source == target:
        return Link(source, target, _short(lines), "loop")
    if target == source + 1 and not any(link.source == source and link.target == target for link in others):
        return Link(source, target, _short(lines), "next")
    # One line, clipped when its room is known.
    return Link(source, target, [shown("; ".join(lines))] if lines else [], "skip")


def _place_loops(loops: list[Link]) -> list[Link]:
    """Put the loops of one box around each other."""
    height = _LOOP + TURN * (len(loops) - 1)
    for turn, link in enumerate(loops):
        link.turn, link.lane = turn, height
        height += len(link.lines) * LINE
    return loops


def _short(lines: list[str], most: int = _LINES) -> list[str]:
    if len(lines) > most:
        lines = [*lines[: most - 1], f"… {len(lines) - most + 1} more"]
    return [clip(shown(line), _MOST) for line in lines]


def _place_skips(boxes: list[Box], skips: list[Link], bottom: float) -> float:
    """Give every edge below the boxes its ends and its lane; return the height of all lanes.

    At a box the edges from and to the left stand left, the shortest leftmost; those from and to the right stand right,
    the shortest rightmost. As short ones run in higher lanes, the edges of one side of a box do not cross each other.
    """
    for number, box in enumerate(boxes):
        ends = [*box.left, *reversed(box.right)]
        for place, link in enumerate(ends):
            x = box.x + box.width * (place + 1) / (len(ends) + 1)
            if link.target == number:
                link.x2 = x
            else:
                link.x1 = x
    lanes: list[list[Link]] = []
    for link in skips:
        left, right = link.ends
        for lane in lanes:
            if all(right + _PORT < other.ends[0] or other.ends[1] + _PORT < left for other in lane):
                break
        else:
            lane = []
            lanes.append(lane)
        lane.append(link)
        link.lane = bottom + _LANE * (lanes.index(lane) + 1)
        link.lines = [clip(line, int((right - left - 28.0) / CHARACTER)) for line in link.lines]
    return _LANE * len(lanes) + LINE / 2 if lanes else 0.0
