"""Out-of-order input: hold events back until nothing earlier can come, and set those aside that come too late.

Held events lie in *runs*: batches sorted by time and sequence number. A new run swallows the runs before it that are
not much larger, so that there are few of them and an event is copied a logarithmic number of times, whatever the size
of the batches. What the watermark has passed is the head of each run.
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

#: The most sources of an engine.
_SOURCES = 4096

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Source:
    """How far an input has come: its largest time (None: no event yet), and when its last batch arrived."""

    largest: int | None
    arrived: int


class _Run:
    """Sorted events of which the head has been released; the memory is given back when half of it is unused."""

    __slots__ = ("_made", "events", "nbytes")

    def __init__(self, events: EventBatch) -> None:
        self.events = events
        self.nbytes = events.nbytes
        self._made = len(events)

    def __len__(self) -> int:
        return len(self.events)

    def pop(self, count: int) -> EventBatch:
        """Take the first `count` events out."""
        head, rest = self.events.slice(0, count), self.events.slice(count, len(self.events))
        if 2 * len(rest) < self._made:
            rest = EventBatch.concat([rest])
            self.nbytes, self._made = rest.nbytes, len(rest)
        self.events = rest
        return head


def make_reorderer(
    schema: Schema,
    allowed_lateness: str | timedelta | None,
    idle_timeout: str | timedelta | None,
    late_limit: int,
    clock: Callable[[], int],
) -> Reorderer | None:
    """Make what an engine's options ask for, None for input in order; ValidationError names a wrong option."""
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
        raise ValidationError("idle_timeout is 0: expected a time in which an input is expected, such as '2s'")
    return Reorderer(schema, lateness, idle=idle, late_limit=late_limit, clock=clock)


class Reorderer:
    """Puts the events of one engine in stream order, (time, sequence number), inside a bound.

    The *watermark* is the largest time seen less `lateness`; with several sources, the smallest of their watermarks.
    It never falls. An event that is older than it when it arrives is late. Where the batches are cut has no influence.

    Parameters
    ----------
    schema
        Of the events. Without a sequence column events are numbered as they arrive, late ones included.
    lateness
        Nanoseconds.
    idle
        Nanoseconds without input after which a source does not hold the watermark back; None: it always does.
    late_limit
        How many late events may wait for `take_late`.
    clock
        Nanoseconds that only grow, for `idle`.

    Attributes
    ----------
    watermark
        No earlier event is taken. INT64_MIN: nothing seen yet.
    late_events
        Late events so far.
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
        """Take a batch.

        Parameters
        ----------
        batch
            In order of arrival. An empty one announces its source, if that has a name: the watermark waits for it.
        origin, first_row
            For messages.
        source
            Which of several inputs it comes from.

        Returns
        -------
        EventBatch or None
            Events that are now known to be next in the stream, in order; None if there are none.

        Raises
        ------
        ValidationError
            If more than `late_limit` late events would wait, or there are too many sources. Nothing is taken then.
        DataError
            If an event has the time and the sequence number of another one. Nothing is taken then.
        """
        now = self._clock()
        self._check_source(source)
        if not len(batch):
            if source is not None:
                self._sources.setdefault(source, _Source(None, now))
            return self._release()  # what was put back
        if batch.sequence is None:
            batch = replace(batch, sequence=np.arange(self._arrived, self._arrived + len(batch)))
        others = min(self._slowest(now, source), INT64_MAX)
        highest = np.maximum.accumulate(batch.time)
        known = self._sources.get(source)
        if known is not None and known.largest is not None:
            np.maximum(highest, known.largest, out=highest)
        line = np.minimum(np.maximum(highest, INT64_MIN + self._lateness) - self._lateness, others)
        late = (batch.time < line) | (batch.time < self.watermark)
        count = int(np.count_nonzero(late))
        self._check_late(count, origin)
        events = batch.take(np.flatnonzero(~late)) if count else batch
        if self._numbered and len(events):
            self._check_twice(events, batch, late, origin, first_row)
        # Nothing is refused from here on.
        self._arrived += len(batch)
        self.late_events += count
        if count:
            self._set_aside(batch.take(np.flatnonzero(late)))
        largest = int(highest[-1])
        self._sources[source] = _Source(largest, now)
        self.watermark = max(self.watermark, min(self._behind(largest), others))
        events = self._sorted(events)
        cut = self._cut(events.time)
        if cut < len(events):
            self._hold(events.slice(cut, len(events)))
        return self._release(events.slice(0, cut))

    def _check_source(self, source: str | None) -> None:
        if source is not None and not isinstance(source, str):
            raise ValidationError(f"source={source!r}: expected a name, or None for the only source")
        if source not in self._sources and len(self._sources) >= _SOURCES:
            raise ValidationError(
                f"source={source!r}: there are {_SOURCES:,} sources already; a source is an input, not an event's key"
            )

    def _check_late(self, count: int, origin: str) -> None:
        waiting = self.late_waiting
        if waiting + count > self._late_limit:
            raise ValidationError(
                f"{origin}: {count:,} late events in this batch and {waiting:,} waiting are more than "
                f"late_limit={self._late_limit:,}; nothing of the batch was taken. Call late() to take those waiting, "
                "hand over smaller batches, or raise late_limit or allowed_lateness"
            )

    def _check_twice(
        self, events: EventBatch, batch: EventBatch, late: npt.NDArray[np.bool_], origin: str, first_row: int
    ) -> None:
        """Refuse an event whose time and number a held one, or one before it in the batch, has too."""
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
        order = np.lexsort((number, time))  # stable: of two equal ones that which came first stands first
        same = (np.diff(time[order]) == 0) & (np.diff(number[order]) == 0)
        if same.any():
            at = int(order[1:][same].min()) - held
            row = first_row + batch.row(int(np.flatnonzero(~late)[at]))
            raise DataError(
                f"{at_row(origin, row)}, column {self._column!r}: found {events.sequence[at]} at the time "
                f"{format_time(int(events.time[at]))} for the second time; give each event its own number"
            )

    def _set_aside(self, events: EventBatch) -> None:
        while self._late and len(self._late[-1]) <= 2 * len(events):
            events = EventBatch.concat([self._late.pop(), events])
        self._late.append(events)

    def _hold(self, events: EventBatch) -> None:
        parts = [events]
        while self._runs and len(self._runs[-1]) <= 2 * sum(map(len, parts)):
            parts.append(self._runs.pop().events)
        events = EventBatch.concat(parts[::-1])  # a copy also of one: the input's memory is the user's
        self._runs.append(_Run(self._sorted(events)))

    # --------------------------------------------------------------- events out

    def advance(self, time: int) -> EventBatch | None:
        """Raise the watermark to `time` and return what it has passed."""
        self.watermark = max(self.watermark, time)
        return self._release()

    def poll(self) -> EventBatch | None:
        """Return what idle sources alone hold back: everything when all of them are idle.

        When all are idle the watermark goes to the largest time seen, and just past it where a sequence column may
        number a later event lower.
        """
        largest = max((known.largest for known in self._sources.values() if known.largest is not None), default=None)
        if largest is None:
            return None
        slowest = self._slowest(self._clock())
        self.watermark = max(self.watermark, min(slowest, largest + self._numbered))
        return self._release()

    def finish(self) -> EventBatch | None:
        """Return everything held."""
        parts = [run.events for run in self._runs]
        self._runs = []
        return self._merged(parts)

    def put_back(self, events: EventBatch) -> None:
        """Hold events again that were given last; those that follow them in the stream come behind them."""
        if len(events):
            self._runs.insert(0, _Run(events))

    def _slowest(self, now: int, but: object = ...) -> int:
        """The smallest watermark of the active sources, but for one; past INT64_MAX if there are none."""
        return min(
            (
                INT64_MIN if known.largest is None else self._behind(known.largest)
                for name, known in self._sources.items()
                if name != but and (self._idle is None or now - known.arrived < self._idle)
            ),
            default=INT64_MAX + 1,
        )

    def _behind(self, time: int) -> int:
        return max(time - self._lateness, INT64_MIN)

    def _cut(self, times: Ints) -> int:
        """How many of these sorted times nothing can come before any more."""
        if self.watermark > INT64_MAX:  # past the largest time there is
            return len(times)
        # At the watermark itself more events may come. By arrival they come after, by a column perhaps before.
        return int(np.searchsorted(times, self.watermark, "left" if self._numbered else "right"))

    def _release(self, fresh: EventBatch | None = None) -> EventBatch | None:
        parts = []
        for run in self._runs:
            cut = self._cut(run.events.time)
            if cut:
                parts.append(run.pop(cut))
        self._runs = [run for run in self._runs if len(run)]
        if fresh is not None:
            parts.append(fresh)
        return self._merged(parts)

    def _merged(self, parts: list[EventBatch]) -> EventBatch | None:
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else None
        return self._sorted(EventBatch.concat(parts))

    def _sorted(self, events: EventBatch) -> EventBatch:
        """Events in stream order; those not numbered by a column must come in order of arrival."""
        time, number = events.time, events.sequence
        if not self._numbered:
            return events if (time[1:] >= time[:-1]).all() else events.take(np.argsort(time, kind="stable"))
        assert number is not None
        right = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (number[1:] > number[:-1]))
        return events if right.all() else events.take(np.lexsort((number, time)))

    # ------------------------------------------------------------------- moving

    def parts(self) -> tuple[dict[str, Any], list[EventBatch], list[EventBatch]]:
        """What a snapshot needs: facts, for JSON; the held events, run by run; the late ones, likewise."""
        facts = {
            "watermark": self.watermark,
            "arrived": self._arrived,
            "late": self.late_events,
            "sources": [[name, known.largest] for name, known in self._sources.items()],
        }
        return facts, [run.events for run in self._runs], self._late

    def put(self, facts: dict[str, Any], held: list[EventBatch], late: list[EventBatch], time: int | None) -> None:
        """Go on from `parts`, behind an event of this time; all sources are taken to have arrived just now.

        Raises
        ------
        Misfit
            Held events are not in order, or come before that event.
        """
        names = [name for name, _ in facts["sources"]]
        if len(set(names)) < len(names) or len(names) > _SOURCES:
            raise Misfit("order.sources", f"{len(names)} of {len(set(names))} names", f"at most {_SOURCES}, each once")
        for number, events in enumerate(held):
            if self._sorted(events) is not events or (time is not None and events.time[0] < time):
                raise Misfit("table 'held'", f"batch {number} out of order, or before time {time}", "what is to come")
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
        """Set ``marks[c]`` for every string code c of an event that is held or waits."""
        for batch in (*(run.events for run in self._runs), *self._late):
            batch.mark_codes(marks)

    @property
    def may_idle(self) -> bool:
        """Whether there is a time after which a source is idle."""
        return self._idle is not None

    @property
    def held_events(self) -> int:
        """Events held back now."""
        return sum(map(len, self._runs))

    @property
    def late_waiting(self) -> int:
        """Late events that wait for `take_late`."""
        return sum(map(len, self._late))

    @property
    def nbytes(self) -> int:
        """Bytes of held and of waiting events."""
        return sum(run.nbytes for run in self._runs) + sum(batch.nbytes for batch in self._late)
