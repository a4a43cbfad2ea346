"""Mean demand while load is shed."""

from __future__ import annotations

from typing import Any

from fastcep.stored import AMOUNT, SHARE, sequence

__all__ = ["MeanDemand"]

_STATE = sequence(SHARE, AMOUNT, AMOUNT)


class MeanDemand:
    """Mean of the demands that were in force, by number of events; events without a demand do not count."""

    def __init__(self) -> None:
        self._present = 0.0
        self._events, self._sum = 0.0, 0.0

    def add(self, demand: float, events: int) -> None:
        """Set the demand from now on; the one before was in force for this number of events."""
        if self._present > 0:
            self._events += events
            self._sum += self._present * events
        self._present = demand

    def restart(self) -> None:
        """Forget all events so far; the present demand stays in force."""
        self._events = self._sum = 0.0

    @property
    def mean(self) -> float | None:
        """The mean; None without events."""
        return self._sum / self._events if self._events else None

    def state(self) -> list[Any]:
        """Return the state for a snapshot as JSON values."""
        return [self._present, self._events, self._sum]

    def restore(self, state: list[Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.shedder.demands")
        self._present, self._events, self._sum = state
