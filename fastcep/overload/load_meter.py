"""Measurements of the engine between two decisions."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import TYPE_CHECKING, Any

from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import Load
from fastcep.overload.offered_load import OfferedLoad
from fastcep.stored import AMOUNT, COUNT, INT64, anything, or_null, sequence

if TYPE_CHECKING:
    from fastcep.overload.query_shedding import QueryShedding

__all__ = ["LoadMeter"]

_STATE = sequence(
    COUNT, AMOUNT, or_null(INT64), or_null(INT64), AMOUNT, or_null(INT64), anything, sequence(COUNT, COUNT),
    sequence(AMOUNT, AMOUNT), or_null(AMOUNT), optional=1,
)  # fmt: skip


class LoadMeter:
    """Measurements since the last decision, and the offered load over several decisions. Times are ns.

    Parameters
    ----------
    bound
        Latency bound; 0 for none.
    monitor
        Latencies of the engine.

    Attributes
    ----------
    events, spent
        Number of events since the last decision, and the time that the engine took for them.
    last_time
        Event time of the last one.
    first_arrival, last_arrival
        Arrival times of the first and last of these events; None if unknown.
    waited
        Time that the last event waited in the queue.
    at_once
        Whether demands take effect at once, see `Load.at_once`.
    """

    def __init__(self, bound: float, monitor: LatencyMonitor) -> None:
        self._bound, self._monitor = bound, monitor
        self.events, self.spent = 0, 0.0
        self.last_time, self.waited, self.at_once = 0, 0.0, False
        self.first_arrival: int | None = None
        self.last_arrival: int | None = None
        self._busy, self._ended = 0.0, 0
        self._began: int | None = None  #: event time at the last decision, or of the first event
        self._arrived: int | None = None  #: arrival time of the last event before the last decision
        self._decided: float | None = None  #: when the engine began with that event
        self._typical = (0.0, 0.0)  #: number of events and time passed, about a window of them
        self._offered = OfferedLoad(bound)
        self._latency_counts = (0, 0)

    def add(self, number: int, spent: float, times: tuple[int, int], arrivals: tuple[int, int] | None) -> None:
        """Record a stretch of events; ``times`` and ``arrivals`` are those of its first and last event."""
        self._began = times[0] if self._began is None else self._began
        self.last_time = times[1]
        if arrivals is not None:
            if self.first_arrival is None:
                self.first_arrival = arrivals[0]
            self.last_arrival = arrivals[1]
        self.events += number
        # Times are whole picoseconds. Rounded to them, the sum does not depend on where signal checks divide a stretch.
        self.spent = round((self.spent + spent) * 1000) / 1000

    def record_busy(self, now: int, arrival: int, began: int) -> None:
        """Record on the wall clock that a stretch ended ``now``.

        The engine was busy since the previous stretch ended or the first event arrived, whichever is later; for the
        first stretch, since it ``began`` or the event arrived.
        """
        self._busy += now - max(self._ended or began, arrival)
        self._ended = now

    @property
    def passed(self) -> int:
        """Event time that passed since the last decision."""
        return 0 if self._began is None else self.last_time - self._began

    @property
    def per_event(self) -> float:
        """Mean processing latency of the events since the last decision."""
        return self.spent / self.events

    @property
    def busy_time(self) -> float:
        """Time that the engine was busy since the last decision; on the virtual clock, only with matching."""
        return self._busy or self.spent

    @property
    def elapsed(self) -> float:
        """Time since the engine began with the last event before the last decision; without arrivals, the busy time."""
        if self.last_arrival is None or self._decided is None:
            return self.busy_time
        return max(self.busy_time, self.last_arrival + self.waited - self._decided)

    @property
    def wait_growth(self) -> float:
        """By how much longer the last event waited than the last one before the last decision; 0 if unknown."""
        if self._arrived is None:
            return self.waited
        return 0.0 if self._decided is None else self.waited - (self._decided - self._arrived)

    def busy(self, last_cost: float) -> float:
        """Return the time per event that the engine was busy, including the cost of the last decision."""
        return (self._busy or self.spent + last_cost) / self.events

    def measure(self, queries: Sequence[QueryShedding], last_cost: float, saved: float) -> Load:
        """Return the measurements at a decision; queue and memory are not included.

        Parameters
        ----------
        queries
            Queries under control.
        last_cost
            Cost of the last decision.
        saved
            Share of the work that was saved since the last decision.
        """
        busy = self.busy(last_cost)
        if self.last_arrival is not None and self.first_arrival is not None:
            before = self.first_arrival if self._arrived is None else self._arrived
            other = max(0.0, busy * self.events - self.spent)
            self._offered.add(self.events, max(0, self.last_arrival - before), self.spent, other, saved)
        return Load(
            bound=self._bound, recent=self.per_event, busy=busy, waited=self.waited, service=self._offered.service,
            growth=self._offered.growth, latest=self._offered.latest, other=self._offered.other,
            arrivals=self._offered.rate, events=self.events, over=self._share_over_bound(),
            partial_matches=sum(query.matcher.live for query in queries), queries=len(queries), at_once=self.at_once,
        )  # fmt: skip

    def _share_over_bound(self) -> float:
        """Return the share of the latencies since the last call that are above the bound."""
        before, self._latency_counts = self._latency_counts, self._monitor.counted()
        count, over = (new - old for new, old in zip(self._latency_counts, before, strict=True))
        return over / count if count else 0.0

    @property
    def arrivals_passed(self) -> int:
        """Time in which the events since the last decision arrived; 0 if unknown."""
        if self.first_arrival is None or self.last_arrival is None:
            return 0
        return self.last_arrival - self.first_arrival

    def windows_passed(self, queries: Sequence[QueryShedding]) -> float:
        """Return how many of the shortest windows have passed since the last decision."""
        return max((query.windows_passed(self.events, self.passed) for query in queries), default=0.0)

    def reset(self, queries: Sequence[QueryShedding]) -> None:
        """Begin to measure anew, after a decision; update the sizes of the windows."""
        decay = exp(-self.windows_passed(queries))
        self._typical = (decay * self._typical[0] + self.events, decay * self._typical[1] + self.passed)
        for query in queries:
            query.window_size = query.window_events(*self._typical)
        self._began, self._arrived = self.last_time, self.last_arrival
        self._decided = None if self.last_arrival is None else self.last_arrival + self.waited
        self.events, self.spent, self._busy = 0, 0.0, 0.0
        self.first_arrival = self.last_arrival = None

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [self.events, self.spent, self._began, self.first_arrival, self._busy, self._arrived,
                self._offered.state(), list(self._latency_counts), list(self._typical),
                None if self._ended else self._decided]  # fmt: skip

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.measured")
        (self.events, self.spent, self._began, self.first_arrival, self._busy, self._arrived, offered, counts,
         typical, self._decided) = (*state, None)[:10]  # older snapshots have nine  # fmt: skip
        self._offered.restore(offered)
        self._latency_counts, self._typical = (counts[0], counts[1]), (typical[0], typical[1])
