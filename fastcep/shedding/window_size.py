"""Predicted number of events in the windows of a query that are open now."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from fastcep.overload.protocols import QueryView
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME
from fastcep.stored import AMOUNT, COUNT, number, record

__all__ = ["WindowSize"]

#: Number of windows over which the number of events per window is smoothed.
_SMOOTHED = 2.0
#: Largest size: beyond it, positions are of no use.
_MOST = 1e12
_STATE = record({"events": AMOUNT, "windows": AMOUNT, "received": COUNT, "size": number(1.0, _MOST)})


class WindowSize:
    """Predicts the number of events in an open window of a query (eSPICE, section 3.6).

    * ``CLOSE AFTER n EVENTS``: n.
    * ``CLOSE AFTER t``: the events that now arrive in t, smoothed over the last windows. Before its first decision, an
      engine has not measured this, so the mean of the history counts.
    * ``CLOSE ON``: the mean size of the windows in the history, because the closing event is not known in advance.

    Parameters
    ----------
    mean
        Mean number of events in a window of the history.

    Attributes
    ----------
    size
        Predicted number of events, at least 1.
    """

    def __init__(self, mean: float) -> None:
        self.size = max(1.0, mean)
        self._events, self._windows, self._received = self.size, 1.0, 0

    def update(self, view: QueryView) -> float:
        """Learn from the events since the last call; return the predicted size."""
        windows = view.plan.windows
        if windows is not None and windows.closing == AFTER_EVENTS:
            self.size = float(windows.length)
        elif windows is not None and windows.closing == AFTER_TIME and view.received > max(
            self._received, view.load.events
        ):  # not the first decision of an engine, for which ``window_size`` is an assumption
            events = view.received - self._received
            passed = events / max(view.window_size, 1.0)  # windows
            kept = exp(-passed / _SMOOTHED)
            self._events, self._windows = kept * self._events + events, kept * self._windows + passed
            self._received, self.size = view.received, min(max(1.0, self._events / max(self._windows, 1e-9)), _MOST)
        return self.size

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"events": self._events, "windows": self._windows, "received": self._received, "size": self.size}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`; raise `Misfit` if it is invalid."""
        _STATE(dict(state), "control.shedder.windows")
        self._events, self._windows = state["events"], state["windows"]
        self._received, self.size = state["received"], state["size"]
