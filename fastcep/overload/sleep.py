"""Sleep of the overload control: without load, the queries run as in an engine without a shedder.

A plan that is ready to shed costs time for every partial match: each has a word for its class and weight, and classes
are looked up at birth. So the control *sleeps* while there is no load. The queries then have plans without any of that.
The detectors are still read at every decision. At the first decision that sees the load approach the bound, the control
*wakes*: the partial matches move to plans that are ready to shed, and the same decision can shed.

Invariant: sleeping and waking change no match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastcep.overload.load import DetectorReading, Load
from fastcep.stored import COUNT, FLAG, record

__all__ = ["Sleep"]

#: The control wakes when a detector is at this share of its set point, or when matching the events that arrive takes
#: this share of the time. The fixed cost of a call does not count: at a higher rate there are more events in a call.
_NEAR, _BUSY = 0.5, 0.8
#: It falls asleep after this number of decisions in succession below these shares.
_FAR, _IDLE, _CALM = 0.25, 0.6, 256
#: Share of the latency bound that moving the partial matches may take, and the time planned for each, in ns. A large
#: state takes 50 to 70 ns for each, and any state about a millisecond. With more of them the control stays awake.
_MOVING, _MOVE = 0.1, 100.0

_STATE = record({"asleep": FLAG, "calm": COUNT})


class Sleep:
    """Decides when the overload control sleeps.

    Parameters
    ----------
    bound
        Latency bound in ns; 0 for none.

    Attributes
    ----------
    asleep
        Whether the control sleeps.
    is_allowed
        Function that returns whether the engine's options allow sleep.
    switch
        Function that moves the queries to the plans for sleep (True), or to those that are ready to shed (False). It
        sets `asleep`.
    """

    def __init__(self, bound: float) -> None:
        self.asleep = False
        self.is_allowed: Callable[[], bool] = lambda: False
        self.switch: Callable[[bool], None] = lambda _: None
        self._most = _MOVING * bound / _MOVE
        self._calm = 0  #: number of calm decisions in succession

    def follow(self, sheds: bool, readings: Sequence[DetectorReading], load: Load, weighs: bool) -> bool:
        """Fall asleep or wake up if a decision requires it; return whether that has happened.

        Parameters
        ----------
        sheds
            Whether the decision sheds load.
        readings
            Readings of the detectors.
        load
            Measurements that they have read.
        weighs
            Whether partial matches carry weights, because something was dropped recently.
        """
        if self.asleep:
            below = self._is_below(readings, load, _NEAR, _BUSY) and load.partial_matches <= self._most
            stays = not sheds and self.is_allowed() and below
        else:
            below = self._is_below(readings, load, _FAR, _IDLE) and 2 * load.partial_matches <= self._most
            calm = not (sheds or weighs) and below
            self._calm = self._calm + 1 if calm else 0
            stays = self._calm < _CALM or not self.is_allowed()
        if not stays:
            self._calm = 0
            self.switch(not self.asleep)
        return not stays

    @staticmethod
    def _is_below(readings: Sequence[DetectorReading], load: Load, share: float, busy: float) -> bool:
        """Return whether all readings are below a share of their set points, and matching takes less of the time."""
        if load.arrivals * load.service >= busy:
            return False
        return all(reading.excess < share - 1 and not reading.amount for reading in readings)

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {"asleep": self.asleep, "calm": self._calm}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`; the queries already have the plans for it."""
        _STATE(state, "control.sleep")
        self._calm = state["calm"]
