"""Demand of an engine: the share of the work to save until the next decision."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import sqrt
from typing import Any

from fastcep.overload.controller import ALL, Controller
from fastcep.overload.latency import LatencyMonitor
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Detector
from fastcep.overload.validation import checked_reading
from fastcep.stored import COUNT, SHARE, anything, listed, record, sequence

__all__ = ["DemandControl", "DemandHistory"]

#: Largest share of the work that is assumed to have been saved.
_MOST_SAVED = 0.999

#: Number of pieces of a window in which past demands are kept.
_PIECES = 32

#: Minimum number of events over which latencies are smoothed (hybrid: 1,000 measurements; all events since the last
#: decision, if these are more).
_SMOOTHED = 1000

_HISTORY = listed(sequence(COUNT, SHARE, SHARE))
_STATE = record({"demand": SHARE, "controllers": anything, "past": anything})


class DemandHistory:
    """Demands of the last window, in a limited number of pieces however many decisions there are."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, float, float]] = deque()  #: events, largest and mean demand

    def add(self, demand: float, events: int, window: float) -> None:
        """Record that a demand was in force for a number of events; keep those of the last ``window`` events."""
        if self._pieces and self._pieces[-1][0] + events <= window / _PIECES:
            number, largest, mean = self._pieces.pop()
            total = number + events
            self._pieces.append((total, max(largest, demand), (number * mean + events * demand) / total))
        else:
            self._pieces.append((events, demand, demand))
        total = sum(number for number, _, _ in self._pieces)
        while len(self._pieces) > 1 and (total - self._pieces[0][0] >= window or len(self._pieces) > 2 * _PIECES + 1):
            total -= self._pieces.popleft()[0]

    @property
    def largest(self) -> float:
        """Largest demand of the last window."""
        return max((largest for _, largest, _ in self._pieces), default=0.0)

    @property
    def mean(self) -> float:
        """Mean demand of the last window."""
        total = sum(number for number, _, _ in self._pieces)
        return sum(number * mean for number, _, mean in self._pieces) / total if total else 0.0

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [list(piece) for piece in self._pieces]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _HISTORY(state, "control.demand.past")
        self._pieces = deque((events, largest, mean) for events, largest, mean in state)


class DemandControl:
    """Detectors with a controller each; the largest of their demands is in force.

    Parameters
    ----------
    detectors
        Detectors to read.
    monitor
        Latencies, for the statistics of the detectors.

    Attributes
    ----------
    demand
        Share of the work to save, from 0 to 0.999.
    why
        Text that says what exceeds its limit; empty without a demand.
    of_present
        Whether the demand is a share of the present state, to be dropped now.
    bound_missed
        Whether the bound is missed although everything is demanded.
    past
        Demands of the last window.
    readings
        Last readings of the detectors, in order.
    """

    def __init__(self, detectors: Sequence[Detector], monitor: LatencyMonitor) -> None:
        self._loops = [(detector, Controller()) for detector in detectors]
        self._monitor = monitor
        self.demand, self.why, self.of_present, self.bound_missed = 0.0, "", False, False
        self.past = DemandHistory()
        self.readings: list[DetectorReading] = []

    @property
    def detectors(self) -> list[Detector]:
        """Detectors, in order."""
        return [detector for detector, _ in self._loops]

    def saved(self, without_loss: float, purges: bool) -> float:
        """Return the expected share of the work saved since the last decision.

        Half of the effect of a demand comes at once, because events are dropped or create less. The other half comes
        with the state, within a window; at once, if live partial matches are dropped when the demand grows.

        Parameters
        ----------
        without_loss
            Share that the drop plans save, if they save more than the demand at no loss.
        purges
            Whether live partial matches are dropped when the demand grows, so that it takes effect at once.
        """
        lasting = self.past.mean
        if purges and self.demand >= self.past.largest:
            lasting = self.demand
        expected = 1 - sqrt((1 - self.demand) * (1 - lasting))
        return min(max(expected, without_loss if self.demand > 0 else 0.0), _MOST_SAVED)

    def update(self, load: Load, without_loss: float, by_window: float) -> None:
        """Read the detectors, and set the demand until the next decision.

        Parameters
        ----------
        load
            Measurements since the last decision.
        without_loss
            See `saved`.
        by_window
            Number of decisions in a window.
        """
        load.shedding, self.readings = self.demand > 0, []
        self.demand, self.why, self.of_present, self.bound_missed = 0.0, "", False, False
        for detector, controller in self._loops:
            if detector.statistic == "mean" and load.events >= _SMOOTHED:
                load.smoothed = load.recent
            else:
                load.smoothed = self._monitor.smoothed(detector.statistic, last=max(_SMOOTHED, load.events))
            reading = checked_reading(detector, detector.read(load))
            self.readings.append(reading)
            was_largest = controller.demand >= ALL
            if controller.update(reading, without_loss, by_window) > self.demand:
                self.demand, self.why = controller.demand, reading.why
                self.of_present = reading.amount is not None and reading.of_present
                self.bound_missed = was_largest and self.demand >= ALL and (reading.excess > 0 or self.of_present)

    def begin(self, demand: float) -> None:
        """Set the demand from which the detectors of a percentile control it from now on."""
        for detector, controller in self._loops:
            if detector.allowed > 0:
                controller.begin(demand)
        self.demand = max((controller.demand for _, controller in self._loops), default=0.0)
        self.why = self.why or "drops hold the bound instead of the limit of the work for an event"

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "demand": self.demand, "controllers": [controller.state() for _, controller in self._loops],
            "past": self.past.state(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.demand")
        listed(anything, len(self._loops))(state["controllers"], "control.demand.controllers")
        self.demand = state["demand"]
        for (_, controller), controller_state in zip(self._loops, state["controllers"], strict=True):
            controller.restore(controller_state)
        self.past.restore(state["past"])
