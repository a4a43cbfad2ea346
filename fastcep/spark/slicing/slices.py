"""Boundaries of slices, computed on the driver from a few statistics of the stream.

Data flow: a survey returns the times that divide the stream into parts of equal size; `time_cut` puts slice boundaries
there and lists the times between which events must be counted; from these counts `TimeCut.with_positions` computes the
begin of each slice, and the position of its first event in the stream. `fastcep.plan.slicing` defines the context that
a slice needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastcep.events.units import INT64_MAX
from fastcep.plan.slicing import Context

__all__ = ["Slice", "TimeCut", "time_cut"]

#: Context of slices that need only their own events.
NO_CONTEXT = Context()


@dataclass(frozen=True)
class Slice:
    """Part of the stream with its context.

    Attributes
    ----------
    start, stop
        The slice owns matches detected at times from ``start`` to before ``stop``, in ns; None: no bound.
    begin, end
        The slice contains all events from time ``begin`` (None: the first event) to before ``end`` (None: the last).
    position
        Position of its first event in the stream: the number of events before it.
    skip_to, skip_before
        The engine skips events at positions before ``skip_to`` and times before ``skip_before``, so that periodic
        windows open at the same events as in the complete stream; None: skip none.
    """

    start: int | None = None
    stop: int | None = None
    begin: int | None = None
    end: int | None = None
    position: int = 0
    skip_to: int | None = None
    skip_before: int | None = None


@dataclass(frozen=True)
class TimeCut:
    """Time slices of a stream.

    Attributes
    ----------
    slices
        Slices in order; the first has no start, the last no stop.
    edges
        Ascending times between which events must be counted to compute the positions of slices; empty: none.
    context, after
        Context of each slice before its start and after its stop: a time, and a number of events beyond that.
    """

    slices: tuple[Slice, ...]
    edges: tuple[int, ...] = ()
    context: Context = NO_CONTEXT
    after: Context = NO_CONTEXT

    @property
    def begins(self) -> list[int]:
        """Time of the first event in each slice except the first one; ascending."""
        return [-INT64_MAX if one.begin is None else one.begin for one in self.slices[1:]]

    @property
    def ends(self) -> list[int]:
        """End time of each slice except the last one; ascending."""
        return [INT64_MAX if one.end is None else one.end for one in self.slices[:-1]]

    def coarser(self, step: int) -> list[Slice]:
        """Return slices that consist of `step` neighbours each; the last one may have fewer."""
        joined = []
        for place in range(0, len(self.slices), step):
            last = self.slices[min(place + step, len(self.slices)) - 1]
            joined.append(replace(self.slices[place], stop=last.stop, end=last.end))
        return joined

    def with_positions(self, counts: Sequence[int]) -> TimeCut:
        """Set the positions, begins and ends of the slices.

        `counts` are the numbers of events before, between and after the edges. A slice begins at an edge, earlier than
        its context requires if there is no edge where the context begins.
        """
        before = [0]
        for count in counts:
            before.append(before[-1] + count)
        positions = dict(zip(self.edges, before[1:], strict=False))
        slices = [replace(self.slices[0], end=self._end(self.slices[0], positions))]
        for one in self.slices[1:]:
            slices.append(replace(self._with_begin(one, positions), end=self._end(one, positions)))
        return replace(self, slices=tuple(slices))

    def _with_begin(self, stream_slice: Slice, positions: dict[int, int]) -> Slice:
        """Let a slice begin at the last edge that gives it the context it needs."""
        context, start = self.context, stream_slice.start
        assert start is not None
        time = _aligned(_clamp(start - context.nanoseconds), context.every_nanoseconds)
        position = min(self._position(time, positions), positions[start] - context.events)
        if context.every_events:
            position = position // context.every_events * context.every_events
        edge = self._edge_at(max(position, 0), positions)
        if context.every_nanoseconds and context.events and edge is not None:  # the aligned time need not be an edge
            time = _aligned(edge, context.every_nanoseconds)
            edge = self.edges[index] if (index := bisect_right(self.edges, time) - 1) >= 0 else None
        return replace(
            stream_slice, begin=edge, position=0 if edge is None else positions[edge],
            skip_to=max(position, 0) if context.every_events else None,
            skip_before=time if context.every_nanoseconds and edge is not None else None,
        )  # fmt: skip

    def _end(self, stream_slice: Slice, positions: dict[int, int]) -> int | None:
        """Return the time at which a slice ends, its context after it included; None: at the end of the stream."""
        if stream_slice.stop is None:
            return None
        time = _clamp(stream_slice.stop + self.after.nanoseconds)
        if not self.after.events:
            return time
        index = bisect_left(self.edges, time)
        if index == len(self.edges):
            return None
        after = positions[self.edges[index]] + self.after.events
        index = bisect_left(self.edges, after, key=positions.__getitem__)
        return max(time, self.edges[index]) if index < len(self.edges) else None

    def _position(self, time: int, positions: dict[int, int]) -> int:
        index = bisect_right(self.edges, time) - 1
        return positions[self.edges[index]] if index >= 0 else 0

    def _edge_at(self, position: int, positions: dict[int, int]) -> int | None:
        """Return the last edge with at most `position` events before it; None: the beginning of the stream."""
        index = bisect_right(self.edges, position, key=positions.__getitem__) - 1
        return self.edges[index] if index >= 0 else None


def _clamp(time: int) -> int:
    """Return the closest valid time."""
    return max(-INT64_MAX, min(time, INT64_MAX))


def _aligned(time: int, every: int) -> int:
    return _clamp(time // every * every) if every else time


def time_cut(
    parts: Sequence[int], slice_count: int, context: Context, *, positions: bool, after: Context | None = None
) -> TimeCut:
    """Cut a stream into time slices.

    Parameters
    ----------
    parts
        Ascending times in ns that divide the stream into parts of about equal size. None is later than the last
        event: matches that wait for the end of the stream are detected at its time.
    slice_count
        Number of slices, if there are enough times.
    context
        Context of a slice before its start.
    positions
        Whether the positions of events in the stream must be known.
    after
        Context of a slice after its stop, for functions that observe what becomes of partial matches; None: none.
    """
    after = after or NO_CONTEXT
    times = sorted(set(parts))
    step = max(1, -(-(len(times) + 1) // max(slice_count, 1)))
    starts = times[step - 1 :: step]
    begins = [_aligned(_clamp(start - context.nanoseconds), context.every_nanoseconds) for start in starts]
    ends = [_clamp(start + after.nanoseconds) for start in starts]
    slices = [
        Slice(start, stop, begin, end, skip_before=begin if context.every_nanoseconds else None)
        for start, stop, begin, end in zip(
            [None, *starts], [*starts, None], [None, *begins], [*ends, None], strict=True
        )
    ]  # fmt: skip
    edges: set[int] = set()
    if positions or context.events or context.every_events or after.events:
        edges = {*starts, *begins, *ends}
        if context.events or context.every_events or after.events:
            edges |= set(times)
    return TimeCut(tuple(slices), tuple(sorted(edges)), context, after)
