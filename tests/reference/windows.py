"""Explicit windows of the reference matcher, as parts of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastcep.query import ast
from reference.conditions import Event, evaluate


@dataclass(frozen=True)
class Window:
    """A part of the stream, in which a query is matched as if there were no other events.

    Attributes
    ----------
    start, stop
        Positions of its first event, and after its last one.
    window_id
        Sequence number of the event that opens it; None for the whole stream of a query with WITHIN.
    until
        The time (ns) of its end.
    end
        Without explicit windows, the time (ns) that the stream has reached.
    closing
        Position of its last event, if that event determines the end; None if time must pass, or the stream must end.
    """

    start: int
    stop: int
    window_id: int | None = None
    until: int | None = None
    closing: int | None = None
    end: int | None = None


def windows(query: ast.Query, events: Sequence[Event], end: int | None = None) -> list[Window]:
    """Return the windows of a query in the order in which they open; for WITHIN one, which is the whole stream.

    ``end`` is the time (ns) that the stream has reached, if it is later than its last event.
    """
    clause = query.window
    last = max(events[-1].time, events[-1].time if end is None else end) if events else 0
    if not isinstance(clause, ast.ExplicitWindow):
        return [Window(0, len(events), end=last)]
    return [
        closed(clause, events, position, last)
        for position in range(len(events))
        if opens(clause.opening, events, position)
    ]


def opens(opening: ast.Bound, events: Sequence[Event], position: int) -> bool:
    """Return True if the event at a position opens a window."""
    event = events[position]
    if opening.events is not None:
        return position % opening.events == 0
    if opening.nanoseconds is not None:
        slide = event.time // opening.nanoseconds  # rounds down, also below zero
        return all(earlier.time // opening.nanoseconds != slide for earlier in events[:position])
    return event.type in opening.types and satisfies(opening.where, {opening.variable: [event]})


def closed(clause: ast.ExplicitWindow, events: Sequence[Event], start: int, end: int) -> Window:
    """Return the window that opens with the event at position ``start``, in a stream that ends at a time."""
    opener, closing = events[start], clause.closing
    if closing.nanoseconds is not None:
        until = opener.time + closing.nanoseconds
        inside = [position for position in range(start, len(events)) if events[position].time <= until]
        return Window(start, inside[-1] + 1, opener.seq, until)
    if closing.events is not None:
        last = start + closing.events - 1
    else:
        last = next(
            (
                position
                for position in range(start + 1, len(events))
                if events[position].type in closing.types
                and satisfies(closing.where, {clause.opening.variable: [opener], closing.variable: [events[position]]})
            ),
            len(events),
        )
    if last >= len(events):  # it ends with the stream
        return Window(start, len(events), opener.seq, end)
    return Window(start, last + 1, opener.seq, events[last].time, last)


def satisfies(where: ast.Expr | None, bound: dict[str, list[Event | None]]) -> bool:
    """Return True if a window's condition is true; unknown is not."""
    return where is None or evaluate(where, bound) is True
