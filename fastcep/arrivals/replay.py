"""Replay a stream at a rate, on either clock, and measure the latencies of its events.

On the wall clock, a thread generates blocks in advance and puts them into an `InputQueue` with their nominal arrival
times, from which latencies are measured. If that thread is late although the queue has room, the replay itself is at
fault: this is a *stall*. The events then arrive when they are put, and are excluded from the results. On the virtual
clock there is one thread: the engine gets blocks with their arrival times, and the number of later events that wait.
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
    from fastcep.engine.results.matches import Matches

__all__ = ["Replay", "Stalls", "replay"]

#: Blocks generated in advance on the virtual clock; the end of the stream in them limits the queue length.
_DEPTH = 8

#: Time between the start of a run on the wall clock and its first event, in ns; the queue is filled in this time.
_LEAD = 20_000_000

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Stalls:
    """Delays caused by the replay itself. Times are in ns.

    Attributes
    ----------
    count
        Number of parts of blocks that were put too late although the queue had room.
    total, longest
        Total and maximum delay of the first event of each part.
    events
        Number of events that arrived late for this reason; `Replay.counted` excludes them.
    """

    count: int = 0
    total: int = 0
    longest: int = 0
    events: int = 0


@dataclass(frozen=True)
class Replay:
    """Result of a replay. Latencies are in ns.

    Attributes
    ----------
    clock
        ``virtual`` or ``wall``.
    rate
        Nominal arrival rate.
    maximum
        Maximum throughput without shedding in events per second, if the caller passed it.
    events, matches
        Numbers of events and matches.
    seconds
        Time from the arrival of the first event until the last one was processed, on the engine's clock.
    bound
        Latency bound; None without one.
    counted
        Number of events that the next five attributes cover: without the skipped share, and without stalled events.
    over
        Number of counted events with an event latency above the bound.
    mean_processing, mean_event
        Mean latencies, without and with the time in the queue.
    longest_processing, longest_event
        Maximum latencies, without and with the time in the queue.
    event_latency
        Event latency of all recorded events, see ``Engine.metrics()["shedding"]``.
    shedder
        Name of the shedder; None without one.
    fired
        Whether any shedding occurred.
    longest_queue
        Maximum queue length; on the wall clock, sampled when the engine took events.
    stalls
        Delays caused by the replay; none on the virtual clock.
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
        """Events per second that the engine processed."""
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def share_over_bound(self) -> float:
        """Share of the counted events with an event latency above the bound; 0.0 without a bound."""
        return self.over / self.counted if self.counted else 0.0

    def check(self) -> Replay:
        """Return the result if it is meaningful.

        Raises
        ------
        ValidationError
            If there is a shedder but nothing was shed: the run does not measure the shedder.
        """
        if self.shedder is None or self.fired:
            return self
        maximum = "" if self.maximum is None else f", {self.maximum:,.0f} at most without shedding"
        bound = "" if self.bound is None else f" of latency_bound={self.bound:,.0f} ns"
        raise ValidationError(
            f"a replay with shedder={self.shedder!r} never shed, so it does not measure the shedder: at "
            f"{self.rate.mean:,.0f} events/s ({self.reached:,.0f} reached{maximum}) the longest event latency was "
            f"{self.longest_event:,.0f} ns{bound}; use a rate above the maximum (fastcep.maximum_rate), a smaller "
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
    """Replay the events of a source at a rate, and measure their latencies.

    The engine is not flushed, and may be used before and after.

    Parameters
    ----------
    engine
        Engine with a latency bound or a virtual clock.
    source
        Iterable of batches, which may be generated on the fly; or a single batch.
    rate
        Events per second, or a profile. To set it relative to the maximum throughput: ``1.2 * maximum_rate(…)``.
    events
        Maximum number of events. None: all; the total is known for a list, and for a source with an attribute
        ``events``.
    skip
        Share of the events at the start that `Replay.counted` excludes as warm-up.
    maximum
        Result of `maximum_rate`, for reports.
    collect
        Function that receives the matches of each call. The wall clock is stopped while it runs.
    capacity, stretch
        Capacity of the input queue on the wall clock, and maximum number of events per call of the engine. The
        capacity must exceed the queue length at which the latency bound is reached: events that wait for room are
        counted, but put late.
    must_shed
        Raise an error if there is a shedder and nothing was shed, see `Replay.check`.

    Raises
    ------
    ValidationError
        If the engine measures no latencies; if an option is wrong; if ``skip`` is given and the number of events is
        unknown; if the source has events of undeclared types that the schema ignores; if nothing was shed although
        ``must_shed`` is set.
    """
    control = control_of(engine)
    if control is None:
        raise ValidationError(
            "a replay needs an engine that measures latencies: Engine(…, latency_bound='…'), or clock='virtual'"
        )
    profile = rate if isinstance(rate, Rate) else Rate.constant(rate)
    virtual = isinstance(control.clock, VirtualClock)
    blocks = Prefetch(source, events, _DEPTH if virtual else 1)
    clock = control.clock if isinstance(control.clock, WallClock) else None
    tally = ReplayStats(_skipped(skip, blocks.total), control.bound, collect, clock)
    episodes, fired = control.episodes.count, control.episodes.active
    with _listening(control, tally):
        if virtual:
            stalls = Stalls()
            seconds, longest = _replay_virtual(engine, control, blocks, profile, tally)
        else:
            queue = _ReplayQueue(engine, capacity, stretch, blocks, profile, tally)
            seconds, longest, stalls = _replay_wall(queue), queue.metrics()["longest"], queue.stalls
    metrics = engine.metrics()
    result = Replay(
        clock="virtual" if virtual else "wall", rate=profile, maximum=maximum,
        events=tally.events, matches=tally.matches, seconds=seconds, bound=control.bound, **tally.results(),
        event_latency=metrics["shedding"]["event_latency"],
        shedder=None if control.shedder is None else control.shedder.name,
        fired=fired or control.episodes.count > episodes,
        longest_queue=longest, stalls=stalls, metrics=metrics,
    )  # fmt: skip
    return result.check() if must_shed else result


def _skipped(skip: float, total: int | None) -> int:
    """Return the number of events to skip as warm-up."""
    if not 0 <= skip < 1:
        raise ValidationError(f"skip={skip}: expected a share of the events, from 0 to below 1")
    if skip and total is None:
        raise ValidationError(f"skip={skip} needs the number of events: pass events=…")
    return ceil(skip * total) if total is not None else 0


# ------------------------------------------------------------------------------------------------------------- clocks


def _replay_virtual(
    engine: Engine, control: Control, blocks: Prefetch, rate: Rate, tally: ReplayStats
) -> tuple[float, int]:
    """Run on the virtual clock; return the seconds that it took, and the maximum queue length."""
    start, put, longest, arrived = control.clock.now(), 0, 0, ArrivalCounter(rate)

    def waiting(now: int) -> int:
        return max(0, blocks.limited(arrived(now - start)) - put)

    def watch(first: int, event: Floats) -> None:
        nonlocal longest
        ends = rate.arrivals(first, len(event)) + np.floor(event).astype(np.int64)
        arrived_events = rate.arrived(ends) if blocks.total is None else np.minimum(rate.arrived(ends), blocks.total)
        waiting_events = arrived_events - np.arange(first + 1, first + len(event) + 1)
        longest = max(longest, int(waiting_events.max(initial=0)))

    tally.watch = watch
    previous, control.waiting = control.waiting, waiting
    try:
        for table in blocks:
            first, put = put, put + len(table)
            arrivals = start + rate.arrivals(first, len(table))
            tally.take(engine.process(table, origin="source", first_row=first, arrivals=arrivals))
            _check_declared(tally.events, put)
    finally:
        control.waiting = previous
    return (control.clock.now() - start) / 1e9, longest


def _replay_wall(queue: _ReplayQueue) -> float:
    """Run on the wall clock; return the seconds that it took."""
    queue.engine.compile()
    queue.blocks.fill()
    queue.start = queue.clock.now() + _LEAD
    producer = Thread(target=_produce, args=(queue,), name="fastcep-replay", daemon=True)
    producer.start()
    try:
        for matches in queue.run():
            queue.tally.take(matches)
            _check_declared(queue.tally.events, queue.metrics()["taken"])
    finally:
        queue.close()
        producer.join()
    return (queue.clock.now() - queue.start) / 1e9


def _produce(queue: _ReplayQueue) -> None:
    put = 0
    try:
        for table in queue.blocks:
            queue.put(table, queue.start + queue.rate.arrivals(put, len(table)))
            put += len(table)
    except BaseException as error:  # the consumer raises it, unless it has already closed the queue
        queue.fail(error)
    else:
        queue.close()


def _check_declared(accepted: int, put: int) -> None:
    if accepted != put:
        raise ValidationError(
            f"the engine accepted {accepted:,} of the first {put:,} rows of the source: some have event types that the "
            "schema ignores (other_types); remove them from the source, because a replay counts rows as events"
        )


class _ReplayQueue(InputQueue):
    """Input queue that detects stalls of its producer; its length includes events that wait for room."""

    def __init__(
        self, engine: Engine, capacity: int, stretch: int, blocks: Prefetch, rate: Rate, tally: ReplayStats
    ) -> None:
        super().__init__(engine, capacity, stretch)
        self.blocks, self.rate, self.tally = blocks, rate, tally
        self.stalls = Stalls()
        self.start = 0
        self._arrived = ArrivalCounter(rate)
        self._late_until = 0  # time at which the last late event was put

    def arrived(self, now: int) -> int:
        """Return the number of waiting events according to their nominal arrival times."""
        with self._changed:
            return max(0, self.blocks.limited(self._arrived(now - self.start)) - (self._put - self._waiting))

    def _arrive(self, arrivals: Ints, now: int) -> Ints:
        """Correct the arrival times of late events.

        Events that could have been put in time, because there was room, arrive now. Later events that should have
        arrived before, but waited for room since then, arrive together with them.
        """
        delayed, first, last = np.searchsorted(arrivals, [self._late_until, self._room_since, now]).tolist()
        if not delayed and first >= last:
            return arrivals
        corrected = np.maximum(arrivals, self._late_until)
        if first < last:
            delay = now - int(arrivals[first])
            self.stalls.count += 1
            self.stalls.total += delay
            self.stalls.longest = max(self.stalls.longest, delay)
            corrected[first:last] = now
            self._late_until = now
        for begin, end in ((0, delayed), (max(first, delayed), last)):
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
