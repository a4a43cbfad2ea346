"""Where a stream is cut: plain numbers, found on the driver from a few figures about the stream.

Data flow: a survey tells the times that cut the stream into equal parts; `time_cut` puts slices there and says at which
times events must be counted; with these counts `SliceAssignment.placed` knows where each slice has to begin, and the
place of its first event in the stream. `fastcep.plan.slicing` says what a slice needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastcep.events.units import INT64_MAX
from fastcep.plan.slicing import Context

__all__ = ["Slice", "TimeCut", "time_cut"]

#: What a slice may need beside its own events.
NOTHING = Context()


@dataclass(frozen=True)
class Slice:
    """A piece of the stream, and what of it counts.

    Attributes
    ----------
    start, stop
        What is detected at these times, ns, is its own: not before ``start``, before ``stop``; None: no bound.
    begin, end
        It has all events from the one time on (None: from the first) to before the other (None: to the last).
    place
        Of its first event in the stream: how many come before it.
    skip_to, skip_before
        Events at places before the one, or times before the other, are left out: only then windows that open at
        every so many events, or so often, open where they do in the whole stream. None: at none.
    """

    start: int | None = None
    stop: int | None = None
    begin: int | None = None
    end: int | None = None
    place: int = 0
    skip_to: int | None = None
    skip_before: int | None = None


@dataclass(frozen=True)
class TimeCut:
    """Slices of time.

    Attributes
    ----------
    slices
        In order; the first one has no start, the last one no stop.
    edges
        Times between which events have to be counted before slices are placed, ascending; empty: none.
    context, after
        What each slice has before it, and behind it: all events of so much time, and so many behind these.
    """

    slices: tuple[Slice, ...]
    edges: tuple[int, ...] = ()
    context: Context = NOTHING
    after: Context = NOTHING

    @property
    def begins(self) -> list[int]:
        """From which time on an event is in each slice but the first; ascending."""
        return [-INT64_MAX if piece.begin is None else piece.begin for piece in self.slices[1:]]

    @property
    def ends(self) -> list[int]:
        """From which time on an event is in none of the slices up to each but the last; ascending."""
        return [INT64_MAX if piece.end is None else piece.end for piece in self.slices[:-1]]

    def placed(self, counts: Sequence[int]) -> TimeCut:
        """The same with places, by the counts of the events before, between and behind the edges."""
        before = [0]
        for count in counts:
            before.append(before[-1] + count)
        places = dict(zip(self.edges, before[1:], strict=False))
        moved = [replace(self.slices[0], end=self._end(self.slices[0], places))]
        for piece in self.slices[1:]:
            moved.append(replace(self._begun(piece, places), end=self._end(piece, places)))
        return replace(self, slices=tuple(moved))

    def _begun(self, piece: Slice, places: dict[int, int]) -> Slice:
        """A slice that begins early enough, at an edge."""
        context, start = self.context, piece.start
        assert start is not None
        time = _aligned(_fit(start - context.nanoseconds), context.every_nanoseconds)
        wanted = min(self._place(time, places), places[start] - context.events)
        if context.every_events:
            wanted = wanted // context.every_events * context.every_events
        edge = self._edge_at(max(wanted, 0), places)
        if context.every_nanoseconds and context.events and edge is not None:  # that it began at is no edge
            time = _aligned(edge, context.every_nanoseconds)
            edge = self.edges[at] if (at := bisect_right(self.edges, time) - 1) >= 0 else None
        return replace(
            piece, begin=edge, place=0 if edge is None else places[edge],
            skip_to=max(wanted, 0) if context.every_events else None,
            skip_before=time if context.every_nanoseconds and edge is not None else None,
        )  # fmt: skip

    def _end(self, piece: Slice, places: dict[int, int]) -> int | None:
        """How far a slice has to go."""
        if piece.stop is None:
            return None
        behind = _fit(piece.stop + self.after.nanoseconds)
        if not self.after.events:
            return behind
        at = bisect_left(self.edges, places[behind] + self.after.events, key=places.__getitem__)
        return max(behind, self.edges[at]) if at < len(self.edges) else None

    def _place(self, time: int, places: dict[int, int]) -> int:
        at = bisect_right(self.edges, time) - 1
        return places[self.edges[at]] if at >= 0 else 0

    def _edge_at(self, place: int, places: dict[int, int]) -> int | None:
        """The last edge that no more than so many events come before; None: the stream's beginning."""
        at = bisect_right(self.edges, place, key=places.__getitem__) - 1
        return self.edges[at] if at >= 0 else None


def _fit(time: int) -> int:
    """The closest time that there can be."""
    return max(-INT64_MAX, min(time, INT64_MAX))


def _aligned(time: int, every: int) -> int:
    return _fit(time // every * every) if every else time


def time_cut(
    parts: Sequence[int], wanted: int, context: Context, *, counted: bool, after: Context | None = None
) -> TimeCut:
    """Cut a stream into slices of time.

    Parameters
    ----------
    parts
        Times, ns, ascending, that divide the stream into parts of about as many events; none is later than the last
        event, with which the stream ends: what waits for that is detected then.
    wanted
        How many slices there are, if there are times enough.
    context
        What a slice has before it.
    counted
        Whether the places of events in the stream have to be known.
    after
        What a slice has behind it, for those who look at what becomes of it; None: nothing.
    """
    after = after or NOTHING
    times = sorted(set(parts))
    step = max(1, -(-(len(times) + 1) // max(wanted, 1)))
    starts = times[step - 1 :: step]
    begins = [_aligned(_fit(start - context.nanoseconds), context.every_nanoseconds) for start in starts]
    ends = [_fit(start + after.nanoseconds) for start in starts]
    slices = [
        Slice(start, stop, begin, end, skip_before=begin if context.every_nanoseconds else None)
        for start, stop, begin, end in zip(
            [None, *starts], [*starts, None], [None, *begins], [*ends, None], strict=True
        )
    ]  # fmt: skip
    edges: set[int] = set()
    if counted or context.events or context.every_events or after.events:
        edges = {*starts, *begins, *ends}
        if context.events or context.every_events or after.events:
            edges |= set(times)
    return TimeCut(tuple(slices), tuple(sorted(edges)), context, after)
