"""Replay a stream at a rate, on either clock, and tell what latencies the events had.

On the wall clock one thread generates blocks ahead and puts them into an `InputQueue` with their nominal arrival times;
latencies count from these. Where that thread is late although the queue has room, it is the replay's own fault, a
*stall*: the events arrive when they are put, and no statement is made of them. On the virtual clock there is one
thread: the engine is given blocks with their arrival times, and is told how many events of later blocks wait by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.arrivals.input_queue import InputQueue, control_of
from fastcep.arrivals.prefetch import Prefetch
from fastcep.arrivals.rate import ArrivalCounter, Rate
from fastcep.arrivals.replay_stats import ReplayStats
from fastcep.errors import ValidationError
from fastcep.overload.clock import VirtualClock, WallClock
from fastcep.overload.control import Control

if TYPE_CHECKING:
    from fastcep.engine.engine import Engine
    from fastcep.engine.matches import Matches

__all__ = ["Replay", "Stalls", "replay"]

#: Blocks that are generated ahead on the virtual clock: where they end, it is known how many events wait at most.
_AHEAD = 8

#: Time between the begin of a wall run and its first event, ns: the queue is filled meanwhile.
_LEAD = 20_000_000

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Stalls:
    """What the replay itself was late with. Times are ns.

    Attributes
    ----------
    count
        Pieces of blocks that were handed over too late with room in the queue.
    total, longest
        How much too late, by the first event.
    events
        That arrived late for this reason; they are not counted in `Replay.counted`.
    """

    count: int = 0
    total: int = 0
    longest: int = 0
    events: int = 0


@dataclass(frozen=True)
class Replay:
    """What came out of a replay. Latencies are in ns.

    Attributes
    ----------
    clock
        ``virtual`` or ``wall``.
    rate
        At which the events were to arrive.
    maximum
        Events per second that the engine reaches without shedding, if it was given.
    events, matches
        How many there were.
    seconds
        From the first event's arrival until the last one was done, on the engine's clock.
    bound
        The latency bound; None for none.
    counted
        Events that the following five are of: those after the share to skip, without those late by a stall.
    over
        How many of them had an event latency above the bound.
    mean_processing, mean_event
        Their mean latencies, the time in the queue excluded and included.
    longest_processing, longest_event
        Their longest ones.
    event_latency
        Of all events that were recorded, see ``Engine.metrics()["shedding"]``.
    shedder
        Its name; None for none.
    fired
        Whether any shedding was ordered.
    longest_queue
        The most events that waited; on the wall clock, when the engine took some.
    stalls
        What the replay was late with; none on the virtual clock.
    metrics
        ``Engine.metrics()`` at the end.
    """

    clock: str
    rate: Rate
    maximum: float | None
    events: int
    matches: int
    seconds: float
    bound: float | None
    counted: int
    over: int
    mean_processing: float
    mean_event: float
    longest_processing: float
    longest_event: float
    event_latency: dict[str, float]
    shedder: str | None
    fired: bool
    longest_queue: int
    stalls: Stalls
    metrics: dict[str, Any] = field(repr=False)

    @property
    def reached(self) -> float:
        """Events per second that were worked off."""
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def share_over_bound(self) -> float:
        """The share of the counted events whose event latency was above the bound; 0.0 without one."""
        return self.over / self.counted if self.counted else 0.0

    def check(self) -> Replay:
        """Return the result, if it is one.

        Raises
        ------
        ValidationError
            If there is a shedder that never had to shed: the run says nothing about it.
        """
        if self.shedder is None or self.fired:
            return self
        known = "" if self.maximum is None else f", {self.maximum:,.0f} at most without shedding"
        bound = "" if self.bound is None else f" of latency_bound={self.bound:,.0f} ns"
        raise ValidationError(
            f"a replay with shedder={self.shedder!r} never shed, so that it says nothing about it: at "
            f"{self.rate.mean:,.0f} events/s ({self.reached:,.0f} reached{known}) the longest event latency was "
            f"{self.longest_event:,.0f} ns{bound}; give a rate above the maximum (fastcep.maximum_rate), a smaller "
            "latency bound, or more events"
        )


def replay(
    engine: Engine,
    source: Any,
    rate: Rate | float,
    *,
    events: int | None = None,
    skip: float = 0.0,
    maximum: float | None = None,
    collect: Callable[[Matches], None] | None = None,
    capacity: int = 1 << 19,
    stretch: int = 4096,
    must_shed: bool = True,
) -> Replay:
    """Let the events of a source arrive at a rate, and measure their latencies.

    The engine is not flushed, and may be used before and after.

    Parameters
    ----------
    engine
        With a latency bound, or a virtual clock.
    source
        An iterable of batches, which may be generated on the fly; or one batch.
    rate
        Events per second, or a profile. It may be relative to what the engine reaches: ``1.2 * maximum_rate(…)``.
    events
        How many to take at most. None: all; how many these are is known of a list, and of a source with an attribute
        ``events``.
    skip
        Share of the events, at the beginning, that is not in `Replay.counted`.
    maximum
        What `maximum_rate` gave, for reports.
    collect
        Is given all matches, call by call. On the wall clock no time passes meanwhile.
    capacity, stretch
        Of the input queue, on the wall clock: how many events are generated ahead. More than may wait within the bound:
        events that wait beyond it are counted, but are put late.
    must_shed
        Whether it is an error if there is a shedder and it never had to shed, see `Replay.check`.

    Raises
    ------
    ValidationError
        If the engine measures no latencies; if an option is wrong; if some are to be skipped of nobody knows how many
        events; if the source has events of types that the schema does not declare, and ignores; if nothing was shed
        where something must be.
    """
    control = control_of(engine)
    if control is None:
        raise ValidationError("a replay measures latencies: Engine(…, latency_bound='…'), or clock='virtual'")
    wanted = rate if isinstance(rate, Rate) else Rate.constant(rate)
    virtual = isinstance(control.clock, VirtualClock)
    blocks = Prefetch(source, events, _AHEAD if virtual else 1)
    clock = control.clock if isinstance(control.clock, WallClock) else None
    tally = ReplayStats(_skipped(skip, blocks.total), control.bound, collect, clock)
    episodes, fired = control.episodes.count, control.episodes.active
    with _listening(control, tally):
        if virtual:
            stalls = Stalls()
            seconds, longest = _replay_virtual(engine, control, blocks, wanted, tally)
        else:
            queue = _ReplayQueue(engine, capacity, stretch, blocks, wanted, tally)
            seconds, longest, stalls = _replay_wall(queue), queue.metrics()["longest"], queue.stalls
    metrics = engine.metrics()
    result = Replay(
        clock="virtual" if virtual else "wall", rate=wanted, maximum=maximum,
        events=tally.events, matches=tally.matches, seconds=seconds, bound=control.bound, **tally.told(),
        event_latency=metrics["shedding"]["event_latency"],
        shedder=None if control.shedder is None else control.shedder.name,
        fired=fired or control.episodes.count > episodes,
        longest_queue=longest, stalls=stalls, metrics=metrics,
    )  # fmt: skip
    return result.check() if must_shed else result


def _skipped(skip: float, total: int | None) -> int:
    """How many events are not counted."""
    if not 0 <= skip < 1:
        raise ValidationError(f"skip={skip}: expected a share of the events, from 0 to below 1")
    if skip and total is None:
        raise ValidationError(f"skip={skip} needs to know how many events there are: give events=…")
    return ceil(skip * total) if total is not None else 0


# ------------------------------------------------------------------------------------------------------------- clocks


def _replay_virtual(
    engine: Engine, control: Control, blocks: Prefetch, rate: Rate, tally: ReplayStats
) -> tuple[float, int]:
    """The seconds that it took, and the longest queue."""
    start, handed, longest, arrived = control.clock.now(), 0, 0, ArrivalCounter(rate)

    def waiting(now: int) -> int:
        return max(0, blocks.limited(arrived(now - start)) - handed)

    def watch(first: int, event: Floats) -> None:
        nonlocal longest
        done = rate.arrivals(first, len(event)) + np.floor(event).astype(np.int64)
        beside = rate.arrived(done) if blocks.total is None else np.minimum(rate.arrived(done), blocks.total)
        longest = max(longest, int((beside - np.arange(first + 1, first + len(event) + 1)).max(initial=0)))

    tally.watch = watch
    before, control.waiting = control.waiting, waiting
    try:
        for table in blocks:
            first, handed = handed, handed + len(table)
            arrivals = start + rate.arrivals(first, len(table))
            tally.take(engine.process(table, origin="source", first_row=first, arrivals=arrivals))
            _check_declared(tally.events, handed)
    finally:
        control.waiting = before
    return (control.clock.now() - start) / 1e9, longest


def _replay_wall(queue: _ReplayQueue) -> float:
    """The seconds that it took."""
    queue.engine.compile()
    queue.blocks.fill()
    queue.start = queue.clock.now() + _LEAD
    producer = Thread(target=_produce, args=(queue,), name="fastcep-replay", daemon=True)
    producer.start()
    try:
        for found in queue.run():
            queue.tally.take(found)
            _check_declared(queue.tally.events, queue.metrics()["taken"])
    finally:
        queue.close()
        producer.join()
    return (queue.clock.now() - queue.start) / 1e9


def _produce(queue: _ReplayQueue) -> None:
    handed = 0
    try:
        for table in queue.blocks:
            queue.put(table, queue.start + queue.rate.arrivals(handed, len(table)))
            handed += len(table)
    except BaseException as error:  # the consumer raises it; if it has closed the queue itself, nobody does
        queue.fail(error)
    else:
        queue.close()


def _check_declared(taken: int, handed: int) -> None:
    if taken != handed:
        raise ValidationError(
            f"of the first {handed:,} rows of the source the engine took {taken:,}: there are events of types that the "
            "schema ignores (other_types); leave them out of the source, as what is replayed is rows"
        )


class _ReplayQueue(InputQueue):
    """Finds out where its producer is late, and counts what waits in front of it for room, too."""

    def __init__(
        self, engine: Engine, capacity: int, stretch: int, blocks: Prefetch, rate: Rate, tally: ReplayStats
    ) -> None:
        super().__init__(engine, capacity, stretch)
        self.blocks, self.rate, self.tally = blocks, rate, tally
        self.stalls = Stalls()
        self.start = 0
        self._arrived = ArrivalCounter(rate)
        self._late_until = 0  # when the last event was put that was late

    def arrived(self, now: int) -> int:
        """By the nominal times, how many events wait."""
        with self._changed:
            return max(0, self.blocks.limited(self._arrived(now - self.start)) - (self._put - self._waiting))

    def _arrive(self, arrivals: Ints, now: int) -> Ints:
        """Events that could have been put in time, as there was room, arrive only now.

        Those behind that were to arrive before that arrive with them, if they had to wait for room since.
        """
        behind, first, last = np.searchsorted(arrivals, [self._late_until, self._room_since, now]).tolist()
        if not behind and first >= last:
            return arrivals
        corrected = np.maximum(arrivals, self._late_until)
        if first < last:
            late = now - int(arrivals[first])
            own = self.stalls
            own.count, own.total, own.longest = own.count + 1, own.total + late, max(own.longest, late)
            corrected[first:last] = now
            self._late_until = now
        for begin, end in ((0, behind), (max(first, behind), last)):
            if begin < end:
                self.stalls.events += end - begin
                self.tally.late.append((self._put + begin, self._put + end))
        return corrected


@contextmanager
def _listening(control: Control, tally: ReplayStats) -> Iterator[None]:
    control.listeners.append(tally)
    try:
        yield
    finally:
        control.listeners.remove(tally)
