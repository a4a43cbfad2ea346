"""Sort out-of-order input: hold events back until no earlier event can come, and set late events aside.

Held events are stored in *runs*: batches sorted by time and sequence number. A new run absorbs the runs before it that
are not much larger. So there are few runs, and an event is copied a logarithmic number of times, whatever the size of
the batches. When the watermark moves, the events that it has passed are at the head of each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import DataError, ValidationError
from fastcep.events import EventBatch, Schema, parse_duration
from fastcep.events.origin import at_row
from fastcep.events.units import INT64_MAX, INT64_MIN, format_time
from fastcep.stored import Misfit

__all__ = ["Reorderer", "make_reorderer"]

#: Maximum number of sources of an engine.
_MOST_SOURCES = 4096

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Source:
    """Progress of an input: its largest time (None: no event yet), and the arrival time of its last batch."""

    largest: int | None
    arrived: int


class _Run:
    """Sorted events whose head may have been released; the memory is freed when half of it is unused."""

    __slots__ = ("_allocated", "events", "nbytes")

    def __init__(self, events: EventBatch) -> None:
        self.events = events
        self.nbytes = events.nbytes
        self._allocated = len(events)

    def __len__(self) -> int:
        return len(self.events)

    def pop(self, count: int) -> EventBatch:
        """Remove and return the first `count` events."""
        head, tail = self.events.slice(0, count), self.events.slice(count, len(self.events))
        if 2 * len(tail) < self._allocated:
            tail = EventBatch.concat([tail])
            self.nbytes, self._allocated = tail.nbytes, len(tail)
        self.events = tail
        return head


def make_reorderer(
    schema: Schema,
    allowed_lateness: str | timedelta | None,
    idle_timeout: str | timedelta | None,
    late_limit: int,
    clock: Callable[[], int],
) -> Reorderer | None:
    """Make the reorderer for an engine's options, None for ordered input; `ValidationError` names an invalid option."""
    durations: list[int | None] = []
    for option, value in (("allowed_lateness", allowed_lateness), ("idle_timeout", idle_timeout)):
        try:
            durations.append(None if value is None else parse_duration(value))
        except ValidationError as error:
            raise ValidationError(f"{option}: {error}") from None
    lateness, idle = durations
    if isinstance(late_limit, bool) or not isinstance(late_limit, int) or late_limit < 0:
        raise ValidationError(f"late_limit={late_limit!r}: expected a number of events, 0 or more")
    if lateness is None:
        if idle is not None:
            raise ValidationError("idle_timeout needs allowed_lateness: without it nothing is held back")
        return None
    if idle == 0:
        raise ValidationError("idle_timeout is 0: expected a positive duration, such as '2s'")
    return Reorderer(schema, lateness, idle=idle, late_limit=late_limit, clock=clock)


class Reorderer:
    """Put the events of one engine in stream order, (time, sequence number), with bounded lateness.

    The *watermark* is the largest time seen, less `lateness`; with several sources, the smallest of their watermarks.
    It never decreases. An event is late if it is older than the watermark when it arrives. The result does not depend
    on the division of the input into batches.

    Parameters
    ----------
    schema
        Schema of the events. Without a sequence column, events are numbered as they arrive, including late ones.
    lateness
        Allowed lateness, ns.
    idle
        Time without input after which a source no longer holds the watermark back, ns; None: it always does.
    late_limit
        Number of late events that may wait for `take_late`.
    clock
        Returns the time in ns, for `idle`; it never decreases.

    Attributes
    ----------
    watermark
        Earlier events are late, ns. INT64_MIN: no event yet.
    late_events
        Number of late events so far.
    """

    def __init__(
        self, schema: Schema, lateness: int, *, idle: int | None, late_limit: int, clock: Callable[[], int]
    ) -> None:
        self.watermark = INT64_MIN
        self.late_events = 0
        self._lateness = lateness
        self._idle = idle
        self._late_limit = late_limit
        self._clock = clock
        self._column = schema.sequence
        self._numbered = schema.sequence is not None
        self._arrived = 0
        self._sources: dict[str | None, _Source] = {}
        self._runs: list[_Run] = []
        self._late: list[EventBatch] = []

    # ---------------------------------------------------------------- events in

    def push(self, batch: EventBatch, origin: str, first_row: int, source: str | None = None) -> EventBatch | None:
        """Add a batch.

        Parameters
        ----------
        batch
            Events in order of arrival. An empty batch of a named source announces it: the watermark waits for it.
        origin, first_row
            Name of the input, and the number of the batch's first row in it, for error messages.
        source
            Name of the input, if there are several.

        Returns
        -------
        EventBatch or None
            The next events of the stream, in order: no earlier event can come. None if there are none.

        Raises
        ------
        ValidationError
            If more than `late_limit` late events would wait, or there are too many sources. The batch is not added.
        DataError
            If an event has the time and the sequence number of another one. The batch is not added.
        """
        now = self._clock()
        self._check_source(source)
        if not len(batch):
            if source is not None:
                self._sources.setdefault(source, _Source(None, now))
            return self._release()  # events that were put back
        if batch.sequence is None:
            batch = replace(batch, sequence=np.arange(self._arrived, self._arrived + len(batch)))
        others = min(self._slowest(now, source), INT64_MAX)
        largest = np.maximum.accumulate(batch.time)
        progress = self._sources.get(source)
        if progress is not None and progress.largest is not None:
            np.maximum(largest, progress.largest, out=largest)
        watermarks = np.minimum(np.maximum(largest, INT64_MIN + self._lateness) - self._lateness, others)
        late = (batch.time < watermarks) | (batch.time < self.watermark)
        count = int(np.count_nonzero(late))
        self._check_late(count, origin)
        events = batch.take(np.flatnonzero(~late)) if count else batch
        if self._numbered and len(events):
            self._check_duplicates(events, batch, late, origin, first_row)
        # No error is raised from here on.
        self._arrived += len(batch)
        self.late_events += count
        if count:
            self._set_aside(batch.take(np.flatnonzero(late)))
        self._sources[source] = _Source(int(largest[-1]), now)
        self.watermark = max(self.watermark, min(self._less_lateness(int(largest[-1])), others))
        events = self._sorted(events)
        releasable = self._count_releasable(events.time)
        if releasable < len(events):
            self._hold(events.slice(releasable, len(events)))
        return self._release(events.slice(0, releasable))

    def _check_source(self, source: str | None) -> None:
        if source is not None and not isinstance(source, str):
            raise ValidationError(f"source={source!r}: expected a name, or None for the only source")
        if source not in self._sources and len(self._sources) >= _MOST_SOURCES:
            raise ValidationError(
                f"source={source!r}: there are {_MOST_SOURCES:,} sources already; a source is an input, not the key of "
                "an event"
            )

    def _check_late(self, count: int, origin: str) -> None:
        waiting = self.late_waiting
        if waiting + count > self._late_limit:
            raise ValidationError(
                f"{origin}: {count:,} late events in this batch and {waiting:,} waiting are more than "
                f"late_limit={self._late_limit:,}; nothing of the batch was taken. Call late() to take those waiting, "
                "use smaller batches, or raise late_limit or allowed_lateness"
            )

    def _check_duplicates(
        self, events: EventBatch, batch: EventBatch, late: npt.NDArray[np.bool_], origin: str, first_row: int
    ) -> None:
        """Check that no event has the time and sequence number of a held event, or of one before it in the batch."""
        assert events.sequence is not None
        low, high = events.time.min(), events.time.max()
        times, numbers = [], []
        for run in self._runs:
            first = int(np.searchsorted(run.events.time, low))
            end = int(np.searchsorted(run.events.time, high, "right"))
            assert run.events.sequence is not None
            times.append(run.events.time[first:end])
            numbers.append(run.events.sequence[first:end])
        held = sum(map(len, times))
        time, number = np.concatenate([*times, events.time]), np.concatenate([*numbers, events.sequence])
        order = np.lexsort((number, time))  # stable: of two equal events the one that arrived first comes first
        same = (np.diff(time[order]) == 0) & (np.diff(number[order]) == 0)
        if same.any():
            duplicate = int(order[1:][same].min()) - held
            row = first_row + batch.row(int(np.flatnonzero(~late)[duplicate]))
            raise DataError(
                f"{at_row(origin, row)}, column {self._column!r}: found {events.sequence[duplicate]} at the time "
                f"{format_time(int(events.time[duplicate]))} for the second time; give each event its own number"
            )

    def _set_aside(self, events: EventBatch) -> None:
        while self._late and len(self._late[-1]) <= 2 * len(events):
            events = EventBatch.concat([self._late.pop(), events])
        self._late.append(events)

    def _hold(self, events: EventBatch) -> None:
        parts = [events]
        while self._runs and len(self._runs[-1]) <= 2 * sum(map(len, parts)):
            parts.append(self._runs.pop().events)
        events = EventBatch.concat(parts[::-1])  # copies even a single part: the user owns the input's memory
        self._runs.append(_Run(self._sorted(events)))

    # --------------------------------------------------------------- events out

    def advance(self, time: int) -> EventBatch | None:
        """Raise the watermark to `time`, and return the events that it has passed."""
        self.watermark = max(self.watermark, time)
        return self._release()

    def poll(self) -> EventBatch | None:
        """Return the events that only idle sources hold back: all held events if every source is idle.

        If every source is idle, the watermark moves to the largest time seen; with a sequence column to 1 ns more,
        because a later event of the same time may have a lower number.
        """
        times = (source.largest for source in self._sources.values() if source.largest is not None)
        largest = max(times, default=None)
        if largest is None:
            return None
        slowest = self._slowest(self._clock())
        self.watermark = max(self.watermark, min(slowest, largest + self._numbered))
        return self._release()

    def finish(self) -> EventBatch | None:
        """Return all held events."""
        parts = [run.events for run in self._runs]
        self._runs = []
        return self._merged(parts)

    def put_back(self, events: EventBatch) -> None:
        """Hold events again that were returned last; the events that follow them in the stream come after them."""
        if len(events):
            self._runs.insert(0, _Run(events))

    def _slowest(self, now: int, excluded: object = ...) -> int:
        """Return the smallest watermark of the active sources, without ``excluded``; INT64_MAX + 1 if there is none."""
        return min(
            (
                INT64_MIN if source.largest is None else self._less_lateness(source.largest)
                for name, source in self._sources.items()
                if name != excluded and (self._idle is None or now - source.arrived < self._idle)
            ),
            default=INT64_MAX + 1,
        )

    def _less_lateness(self, time: int) -> int:
        return max(time - self._lateness, INT64_MIN)

    def _count_releasable(self, times: Ints) -> int:
        """Return the number of these sorted times before which no event can come any more."""
        if self.watermark > INT64_MAX:  # past the largest possible time
            return len(times)
        # More events of the watermark's time may come. Numbered by arrival they come later, by a column perhaps before.
        return int(np.searchsorted(times, self.watermark, "left" if self._numbered else "right"))

    @property
    def arrived(self) -> int:
        """Number of events that have arrived, including those that are held back and late ones."""
        return self._arrived

    def _release(self, arrived: EventBatch | None = None) -> EventBatch | None:
        """Return the events that the watermark has passed, of the runs and of ``arrived``."""
        parts = []
        for run in self._runs:
            count = self._count_releasable(run.events.time)
            if count:
                parts.append(run.pop(count))
        self._runs = [run for run in self._runs if len(run)]
        if arrived is not None:
            parts.append(arrived)
        return self._merged(parts)

    def _merged(self, parts: list[EventBatch]) -> EventBatch | None:
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else None
        return self._sorted(EventBatch.concat(parts))

    def _sorted(self, events: EventBatch) -> EventBatch:
        """Sort events into stream order; without a sequence column they must be in order of arrival."""
        time, number = events.time, events.sequence
        if not self._numbered:
            return events if (time[1:] >= time[:-1]).all() else events.take(np.argsort(time, kind="stable"))
        assert number is not None
        in_order = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (number[1:] > number[:-1]))
        return events if in_order.all() else events.take(np.lexsort((number, time)))

    # ------------------------------------------------------------------- snapshots

    def parts(self) -> tuple[dict[str, Any], list[EventBatch], list[EventBatch]]:
        """Return the state for a snapshot: facts for JSON, the runs of held events, and the batches of late events."""
        facts = {
            "watermark": self.watermark,
            "arrived": self._arrived,
            "late": self.late_events,
            "sources": [[name, source.largest] for name, source in self._sources.items()],
        }
        return facts, [run.events for run in self._runs], self._late

    def put(self, facts: dict[str, Any], held: list[EventBatch], late: list[EventBatch], time: int | None) -> None:
        """Restore the state that `parts` returned; every source counts as having arrived just now.

        Parameters
        ----------
        facts, held, late
            Result of `parts`.
        time
            Time of the last event that the engine has processed, ns; None: there is none.

        Raises
        ------
        Misfit
            Held events are out of order, or before that time.
        """
        names = [name for name, _ in facts["sources"]]
        if len(set(names)) < len(names) or len(names) > _MOST_SOURCES:
            expected = f"at most {_MOST_SOURCES}, each once"
            raise Misfit("order.sources", f"{len(names)} of {len(set(names))} names", expected)
        for number, events in enumerate(held):
            if self._sorted(events) is not events or (time is not None and events.time[0] < time):
                problem = f"batch {number} out of order, or before time {time}"
                raise Misfit("table 'held'", problem, "later events in order")
        now = self._clock()
        self.watermark, self._arrived, self.late_events = facts["watermark"], facts["arrived"], facts["late"]
        self._sources = {name: _Source(largest, now) for name, largest in facts["sources"]}
        self._runs, self._late = [_Run(events) for events in held], late

    # -------------------------------------------------------------------- views

    def take_late(self) -> EventBatch | None:
        """Return the late events since the last call, in order of arrival; None if there are none."""
        waiting, self._late = self._late, []
        return EventBatch.concat(waiting) if waiting else None

    def mark_codes(self, marks: npt.NDArray[np.uint8]) -> None:
        """Set ``marks[c]`` for every string code c of a held event, or of a late event that waits."""
        for batch in (*(run.events for run in self._runs), *self._late):
            batch.mark_codes(marks)

    @property
    def may_idle(self) -> bool:
        """True if a source without input becomes idle after some time."""
        return self._idle is not None

    @property
    def held_events(self) -> int:
        """Number of events that are held back."""
        return sum(map(len, self._runs))

    @property
    def late_waiting(self) -> int:
        """Number of late events that wait for `take_late`."""
        return sum(map(len, self._late))

    @property
    def nbytes(self) -> int:
        """Bytes of held events and of waiting late events."""
        return sum(run.nbytes for run in self._runs) + sum(batch.nbytes for batch in self._late)
