"""The nodes of a migration in simulated time (SimPy): upstream, old host, new host, downstream.

::

    upstream ──events──▶ old host ──outputs──▶ downstream
        │                   │ states               ▲
        └────events────▶ new host ──outputs────────┘

The upstream node sends a marker to the old host and from then on its events to the new host (with the parallel track,
to both). The marker is the start of the migration, time 0 of the results: the old host cuts its state and sends it. On
the single track it stops; on the parallel track it goes on until the new host has caught up, or the link fails.

The new host buffers events until the selected states have arrived (or the link has failed) and it has resumed the
operator. Then it works off the buffer. States that arrive later are added. It sends an output for each event, also for
those that the old host has processed; the downstream node takes the first.

Times are integers in units of 1 / bandwidth ns, in which every message takes a whole number of units. So a state that
arrives exactly at the deadline counts, and the states of a plan that fills its capacity arrive in time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from fastcep.events.units import NANOSECONDS
from fastcep.extras import load
from fastcep.migration.states import Ints

__all__ = ["Nodes", "Timing", "Traffic"]

_SECOND = NANOSECONDS["s"]
_MARKER = -1
_WARM_UP = 5  # events before the marker, beyond those that are under way

Process = Generator[Any, Any, None]


@dataclass(frozen=True)
class Timing:
    """Durations in units.

    Attributes
    ----------
    delay
        From the end of sending to the arrival, on every link.
    limit
        From the marker until the link between the hosts fails and the old host is lost; None: never.
    resume
        From the arrival of the selected states until the new host works.
    """

    delay: int
    limit: int | None
    resume: int = 0


@dataclass(frozen=True)
class Traffic:
    """Events, with durations in units: time between two events, of sending one, and of processing one.

    `parallel` is True for the parallel track.
    """

    interval: int
    sending: int
    service: int
    parallel: bool


@dataclass
class Nodes:
    """One run.

    Parameters
    ----------
    sizes
        int64[n]: sizes of the states in bytes, in the order in which they are sent.
    selected
        Number of states at the front that the new host waits for.
    timing, traffic
        Durations; without traffic there are only the two hosts.

    Attributes
    ----------
    arrivals
        For each state that arrived, at the limit at the latest, the time.
    buffered
        Times and numbers of buffered events at the new host, for each change.
    worked
        Events that the new host has processed, and when.
    by_old
        Events that the old host has processed after the marker.
    outputs
        Times at which an output for an event arrived downstream first.
    resumed, caught_up
        When the new host resumed, and when its buffer was empty for the first time after that; None if never.
    """

    sizes: Ints
    selected: int
    timing: Timing
    traffic: Traffic | None = None
    arrivals: list[int] = field(default_factory=list)
    buffered: list[tuple[int, int]] = field(default_factory=list)
    worked: list[tuple[int, int]] = field(default_factory=list)
    by_old: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    resumed: int | None = None
    caught_up: int | None = None

    def run(self) -> Nodes:
        """Run the simulation; return the nodes with their results, whose times begin at the marker.

        It ends at the limit, or when all states have arrived if there is none; with traffic, when the new host has also
        caught up.

        Raises
        ------
        ValidationError
            If SimPy is not installed.
        """
        simpy = load("simpy", "the simulation of a migration")
        self._environment = environment = simpy.Environment(initial_time=0)
        self._start, self._seen, self._old_works = 0, set[int](), True
        self._states = self._link(simpy, self._state_arrives)
        self._cut, self._ready, self._over, self._idle, self._done = (environment.event() for _ in range(5))
        environment.process(self._send_states())
        environment.process(self._fail())
        if self.traffic is None:
            self._cut.succeed()
            environment.run(until=self._over)
            return self
        self._old_inbox, self._new_inbox = simpy.Store(environment), simpy.Store(environment)
        self._to_old = self._link(simpy, self._old_inbox.put)
        self._to_new = self._link(simpy, self._event_arrives)
        self._old_out, self._new_out = (self._link(simpy, self._output_arrives) for _ in range(2))
        for process in (self._upstream, self._old_host, self._new_host, self._watch):
            environment.process(process())
        environment.run(until=self._done)
        self.arrivals = [time - self._start for time in self.arrivals]
        self.outputs = [time - self._start for time in self.outputs]
        self.buffered = [(time - self._start, level) for time, level in self.buffered]
        self.worked = [(number, time - self._start) for number, time in self.worked]
        self.resumed = None if self.resumed is None else self.resumed - self._start
        self.caught_up = None if self.caught_up is None else self.caught_up - self._start
        return self

    def _watch(self) -> Process:
        """End the simulation when the results are complete, and the last outputs have arrived."""
        traffic = self.traffic
        assert traffic is not None
        yield self._over
        if self._ready.triggered:
            yield self._idle
        yield self._environment.timeout(self.timing.delay + traffic.sending + traffic.service + traffic.interval)
        self._done.succeed()

    # ------------------------------------------------------------------ links

    def _link(self, simpy: Any, deliver: Callable[[int], Any]) -> Callable[[int, int], Any]:
        """Return the function that sends a message of a duration; messages are sent and arrive one after another."""
        environment = self._environment
        waiting, under_way = simpy.Store(environment), simpy.Store(environment)

        def send() -> Process:
            while True:
                message, duration = yield waiting.get()
                yield environment.timeout(duration)
                under_way.put((message, environment.now + self.timing.delay))

        def arrive() -> Process:
            while True:
                message, time = yield under_way.get()
                yield environment.timeout(time - environment.now)
                deliver(message)

        environment.process(send())
        environment.process(arrive())
        return lambda message, duration: waiting.put((message, duration))

    def _fail(self) -> Process:
        """Let the link between the hosts fail, after the limit: what arrives at the limit counts."""
        yield self._cut
        if self.timing.limit is None:
            return
        yield self._environment.timeout(self.timing.limit + 1)
        self._old_works = False
        if self.timing.delay <= self.timing.limit and not self._ready.triggered:
            self._ready.succeed()  # the new host continues with the states that it has
        self._over.succeed()

    # ------------------------------------------------------------------ nodes

    def _upstream(self) -> Process:
        traffic = self.traffic
        assert traffic is not None
        under_way = 2 * (self.timing.delay + traffic.sending) + traffic.service
        first = under_way // traffic.interval + _WARM_UP
        for number in count():
            if number == first:
                self._to_old(_MARKER, 0)
            if number >= first:
                self._to_new(number, traffic.sending)
            if number < first or traffic.parallel:
                self._to_old(number, traffic.sending)
            yield self._environment.timeout(traffic.interval)

    def _old_host(self) -> Process:
        traffic = self.traffic
        assert traffic is not None
        while self._old_works:
            number = yield self._old_inbox.get()
            if number == _MARKER:
                self._start = self._environment.now
                self._cut.succeed()
                if not traffic.parallel:
                    return
                continue
            yield self._environment.timeout(traffic.service)
            if self._old_works:
                if self._cut.triggered:
                    self.by_old.append(number)
                self._old_out(number, traffic.sending)

    def _send_states(self) -> Process:
        yield self._cut
        if self.selected == 0:
            self._environment.process(self._ready_without_states())
        for number, size in enumerate(self.sizes.tolist()):
            self._states(number, size * _SECOND)

    def _state_arrives(self, number: int) -> None:
        if self.timing.limit is None or not self._over.triggered:
            self.arrivals.append(self._environment.now)
            if number + 1 == self.selected and not self._ready.triggered:
                self._ready.succeed()
            if number + 1 == len(self.sizes) and self.timing.limit is None:
                self._over.succeed()

    def _ready_without_states(self) -> Process:
        yield self._environment.timeout(self.timing.delay)
        if not self._over.triggered and not self._ready.triggered:
            self._ready.succeed()
        if not len(self.sizes) and self.timing.limit is None:
            self._over.succeed()

    def _event_arrives(self, number: int) -> None:
        self._new_inbox.put(number)
        self._note_buffer()

    def _new_host(self) -> Process:
        traffic = self.traffic
        assert traffic is not None
        yield self._ready
        yield self._environment.timeout(self.timing.resume)
        self.resumed = self._environment.now
        while True:
            if self.caught_up is None and not self._new_inbox.items:
                self.caught_up = self._environment.now
                self._idle.succeed()
                self._environment.process(self._confirm())
            number = yield self._new_inbox.get()
            self._note_buffer()
            yield self._environment.timeout(traffic.service)
            self.worked.append((number, self._environment.now))
            self._new_out(number, traffic.sending)

    def _confirm(self) -> Process:
        """Let the old host stop when it learns that the new host has caught up."""
        yield self._environment.timeout(self.timing.delay)
        self._old_works = False

    def _output_arrives(self, number: int) -> None:
        if number not in self._seen:
            self._seen.add(number)
            self.outputs.append(self._environment.now)

    def _note_buffer(self) -> None:
        self.buffered.append((self._environment.now, len(self._new_inbox.items)))
