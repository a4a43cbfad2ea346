"""Arrival rate and service time without shedding, as medians over several readings."""

from __future__ import annotations

from collections import deque
from itertools import combinations
from statistics import median
from typing import Any

from fastcep.stored import AMOUNT, COUNT, listed, sequence

__all__ = ["MOST_SAVED", "OfferedLoad"]

#: Number of readings that the medians cover, and share of the latency bound in which the events of a reading arrive:
#: together a little more than the bound. Arrivals that are concentrated within less than the bound are a backlog.
_READINGS, _BOUND_SHARE = 9, 1 / 8

#: Number of readings before which nothing is known: the first events take long, because nothing is in the caches. As
#: many first readings may be shorter; later ones replace them.
_FEWEST = 3

#: Number of readings from which on a trend is estimated.
_TREND = 5

#: Share of the work saved above which a reading can only lower the service time, because the rest is mostly work that
#: no shedder saves.
MOST_SAVED = 0.95

_READING = sequence(COUNT, AMOUNT, AMOUNT, AMOUNT)
_STATE = sequence(listed(_READING), _READING, sequence(AMOUNT, AMOUNT), optional=1)


class OfferedLoad:
    """Arrival rate and service time, from readings of the events between two or more decisions.

    A single pause or burst changes neither.

    Parameters
    ----------
    bound
        Latency bound in ns; 0 for none.
    """

    def __init__(self, bound: float) -> None:
        self._least = bound * _BOUND_SHARE
        self._readings: deque[tuple[int, float, float, float]] = deque(maxlen=_READINGS)
        self._open = (0, 0.0, 0.0, 0.0)
        self._last = (0.0, 0.0)  #: the last two service times, unless nearly all was saved

    def add(self, events: int, passed: float, spent: float, other: float, saved: float) -> None:
        """Record events between two decisions.

        Parameters
        ----------
        events
            Number of events.
        passed
            Time in which they arrived, in ns.
        spent, other
            Time that matching them took, and that the engine was busy besides, in ns.
        saved
            Share of the matching that shedding saved.
        """
        work, service = spent / (1 - saved), self.service
        if saved > MOST_SAVED and service > 0:
            work = min(work, events * service)
        else:
            self._last = self._last[1], work / events
        total = self._open
        self._open = total[0] + events, total[1] + passed, total[2] + work, total[3] + other
        if self._open[1] > 0 and (self._open[1] >= self._least or len(self._readings) < _FEWEST):
            if len(self._readings) >= _FEWEST and self._readings[0][1] < self._least:
                self._readings.popleft()
            self._readings.append(self._open)
            self._open = (0, 0.0, 0.0, 0.0)

    @property
    def service(self) -> float:
        """Time that matching an event takes without shedding, in ns; 0 while unknown."""
        return self._median(self._services())

    @property
    def growth(self) -> float:
        """Expected excess of the present service time over `service`, in ns; 0 if it does not rise.

        The median is that of about the middle of the readings, and the slope is the median of those between all pairs
        of readings (Theil and Sen), so that a single reading does not change it.
        """
        services = self._services()
        if len(services) < _TREND:
            return 0.0
        slope = median((later - one) / (j - i) for (i, one), (j, later) in combinations(enumerate(services), 2))
        return max(0.0, slope * (len(services) - 1) / 2)

    @property
    def latest(self) -> float:
        """Smaller service time of the last two readings that show it, in ns: a single interruption does not count."""
        return min(self._last)

    def _services(self) -> list[float]:
        return [work / events for events, _, work, _ in self._readings]

    @property
    def other(self) -> float:
        """Least time of other work per event, in ns: a call of the engine costs the same for few events as for many."""
        return min((other / events for events, _, _, other in self._readings), default=0.0)

    @property
    def rate(self) -> float:
        """Arrival rate in events per ns; 0 while unknown."""
        return self._median([events / passed for events, passed, _, _ in self._readings])

    def _median(self, values: list[float]) -> float:
        return median(values) if len(values) >= _FEWEST else 0.0

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [[list(reading) for reading in self._readings], list(self._open), list(self._last)]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.offered")
        readings, self._open = state[0], tuple(state[1])
        self._last = tuple(state[2]) if len(state) > 2 else (0.0, 0.0)  # older snapshots have two
        self._readings = deque(map(tuple, readings), _READINGS)
