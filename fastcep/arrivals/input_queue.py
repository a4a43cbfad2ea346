"""Bounded queue in front of an engine: producers put batches, the consumer takes the events that have arrived.

The queue holds blocks: record batches with an arrival time per event. Blocks are sliced and concatenated as Arrow
views, without Python code per event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from threading import Condition
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import QueueFullError, ValidationError
from fastcep.events import parse_duration
from fastcep.events.batch import as_table
from fastcep.overload.clock import VirtualClock, WallClock
from fastcep.overload.control import Control
from fastcep.overload.options import arrival_times

if TYPE_CHECKING:
    from fastcep.engine.engine import Engine
    from fastcep.engine.results.matches import Matches

__all__ = ["InputQueue", "control_of"]

Ints = npt.NDArray[np.int64]

#: Maximum length of a sleep, and time before an arrival that is spent spinning because a sleep ends late; ns.
_MAX_SLEEP, _SPIN = 1_000_000, 50_000


@dataclass(slots=True)
class _Block:
    events: pa.RecordBatch
    arrivals: Ints

    def arrived(self, now: int) -> int:
        """Return the number of events that have arrived by ``now``."""
        if int(self.arrivals[-1]) <= now:
            return len(self.arrivals)
        return int(np.searchsorted(self.arrivals, now, side="right"))

    def cut(self, count: int) -> _Block:
        """Remove the first ``count`` events and return them as a block."""
        first = _Block(self.events.slice(0, count), self.arrivals[:count])
        self.events, self.arrivals = self.events.slice(count), self.arrivals[count:]
        return first


class InputQueue:
    """Bounded queue of events in front of an engine, on the wall clock.

    Any number of threads :meth:`put` batches, and block while the queue is full; one thread iterates over :meth:`run`.
    The time that an event waits in the queue is part of its event latency, and the engine's detectors see the queue
    length.

    Parameters
    ----------
    engine
        Engine that processes the events; it must not get events from elsewhere while the queue runs.
    capacity
        Maximum number of waiting events.
    stretch
        Maximum number of events per call of the engine.

    Attributes
    ----------
    engine
        Engine that processes the events.
    clock
        Clock of the engine; arrival times refer to it.

    Raises
    ------
    ValidationError
        If an option is wrong, if the engine has a virtual clock, or if it has both a latency bound and an
        ``allowed_lateness``.

    Notes
    -----
    Batches are not copied: do not modify a batch after putting it.
    """

    def __init__(self, engine: Engine, capacity: int = 65_536, stretch: int = 4096) -> None:
        for name, value in (("capacity", capacity), ("stretch", stretch)):
            if value < 1:
                raise ValidationError(f"{name}={value}: expected at least 1")
        self._control = control_of(engine)
        if self._control is not None and isinstance(self._control.clock, VirtualClock):
            raise ValidationError(
                "a queue needs the wall clock, and the engine has clock='virtual': pass arrival times with "
                "process(…, arrivals=…), or use fastcep.replay"
            )
        self.engine: Engine = engine
        self._capacity, self._stretch = capacity, stretch
        self.clock: WallClock | VirtualClock = WallClock() if self._control is None else self._control.clock
        self._changed = Condition()
        self._blocks: deque[_Block] = deque()
        self._line: deque[object] = deque()  # calls of put, in order
        self._closed = self._running = False
        self._error: BaseException | None = None
        self._last = -(2**63)  # arrival time of the last event, uncorrected
        self._room_since = self.clock.now()
        self._waiting = self._put = self._longest = self._waits = self._waited = 0

    # ---------------------------------------------------------------- producers

    def put(self, batch: Any, arrivals: npt.ArrayLike | None = None, timeout: str | timedelta | None = None) -> None:
        """Add events; block while the queue is full.

        A batch may enter the queue in several parts, as room becomes available. Calls from several threads are served
        one at a time, in order.

        Parameters
        ----------
        batch
            Any input of `Engine.process`. :meth:`run` checks it against the schema.
        arrivals
            Arrival time of each event, int64[n], in ns on the engine's clock, ascending, also across calls. An event
            with a time in the future is not processed before. None: the time of the call.
        timeout
            Maximum time to wait for room, such as ``"2s"``; None: no limit.

        Raises
        ------
        QueueFullError
            If there is no room in time. Its ``taken`` is the number of events, from the first of the batch, that are
            in the queue.
        ValidationError
            If the queue is closed before or during the call, or `arrivals` are wrong. The message contains the
            number of events that are in the queue; if it contains none, it is 0.
        """
        table = as_table(batch, "queue")
        times = None if arrivals is None else arrival_times(arrivals, len(table))
        deadline = None if timeout is None else monotonic_ns() + parse_duration(timeout)
        with self._changed:
            self._check_open(0, len(table))
            start, ticket = self.clock.now(), object()
            self._line.append(ticket)
            try:
                self._wait(ticket, 0, len(table), deadline, needs_room=False)
                if times is None:
                    times = np.full(len(table), max(start, self._last))
                elif len(times) and int(times[0]) < self._last:
                    raise ValidationError(
                        f"arrivals: the batch begins at {int(times[0])} ns, before the last event that was put "
                        f"({self._last} ns); put batches in the order of arrival, or omit arrivals"
                    )
                self._enqueue(ticket, table, times, deadline)
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()

    def close(self) -> None:
        """Close the queue: :meth:`run` ends when it is empty, and waiting calls of :meth:`put` raise an error."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Close the queue because of an error; :meth:`run` raises the error after all events in the queue."""
        with self._changed:
            self._error = self._error or error
            self.close()

    def _enqueue(self, ticket: object, table: pa.Table, times: Ints, deadline: int | None) -> None:
        """Put a batch in parts, as room becomes available."""
        queued = 0
        for events in table.to_batches():
            while len(events):
                self._wait(ticket, queued, len(table), deadline, needs_room=True)
                size = min(len(events), self._capacity - self._waiting)
                arrivals = self._arrive(times[queued : queued + size], self.clock.now())
                self._blocks.append(_Block(events.slice(0, size), arrivals))
                self._last = int(times[queued + size - 1])
                self._waiting += size
                self._put += size
                queued += size
                events = events.slice(size)
                self._changed.notify_all()

    def _arrive(self, arrivals: Ints, now: int) -> Ints:
        """Return the arrival times of the next events that enter the queue; overridden by a replay to correct them."""
        return arrivals

    def _wait(self, ticket: object, queued: int, size: int, deadline: int | None, *, needs_room: bool) -> None:
        """Wait for this call's turn, and for room, until the deadline (ns of `monotonic_ns`)."""

        def is_ready() -> bool:
            free = self._waiting < self._capacity or not needs_room
            return self._closed or (self._line[0] is ticket and free)

        if not is_ready():
            start = monotonic_ns()
            self._changed.wait_for(is_ready, None if deadline is None else max(0, deadline - start) / 1e9)
            self._waits += 1
            self._waited += monotonic_ns() - start
        self._check_open(queued, size)
        if not is_ready():
            raise QueueFullError(
                f"the queue is full after the timeout: {self._waiting:,} events wait, "
                f"capacity={self._capacity:,}, and {queued:,} of the {size:,} events of the batch are in it",
                "put the others again later, or use a longer timeout or a larger capacity", queued,
            )  # fmt: skip

    def _check_open(self, queued: int, size: int) -> None:
        if self._closed:
            cause = "" if self._error is None else f" after an error ({self._error!r})"
            raise ValidationError(
                f"the queue was closed{cause}: {queued:,} of the {size:,} events of the batch are in it; "
                "create a new InputQueue for more"
            )

    # ----------------------------------------------------------------- consumer

    def run(self) -> Iterator[Matches]:
        """Process events as they arrive until the queue is closed and empty; the engine is not flushed.

        Yields
        ------
        Matches
            Matches of each call of `Engine.process`, also if there are none. Events wait while the caller works
            between two steps.

        Raises
        ------
        ValidationError
            If another call of this method is running.
        BaseException
            The error that was passed to :meth:`fail`, or an error of the engine. After an error of the engine, the
            events of its call, at most `stretch`, have left the queue; another :meth:`run` continues after them.
        """
        with self._changed:
            if self._running:
                raise ValidationError("the queue is already running; use a single consumer")
            self._running = True
        control, previous = self._control, None if self._control is None else self._control.waiting
        if control is not None:
            control.waiting = self.arrived
        try:
            for events, arrivals, first in iter(self._take, None):
                yield self.engine.process(
                    events, origin="queue", first_row=first, arrivals=None if control is None else arrivals
                )
        finally:
            self._running = False
            if control is not None:
                control.waiting = previous

    def arrived(self, now: int) -> int:
        """Return the number of waiting events that have arrived by ``now``, ns on the engine's clock."""
        with self._changed:
            future = 0
            for block in reversed(self._blocks):
                arrived = block.arrived(now)
                future += len(block.arrivals) - arrived
                if arrived:
                    break
            return self._waiting - future

    def metrics(self) -> dict[str, int]:
        """Return counters and gauges.

        Returns
        -------
        dict
            ``waiting``: events in the queue, including those that arrive in the future; ``capacity``; ``put`` and
            ``taken``: events so far; ``longest``: maximum number of arrived, waiting events when the engine took
            some; ``waits`` and ``waited_ns``: number and total time of the waits of producers, for room or for each
            other.
        """
        with self._changed:
            return {
                "waiting": self._waiting,
                "capacity": self._capacity,
                "put": self._put,
                "taken": self._put - self._waiting,
                "longest": self._longest,
                "waits": self._waits,
                "waited_ns": self._waited,
            }

    def _take(self) -> tuple[pa.Table, Ints, int] | None:
        """Remove the next arrived events; return them, their arrival times, and the number of events taken before.

        Returns None at the end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._closed)
            if not self._blocks:
                if self._error is not None:
                    raise self._error
                return None
            due = int(self._blocks[0].arrivals[0])
        _wait_until(due, self.clock.now)  # there is only one consumer, so these remain the next events
        with self._changed:
            now = self.clock.now()
            self._longest = max(self._longest, self.arrived(now))
            first = self._put - self._waiting
            parts = self._cut(now)
            if self._waiting >= self._capacity:
                self._room_since = now
            self._waiting -= sum(len(part.arrivals) for part in parts)
            self._changed.notify_all()
        arrivals = parts[0].arrivals if len(parts) == 1 else np.concatenate([part.arrivals for part in parts])
        return pa.Table.from_batches([part.events for part in parts]), arrivals, first

    def _cut(self, now: int) -> list[_Block]:
        """Remove arrived events of one Arrow schema from the queue, at most one stretch."""
        parts: list[_Block] = []
        remaining = self._stretch
        while remaining and self._blocks:
            block = self._blocks[0]
            count = min(remaining, block.arrived(now))
            if not count or (parts and not parts[0].events.schema.equals(block.events.schema)):
                break
            parts.append(self._blocks.popleft() if count == len(block.arrivals) else block.cut(count))
            remaining -= count
        return parts


def control_of(engine: Engine) -> Control | None:
    """Return the latency control of an engine, None without one; ValidationError if arrival times would be lost."""
    control = engine._stream.queries.control
    if control is not None and engine._stream.reorder is not None:
        raise ValidationError(
            "the engine measures latencies and has allowed_lateness, but it does not keep the arrival times of held "
            "events; pass events in order without allowed_lateness, or omit the latency bound"
        )
    return control


def _wait_until(time: int, now: Callable[[], int]) -> None:
    while (remaining := time - now()) > 0:
        if remaining > _SPIN:
            sleep(min(remaining - _SPIN, _MAX_SLEEP) / 1e9)
