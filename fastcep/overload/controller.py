"""Controller with set point and integral term: converts a detector's reading into a demand.

The controlled variable is the *pressure* u >= 0, with demand = 1 - exp(-u); the demand is the share of the work to
save. A step of u therefore changes the remaining work by the same factor at any level.

* Without a queue, the latency follows the demand within a window. Integral control alone finds the pressure at which
  the latency is at its set point, and keeps its average over time there.
* With a queue, the demand follows from two estimates (feed-forward control):

  - *Backlog.* An event that arrives now waits until those before it are done. Without shedding, that is
    `1 + DetectorReading.excess` times what it may wait, so the share to save is ``1 - 1 / (1 + excess)``. It is 0 as
    soon as the backlog is within its limit.
  - *Arrival rate.* While load is shed, the demand is at least ``1 - 1 / utilisation``, so that it does not oscillate
    around the limit. Shedding begins only with a backlog. The nearer the queue then comes to the bound, the more is
    shed.

  An error of what shedding is expected to save mostly corrects itself: it changes the measured service time without
  shedding, and both estimates with it. If the queue stays too long although the arrival rate is considered, the rest is
  integrated slowly, up to twice what the rate needs. It is taken back while the queue is within its limit.
* If a detector knows how much to save (`DetectorReading.amount`), that is the demand. `QueueLength` does so if what is
  dropped takes effect at once: then the backlog alone is enough, and no rate is needed to keep the demand from
  oscillating.

The paper's rule sheds in proportion to each violation. It does not hold the bound, because it uses latencies measured
before the previous shedding took effect (ALGORITHMS: hybrid, decisions). Decisions therefore use only measurements
since the previous decision.
"""

from __future__ import annotations

from math import exp, log

from fastcep.overload.load import DetectorReading
from fastcep.stored import NUMBER, SHARE, record

__all__ = ["ALL", "Controller"]

#: Share of the excess that is added to the pressure in an eighth of a window. A decision takes effect within a window:
#: integral control with that delay is stable up to pi / 2 / 8 = 0.2 at eight decisions a window. Rarer decisions add
#: proportionally more, up to a share that is stable without a delay, and more frequent ones proportionally less. If
#: they are more frequent because events are expensive, the share is that of the work of a window within the bound.
_INTEGRAL = 0.06
_EIGHTHS, _LARGEST = 8.0, 0.7

#: Share of the excess of a queue that is added to the correction of the arrival rate at each decision, share of the
#: correction that is taken back while the queue is within its limit, and by how much the correction may exceed the
#: pressure that the rate needs (anti-windup).
_CORRECTION, _UNWINDING, _MOST_CORRECTION = 0.005, 0.2, 0.1

#: The rate counts for more while a queue is above its limit: for twice as much at the excess at which a queue with a
#: limit of 0.8 reaches the bound. This grows with the square, up to that of twice this excess: near the limit the
#: demand stays the same, because one that varies loses more matches, and new drop plans cost more than the last one.
_ROOM, _MOST_ROOMS = 0.25, 2.0

#: Largest excess that is integrated, so that a start far from the set point does not overshoot far.
_MOST = 2.0

#: Largest pressure: 0.1 % of the work is left.
_LIMIT = log(1000)
_STATE = record({"demand": SHARE, "integral": NUMBER})

#: Largest demand, up to rounding.
ALL = 1 - 1.000001 * exp(-_LIMIT)


def _near_bound(utilisation: float, excess: float) -> float:
    """Return a utilisation above 1, increased by how far the queue is above its limit."""
    return utilisation * (1 + min(max(excess, 0.0) / _ROOM, _MOST_ROOMS) ** 2)


class Controller:
    """Controller that keeps the latency at its set point, or a queue within its limit.

    Attributes
    ----------
    demand
        Share of the work to save, from 0 to 0.999.
    """

    def __init__(self) -> None:
        self.demand = 0.0
        self._integral = 0.0

    def update(self, reading: DetectorReading, saved: float = 0.0, by_window: float = _EIGHTHS) -> float:
        """Process a reading; return the demand until the next one.

        Parameters
        ----------
        reading
            Reading of the detector.
        saved
            Share of the work that was saved since the last reading, if this was more than the demand. A latency without
            a queue is scaled to what it would have been with the demand alone, to decide whether the demand is still
            needed. Otherwise drops that cost no recall would push the demand to 0 and then stop.
        by_window
            Number of decisions in a window.
        """
        if reading.amount is not None:
            self._integral = 0.0
            self.demand = min(max(reading.amount, 0.0), 1.0 - exp(-_LIMIT))
            return self.demand
        if reading.utilisation is not None:
            pressure = self._queue_pressure(reading.excess, reading.utilisation)
        else:
            scale = (1 - self.demand) / max(1 - saved, exp(-_LIMIT)) if 0 < self.demand < saved else 1.0
            excess = (1 + reading.excess) * scale - 1
            gain = min(_LARGEST, _INTEGRAL * _EIGHTHS / max(by_window, 1e-3))
            gain = max(gain, min(gain * (1 + excess), _INTEGRAL))
            pressure = self._integrate(gain * max(-1.0, min(excess, _MOST)))
        self.demand = 1.0 - exp(-pressure)
        return self.demand

    def begin(self, demand: float) -> None:
        """Continue from a demand."""
        self._integral = min(-log(max(1 - demand, exp(-_LIMIT))), _LIMIT)
        self.demand = 1.0 - exp(-self._integral)

    def _integrate(self, step: float) -> float:
        self._integral = min(max(self._integral + step, 0.0), _LIMIT)
        return self._integral

    def _queue_pressure(self, excess: float, utilisation: float) -> float:
        """Return the pressure for a queue: the larger one of what its length and, while load is shed, the rate need."""
        backlog = log(1 + max(excess, 0.0))
        if utilisation > 1:  # otherwise the queue becomes shorter by itself
            utilisation = _near_bound(utilisation, excess)
        rate = log(max(utilisation, 1.0)) if backlog > 0 or self.demand > 0 else 0.0
        if rate <= 0:
            self._integral = 0.0
        else:
            step = _CORRECTION * backlog if backlog > 0 else -_UNWINDING * self._integral
            self._integral = min(self._integral + step, rate + _MOST_CORRECTION)
        return min(max(backlog, rate + self._integral), _LIMIT)

    def state(self) -> dict[str, float]:
        """Return the state for a snapshot."""
        return {"demand": self.demand, "integral": self._integral}

    def restore(self, state: dict[str, float]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.controllers")
        self.demand, self._integral = state["demand"], state["integral"]
