"""Cut a stream into slices as it arrives, without looking at the patterns of the query.

A slice *begins* at an event, and *owns* the matches that are detected from a later time, its *start*, to before the
start of the next slice. The events between begin and start are its context: the matches that it owns may depend on
them (`fastcep.plan.slicing`). The next slice begins while the current one owns matches, so at most two are open, and an
event is in one or two of them.

    events    ───────────────────────────────────────────▶
    slice 0   begin ════ owns ═════════════════╗ stop
    slice 1                    begin ─ context ╚═ owns ══════════════╗ stop
    slice 2                                          begin ─ context ╚═ owns ═══

Where a slice begins depends only on the times and positions of the events, and on the number of events that a slice
should have. The work per batch does not depend on the number of windows that are open: all windows of a slice share it.

Invariant: of each match, exactly one slice is the owner, and that slice has the context of `Slicing.time` before its
start. No two events of the same time have different owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.events.units import INT64_MAX
from fastcep.plan.slicing import Context

__all__ = ["Feed", "Slice", "Splitter"]

Ints = npt.NDArray[np.int64]

#: Number of events that a slice owns, as a multiple of its context, so that few events are processed twice.
_CONTEXTS = 8


@dataclass(eq=False)
class Slice:
    """Part of the stream.

    Attributes
    ----------
    number
        Number of the slice, from 0.
    position, time
        Position in the stream, and time in ns, of its first event.
    start
        It owns the matches detected at this time in ns or later; None: at any time (slice 0), or not known yet.
    owns
        Whether it owns matches already: its start is known, or it is slice 0.
    stop
        It owns the matches detected before this time; None: not known yet, or to the end of the stream.
    first_owned
        Position of the first event at or after its start.
    """

    number: int
    position: int
    time: int
    start: int | None = None
    owns: bool = False
    stop: int | None = None
    first_owned: int = 0


@dataclass(frozen=True)
class Feed:
    """Events of a batch that belong to a slice.

    Attributes
    ----------
    slice
        The slice, with its `Slice.start` and `Slice.stop` as far as they are known after these events.
    first, last
        Rows of the batch, ``first:last``.
    ends
        Whether these are the last events of the slice.
    """

    slice: Slice
    first: int
    last: int
    ends: bool = False


class Splitter:
    """Cuts a stream into slices.

    Parameters
    ----------
    context
        Context of slices.
    least, most
        Smallest and largest number of events from the begin of a slice to that of the next one, which is larger only if
        the context is longer.

    Attributes
    ----------
    most
        The parameter; it may change.
    position
        Number of events so far.
    slices
        Number of slices so far.
    fed
        Number of events so far, each counted once per slice that contains it.
    """

    def __init__(self, context: Context, least: int, most: int) -> None:
        self._context, self._least, self.most = context, least, most
        self._current: Slice | None = None
        self._next: Slice | None = None
        self._last_time = 0
        self.context_events = 0  #: of the last slice whose start is known
        self.position = self.slices = self.fed = 0

    @property
    def overlap(self) -> float:
        """Share of the events that a second slice contains as well."""
        return self.fed / self.position - 1 if self.position else 0.0

    def split(self, times: Ints) -> list[Feed]:
        """Return the parts of the next batch, given the times of its events, int64[n] ns, ascending.

        The parts of a slice are in the order of their rows. A start or stop that the batch contains is set in the slice
        before the feeds are returned.
        """
        if not len(times):
            return []
        feeds = list(self._feeds(times))
        self.position += len(times)
        self._last_time = int(times[-1])
        self.fed += sum(feed.last - feed.first for feed in feeds)
        return feeds

    def _feeds(self, times: Ints) -> Iterator[Feed]:
        if self._current is None:
            self._current = self._begin(0, times)
            self._current.owns = True
        first_of_current = row = 0
        first_of_next = 0
        while True:
            if self._next is None:
                begin = self._begin_row(times, row)
                if begin is None:
                    break
                self._next, first_of_next = self._begin(begin, times), begin
                row = begin
            start = self._start_row(self._next, times, row)
            if start is None:
                break
            self._next.start = self._current.stop = int(times[start])
            self._next.owns, self._next.first_owned = True, self.position + start
            self.context_events = self._next.first_owned - self._next.position
            yield Feed(self._current, first_of_current, start, ends=True)
            self._current, first_of_current = self._next, first_of_next
            self._next, row = None, start
        yield Feed(self._current, first_of_current, len(times))
        if self._next is not None:
            yield Feed(self._next, first_of_next, len(times))

    def _begin(self, row: int, times: Ints) -> Slice:
        self.slices += 1
        return Slice(self.slices - 1, self.position + row, int(times[row]))

    def _begin_row(self, times: Ints, row: int) -> int | None:
        """Return the row of the first event from ``row`` on with which the next slice may begin."""
        assert self._current is not None
        size = max(self._least, min(_CONTEXTS * self.context_events, self.most))
        position = max(self._current.position + size, self.position + row)
        if every := self._context.every_events:
            position = -(-position // every) * every
        begin = position - self.position
        if begin >= len(times):
            return None
        if every := self._context.every_nanoseconds:
            before = int(times[begin - 1]) if begin else self._last_time
            due = (before // every + 1) * every  # windows open at the first event from here on
            begin = int(np.searchsorted(times, due)) if due <= times[-1] else len(times)
        return begin if begin < len(times) else None

    def _start_row(self, slice_: Slice, times: Ints, row: int) -> int | None:
        """Return the row of the first event that a slice may own: after its context, later than the event before."""
        row = max(row, slice_.position + max(self._context.events, 1) - self.position)
        if row >= len(times):
            return None
        context_end = min(slice_.time + self._context.nanoseconds, INT64_MAX)
        row = max(row, int(np.searchsorted(times, context_end, side="right")))
        if row >= len(times):
            return None
        before = int(times[row - 1]) if row else self._last_time
        row = int(np.searchsorted(times, before, side="right")) if times[row] == before else row
        return row if row < len(times) else None

    def finish(self) -> tuple[Slice | None, Slice | None]:
        """End the stream; return the slice that owns its end, and one that has begun but owns nothing."""
        return self._current, self._next
