"""Arrival rate and service time without shedding, as medians over several readings."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Any

from fastcep.stored import AMOUNT, COUNT, listed, sequence

__all__ = ["OfferedLoad"]

#: Number of readings that the medians cover, and share of the latency bound in which the events of a reading arrive:
#: together a little more than the bound. Arrivals that are concentrated within less than the bound are a backlog.
_READINGS, _BOUND_SHARE = 9, 1 / 8

_READING = sequence(COUNT, AMOUNT, AMOUNT)
_STATE = sequence(listed(_READING), _READING)


class OfferedLoad:
    """Arrival rate and service time, from readings of the events between two or more decisions.

    Both are medians, so that a single pause or burst changes neither.

    Parameters
    ----------
    bound
        Latency bound in ns; 0 for none.
    """

    def __init__(self, bound: float) -> None:
        self._least = bound * _BOUND_SHARE
        self._readings: deque[tuple[int, float, float]] = deque(maxlen=_READINGS)
        self._open = (0, 0.0, 0.0)

    def add(self, events: int, passed: float, work: float) -> None:
        """Record ``events`` that arrived within ``passed`` ns and take ``work`` ns without shedding."""
        self._open = (self._open[0] + events, self._open[1] + passed, self._open[2] + work)
        if self._open[1] > 0 and self._open[1] >= self._least:
            self._readings.append(self._open)
            self._open = (0, 0.0, 0.0)

    @property
    def service(self) -> float:
        """Time that an event takes without shedding, in ns; 0 before the first reading."""
        readings = self._readings or ([self._open] if self._open[0] else [])
        return median(work / events for events, _, work in readings) if readings else 0.0

    @property
    def rate(self) -> float:
        """Arrival rate in events per ns; 0 while unknown."""
        readings = self._readings or ([self._open] if self._open[1] > 0 else [])
        return median(events / passed for events, passed, _ in readings) if readings else 0.0

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [[list(reading) for reading in self._readings], list(self._open)]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.offered")
        readings, self._open = state[0], tuple(state[1])
        self._readings = deque(map(tuple, readings), _READINGS)
