"""Count transitions and positions in plain Python, event by event, for sequences of variables that agree on ``k``.

This is an independent simulation of partial matches: it uses the semantics of the language only, not the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fastcep.query import ast, traversal
from reference import windows as naive_windows
from reference.matcher import Event

Pair = tuple[str, str]


@dataclass(frozen=True)
class Shape:
    """A ``SEQ``: for each variable its type, and whether it is a Kleene one; ``same``: all have the same k."""

    types: str
    repeated: tuple[bool, ...]
    same: bool

    @property
    def names(self) -> list[str]:
        return [f"x{number}" for number in range(len(self.types))]

    def text(self, window: str, strategy: str) -> str:
        named = zip(self.types, self.names, self.repeated, strict=True)
        variables = ", ".join(f"{kind}+ {name}[]" if more else f"{kind} {name}" for kind, name, more in named)
        same = [f"{self._of(0, '[first]')} = {self._of(at, '[i]')}" for at in range(len(self.types)) if self.joins(at)]
        where = f" WHERE {' AND '.join(same)}" if same else ""
        return f"PATTERN SEQ({variables}){where} {window} STRATEGY {strategy}"

    def joins(self, at: int) -> bool:
        return self.same and (at > 0 or self.repeated[0])

    def _of(self, at: int, index: str) -> str:
        return f"x{at}{index if self.repeated[at] else ''}.k"


@dataclass
class Partial:
    """A partial match: its first event, and the last variable that it has bound."""

    first: int
    at: int


def transitions(
    shape: Shape, query: ast.Query, events: list[Event], first: int, last: int
) -> tuple[Counter[Pair], Counter[Pair], Counter[Pair]]:
    """Count observations by source and target, those that stayed, and how often partial matches met an event.

    Counted are the events from ``first`` to ``last - 1``.
    """
    observed, stayed, meetings = Counter[Pair](), Counter[Pair](), Counter[Pair]()
    for window in naive_windows.windows(query, events):
        live: list[Partial] = []
        for position in range(window.start, window.stop):
            live = [one for one in live if inside(query.window, events, one.first, position)]
            counts = first <= position < last
            met, came = list(one_event(shape, query, events, live, position)), False
            live = []
            for one, children, stays in met:
                source = "start" if one is None else shape.names[one.at]
                came |= one is None and bool(children)
                meetings[source, source] += counts
                for child in children:
                    target = "match" if child is None else shape.names[child.at]
                    observed[source, target] += counts
                    live += [] if child is None else [child]
                if stays:
                    observed[source, source] += counts
                    stayed[source, source] += counts
                    live += [] if one is None else [one]
    return +observed, +stayed, +meetings


def one_event(
    shape: Shape, query: ast.Query, events: list[Event], live: list[Partial], position: int
) -> Iterator[tuple[Partial | None, list[Partial | None], bool]]:
    """Yield, for each partial match and for none, the new ones (None: a match), and whether the old one stays."""
    event, end = events[position], len(shape.types) - 1
    for one in [None, *live]:
        steps = [0] if one is None else [one.at] * shape.repeated[one.at] + [one.at + 1] * (one.at < end)
        children: list[Partial | None] = []
        for at in steps:
            start = position if one is None else one.first
            if event.type != shape.types[at] or (shape.same and event.values["k"] != events[start].values["k"]):
                continue
            if at < end or shape.repeated[at]:
                children.append(Partial(start, at))
            if at == end:
                children.append(None)
        yield one, children, not children or query.strategy == "skip_till_any"


def numbers_matter(query: ast.Query) -> bool:
    """Return True if conditions mention sequence numbers, which the engine assigns anew in every piece."""
    bound = query.window if isinstance(query.window, ast.ExplicitWindow) else None
    parts = [query.where, *([bound.opening.where, bound.closing.where] if bound is not None else [])]
    named = [node for part in parts if part is not None for node in traversal.walk(part)]
    return query.schema.sequence is None and any(
        isinstance(node, ast.Attribute | ast.Aggregate) and node.name == "seq" for node in named
    )


def numbered(query: ast.Query, events: list[Event]) -> list[Event]:
    """Number the events of a piece as the engine does."""
    if query.schema.sequence is not None:
        return events
    return [Event(one.type, one.time, number, one.values) for number, one in enumerate(events)]


def inside(window: ast.Window, events: list[Event], first: int, position: int) -> bool:
    """Return True if an event is in the window of a partial match."""
    if isinstance(window, ast.TimeWindow):
        return events[position].time - events[first].time <= window.nanoseconds
    return position - first < window.events if isinstance(window, ast.CountWindow) else True
