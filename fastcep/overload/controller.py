"""From what a detector reads to how much is to be saved: a controller with set point and integral term.

What is controlled is the logarithm of the work that is left: a *pressure* u >= 0, of which the demand, the share of the
work that is saved, is 1 - exp(-u). So a step of u changes the work by the same factor wherever it stands.

Without a queue the latency follows the demand, a window later at most: an integral term alone finds the pressure at
which the latency is at its set point, and its average over time stays there. With a queue the length integrates what
arrives beyond what is done. Then the integral term makes both equal (`DetectorReading.utilisation` = 1), and a
proportional one makes it shorter where it is too long. Where it is short it does nothing: less demand shows in the work
when partial matches have been born again, a window later, and by then the queue would be long, and so on. A
detector that knows how much to save (`DetectorReading.amount`) is believed.

The paper's rule, to shed what the violation asks for whenever there is one, does not hold the bound, because it looks
at latencies that are older than what was shed last (ALGORITHMS: hybrid, decisions). So a decision uses what was
measured since the last one only, and is made once in an eighth of a window at most.
"""

from __future__ import annotations

from math import exp, log

from fastcep.overload.protocols import DetectorReading
from fastcep.stored import NUMBER, SHARE, record

__all__ = ["ALL", "Controller"]

#: Share of the excess that is added to the pressure in an eighth of a window. What is decided shows after a window at
#: the latest: an integral control with that delay is stable up to pi / 2 / 8 = 0.2 at eight decisions a window. Where
#: decisions are rarer, each adds as much more, up to a share that is stable without a delay.
_INTEGRAL = 0.06
_EIGHTHS, _LARGEST = 8.0, 0.7

#: Pressure per excess of a queue's length, where it is too long.
_PROPORTIONAL = 0.7

#: Share of that excess that is added to the pressure, so that a long queue gets shorter again.
_BACK = 0.04

#: What an excess counts at most, so that a beginning far from the set point does not overshoot far.
_MOST = 2.0

#: Largest pressure: 1 of 1,000 parts of the work is left.
_LIMIT = log(1000)
_STATE = record({"demand": SHARE, "integral": NUMBER})

#: The largest demand, but for rounding.
ALL = 1 - 1.000001 * exp(-_LIMIT)


class Controller:
    """Keeps the latency at its set point.

    Attributes
    ----------
    demand
        The share of the work to be saved, from 0 to 0.999.
    """

    def __init__(self) -> None:
        self.demand = 0.0
        self._integral = 0.0

    def update(self, reading: DetectorReading, saved: float = 0.0, by_window: float = _EIGHTHS) -> float:
        """Take a reading; return the demand until the next one. A window has ``by_window`` decisions.

        ``saved`` is the share of the work that was saved meanwhile, if it was more than demanded. What the latency, or
        the utilisation, would have been with the demand alone follows from it: that decides whether the demand is still
        needed. Else what is dropped for nothing would bring it to 0, and be dropped no more.
        """
        if reading.amount is not None:
            self._integral = 0.0
            self.demand = min(max(reading.amount, 0.0), 1.0 - exp(-_LIMIT))
            return self.demand
        by = (1 - self.demand) / max(1 - saved, exp(-_LIMIT)) if 0 < self.demand < saved else 1.0
        if reading.utilisation is None:
            excess = (1 + reading.excess) * by - 1
            gain = min(_LARGEST, _INTEGRAL * max(1.0, _EIGHTHS / max(by_window, 1e-3)))
            pressure = self._integrate(gain * max(-1.0, min(excess, _MOST)))
        else:
            pressure = self._of_queue(reading.excess, reading.utilisation * by)
        self.demand = 1.0 - exp(-pressure)
        return self.demand

    def _integrate(self, more: float) -> float:
        self._integral = min(max(self._integral + more, 0.0), _LIMIT)
        return self._integral

    def _of_queue(self, excess: float, utilisation: float) -> float:
        """Nothing is dropped before the queue is long; then at once as much as arrives too much."""
        if excess > 0 and self.demand == 0 and utilisation > 1:
            self._integral = min(max(self._integral, log(utilisation)), _LIMIT)
        elif excess > 0 or utilisation < 1:
            apart = max(-1.0, min(utilisation - 1, _MOST))
            self._integrate(_INTEGRAL * apart + _BACK * max(-1.0, min(excess, _MOST)))
        pressure = self._integral + _PROPORTIONAL * max(excess, 0.0)
        return min(max(pressure, 0.0), _LIMIT)

    def state(self) -> dict[str, float]:
        """What a snapshot has of it."""
        return {"demand": self.demand, "integral": self._integral}

    def resume(self, state: dict[str, float]) -> None:
        """Go on from `state`."""
        _STATE(state, "control.controllers")
        self.demand, self._integral = state["demand"], state["integral"]
