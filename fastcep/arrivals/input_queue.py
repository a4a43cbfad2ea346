"""A bounded queue in front of an engine: producers put batches, the consumer takes what has arrived.

In it are blocks, record batches with an arrival time per event; they are cut and joined as views where Arrow can, so
that no Python runs per event.
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
    from fastcep.engine.matches import Matches

__all__ = ["InputQueue", "control_of"]

Ints = npt.NDArray[np.int64]

#: The longest sleep before an arrival, and the time before it that is not slept, as a sleep ends late.
_NAP, _SPIN = 1_000_000, 50_000


@dataclass(slots=True)
class _Block:
    events: pa.RecordBatch
    arrivals: Ints

    def arrived(self, now: int) -> int:
        """How many events have arrived by now."""
        if int(self.arrivals[-1]) <= now:
            return len(self.arrivals)
        return int(np.searchsorted(self.arrivals, now, side="right"))

    def cut(self, count: int) -> _Block:
        """Take the first events out of it."""
        first = _Block(self.events.slice(0, count), self.arrivals[:count])
        self.events, self.arrivals = self.events.slice(count), self.arrivals[count:]
        return first


class InputQueue:
    """A bounded queue of events in front of an engine, on the wall clock.

    Any number of threads :meth:`put` batches, and wait while there is no room; one thread goes through :meth:`run`.
    What an event waits in the queue is part of its event latency, and the engine's detectors see how many wait.

    Parameters
    ----------
    engine
        Takes the events, and must not be given others meanwhile.
    capacity
        How many events may wait.
    stretch
        How many events the engine is given at once, at most.

    Attributes
    ----------
    engine
        The same.
    clock
        On which arrivals are: the engine's.

    Raises
    ------
    ValidationError
        If an option is wrong; if the engine's clock is the virtual one, or it has a latency bound together with an
        ``allowed_lateness``.

    Notes
    -----
    Batches are not copied: what is put must not be changed any more.
    """

    def __init__(self, engine: Engine, capacity: int = 65_536, stretch: int = 4096) -> None:
        for name, value in (("capacity", capacity), ("stretch", stretch)):
            if value < 1:
                raise ValidationError(f"{name}={value}: expected at least 1")
        self._control = control_of(engine)
        if self._control is not None and isinstance(self._control.clock, VirtualClock):
            raise ValidationError(
                "a queue is for the wall clock, and the engine has clock='virtual': there process(…, arrivals=…) says "
                "when events arrive; fastcep.replay does it"
            )
        self.engine, self._capacity, self._stretch = engine, capacity, stretch
        self.clock = WallClock() if self._control is None else self._control.clock
        self._changed = Condition()
        self._blocks: deque[_Block] = deque()
        self._line: deque[object] = deque()  # the calls of put, in the order that they came in
        self._closed = self._runs = False
        self._error: BaseException | None = None
        self._last = -(2**63)  # arrival of the last event, as it was given
        self._room_since = self.clock.now()
        self._waiting = self._put = self._longest = self._waits = self._waited = 0

    # ---------------------------------------------------------------- producers

    def put(self, batch: Any, arrivals: npt.ArrayLike | None = None, timeout: str | timedelta | None = None) -> None:
        """Add events; wait while there is no room.

        A batch may be taken in several pieces, as room comes. Calls of several threads are served in their order, one
        after the other.

        Parameters
        ----------
        batch
            Whatever `Engine.process` takes. Whether it fits the schema turns out in :meth:`run`.
        arrivals
            When each event arrived, int64[n], ns on the engine's clock, ascending, over calls too; one in the future
            is not taken before. None: now, when the call begins.
        timeout
            How long to wait for room, such as ``"2s"``; None: until there is some.

        Raises
        ------
        QueueFullError
            If there is no room in time. Its ``taken`` says how many events of the batch are in the queue, from the
            first one on.
        ValidationError
            If the queue is closed, or gets closed meanwhile; if `arrivals` are wrong. The message says how many
            events were taken; none, where it does not.
        """
        table = as_table(batch, "queue")
        times = None if arrivals is None else arrival_times(arrivals, len(table))
        deadline = None if timeout is None else monotonic_ns() + parse_duration(timeout)
        with self._changed:
            self._check_open(0, len(table))
            begun, me = self.clock.now(), object()
            self._line.append(me)
            try:
                self._wait(me, 0, len(table), deadline, needs_room=False)
                if times is None:
                    times = np.full(len(table), max(begun, self._last))
                elif len(times) and int(times[0]) < self._last:
                    raise ValidationError(
                        f"arrivals: the batch begins at {int(times[0])} ns, before the last event that was put "
                        f"({self._last} ns); put batches in the order in which they arrived, or leave out arrivals"
                    )
                self._enqueue(me, table, times, deadline)
            finally:
                self._line.remove(me)
                self._changed.notify_all()

    def close(self) -> None:
        """Say that no more comes: :meth:`run` ends when all is taken; calls of :meth:`put` that wait are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Close the queue because of an error, which :meth:`run` raises when all that was put before is taken."""
        with self._changed:
            self._error = self._error or error
            self.close()

    def _enqueue(self, me: object, table: pa.Table, times: Ints, deadline: int | None) -> None:
        """Put a batch as room comes."""
        done = 0
        for events in table.to_batches():
            while len(events):
                self._wait(me, done, len(table), deadline, needs_room=True)
                size = min(len(events), self._capacity - self._waiting)
                arrivals = self._arrive(times[done : done + size], self.clock.now())
                self._blocks.append(_Block(events.slice(0, size), arrivals))
                self._last = int(times[done + size - 1])
                self._waiting += size
                self._put += size
                done += size
                events = events.slice(size)
                self._changed.notify_all()

    def _arrive(self, arrivals: Ints, now: int) -> Ints:
        """The arrival times with which the next events come into the queue; a replay corrects them."""
        return arrivals

    def _wait(self, me: object, done: int, size: int, deadline: int | None, *, needs_room: bool) -> None:
        """Wait for one's turn, and for room, until the deadline (ns of `monotonic_ns`)."""

        def may_go() -> bool:
            free = self._waiting < self._capacity or not needs_room
            return self._closed or (self._line[0] is me and free)

        if not may_go():
            began = monotonic_ns()
            self._changed.wait_for(may_go, None if deadline is None else max(0, deadline - began) / 1e9)
            self._waits += 1
            self._waited += monotonic_ns() - began
        self._check_open(done, size)
        if not may_go():
            raise QueueFullError(
                f"the queue has no room, and the timeout is over: {self._waiting:,} events wait, "
                f"capacity={self._capacity:,}, and {done:,} of the {size:,} events of the batch are in it",
                "put the others again later, or give a longer timeout or a larger capacity", done,
            )  # fmt: skip

    def _check_open(self, done: int, size: int) -> None:
        if self._closed:
            why = "" if self._error is None else f" after an error ({self._error!r})"
            raise ValidationError(
                f"the queue was closed{why}: {done:,} of the {size:,} events of the batch are in it; "
                "make a new InputQueue for more"
            )

    # ----------------------------------------------------------------- consumer

    def run(self) -> Iterator[Matches]:
        """Take what arrives until the queue is closed and empty; the engine is not flushed.

        Yields
        ------
        Matches
            Of each call of `Engine.process`, also when there are none. What is done between two steps is time that
            events wait.

        Raises
        ------
        ValidationError
            If another call of it is running.
        BaseException
            What was given to :meth:`fail`. What the engine raises, too: the events that it was given then, at most
            `stretch`, are no longer in the queue, and another :meth:`run` goes on behind them.
        """
        with self._changed:
            if self._runs:
                raise ValidationError("the queue runs already; one consumer takes all events")
            self._runs = True
        control, before = self._control, None if self._control is None else self._control.waiting
        if control is not None:
            control.waiting = self.arrived
        try:
            for events, arrivals, first in iter(self._take, None):
                yield self.engine.process(
                    events, origin="queue", first_row=first, arrivals=None if control is None else arrivals
                )
        finally:
            self._runs = False
            if control is not None:
                control.waiting = before

    def arrived(self, now: int) -> int:
        """How many events wait that have arrived by ``now``, ns on the engine's clock."""
        with self._changed:
            future = 0
            for block in reversed(self._blocks):
                inside = block.arrived(now)
                future += len(block.arrivals) - inside
                if inside:
                    break
            return self._waiting - future

    def metrics(self) -> dict[str, int]:
        """Counters and gauges.

        Returns
        -------
        dict
            ``waiting`` events, those that arrive in the future included; ``capacity``; ``put`` and ``taken``, events
            so far; ``longest``, the most that had arrived and waited when the engine took some; ``waits`` and
            ``waited_ns``, how often and for how long producers waited for room or for each other.
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
        """The next events that have arrived, their arrivals, and how many were taken before; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._closed)
            if not self._blocks:
                if self._error is not None:
                    raise self._error
                return None
            due = int(self._blocks[0].arrivals[0])
        _wait_until(due, self.clock.now)  # nobody else takes events, so that these stay the next ones
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
        """Take events of one Arrow schema, as many as have arrived and one stretch has."""
        parts: list[_Block] = []
        rest = self._stretch
        while rest and self._blocks:
            block = self._blocks[0]
            count = min(rest, block.arrived(now))
            if not count or (parts and not parts[0].events.schema.equals(block.events.schema)):
                break
            parts.append(self._blocks.popleft() if count == len(block.arrivals) else block.cut(count))
            rest -= count
        return parts


def control_of(engine: Engine) -> Control | None:
    """What measures an engine's latencies, None without; ValidationError if it cannot know when events arrived."""
    control = engine._stream.queries.control
    if control is not None and engine._stream.reorder is not None:
        raise ValidationError(
            "the engine measures latencies and has allowed_lateness: of events that were held back it does not know "
            "when they arrived; give it events in order, or no latency bound"
        )
    return control


def _wait_until(time: int, now: Callable[[], int]) -> None:
    while (rest := time - now()) > 0:
        if rest > _SPIN:
            sleep(min(rest - _SPIN, _NAP) / 1e9)
