"""Choice between a work limit for single events and dropping classes alone, for a bound on a percentile.

Beside a work limit, classes are dropped only as far as they cost fewer matches than the limit loses because of them.
Far more drops can be better still: if so few events are above the bound that the limit stops none of them, nothing is
lost but the classes. In between, both lose.

So the demand that suffices without a limit is predicted: by how much the work for events must shrink, given what those
cost that were allowed to exceed the limit. If the share of the matches that the drops keep for this demand exceeds the
share that is found beside the limit, it is tried. During the trial the limit is still on, so the bound holds. The trial
ends when the limit is hardly reached any more, and the detectors control the demand from then on, or when the demand
that is needed would keep too little. Each trial in vain doubles the pause before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastcep.stored import AMOUNT, COUNT, FLAG, SHARE, record

__all__ = ["LimitChoice"]

#: Number of windows, and of events, after which the last change of the drops has taken effect.
_SETTLED, _EVENTS = 2.0, 4000.0

#: Share of the predicted matches by which they must exceed those found beside the limit, for a trial to begin.
_MARGIN = 0.05

#: Number of events before the first trial, within which the work limit settles.
_FIRST = 40_000.0

#: Number of settled intervals in the first pause after a trial in vain, and in the longest one; in which the limit is
#: measured again after `_AGAIN` pauses without it; and of the mean share kept without it.
_PAUSE, _LONGEST, _MEASURED, _AGAIN, _MEAN_OF = 8, 1024, 3, 4, 4.0

#: Factor on the percentile that is predicted, so that fewer than the allowed events exceed the bound; largest number of
#: corrections of the demand in a trial.
_MORE, _TRIES = 1.03, 4

_STATE = record({
    "demand": SHARE, "suspended": FLAG, "events": AMOUNT, "wait": COUNT, "pause": COUNT, "tries": COUNT,
    "limited": AMOUNT, "found": SHARE, "kept": SHARE,
})  # fmt: skip


class LimitChoice:
    """Choice between a work limit and dropping classes alone.

    Attributes
    ----------
    demand
        Demand that suffices without a work limit, in a trial and afterwards; 0: as much is dropped as pays beside it.
    suspended
        Whether there is no work limit.
    """

    def __init__(self) -> None:
        self.demand, self.suspended = 0.0, False
        self._events = 0.0  #: number of events of the present interval
        self._wait, self._pause, self._tries = _MEASURED, _PAUSE, 0
        self._limited = 0.0  #: number of events with a limit
        self._found = 0.0  #: share of the matches found beside the limit
        self._kept = 0.0  #: mean share kept without a limit, of late

    def update(
        self,
        events: float,
        window: float,
        found: float,
        unlimited_work: float,
        demand: float,
        kept: Callable[[float], float],
    ) -> None:
        """Choose until the next decision.

        Parameters
        ----------
        events, window
            Number of events since the last decision, and in a window.
        found
            Estimated share of the matches that is found beside the limit.
        unlimited_work
            Percentile of the work for an event without a limit, as a share of the bound; 0: unknown.
        demand
            Demand since the last decision, or, without a limit, until the next one.
        kept
            Function that returns the share of the matches that is kept for a demand.
        """
        self._events += events
        if self.suspended:
            self.demand = demand
        else:
            self._limited = min(self._limited + events, _FIRST)
        if self._events < max(_SETTLED * window, _EVENTS):
            return
        self._events = 0.0
        if self.suspended:
            self._kept += (kept(demand) - self._kept) / _MEAN_OF
            self._wait -= 1
            if self._kept < self._found:
                self.stop()
            elif self._wait <= 0:
                self.stop(_MEASURED)
        elif self.demand > 0:
            self._continue_trial(unlimited_work, kept)
        else:
            self._found = found
            self._wait = max(0, self._wait - 1)
            if self._wait == 0 and self._limited >= _FIRST and found > 0 and unlimited_work > 1:
                needed = 1 - (1 - demand) / (unlimited_work * _MORE)
                if kept(needed) * (1 - _MARGIN) > found:
                    self.demand, self._tries = needed, 0

    def _continue_trial(self, unlimited_work: float, kept: Callable[[float], float]) -> None:
        if unlimited_work <= 1:
            self.suspended, self._kept, self._wait = True, kept(self.demand), _AGAIN * self._pause
            return
        self.demand, self._tries = 1 - (1 - self.demand) / (unlimited_work * _MORE), self._tries + 1
        if kept(self.demand) <= self._found or self._tries > _TRIES:
            self.stop()

    def wait(self, demand: float) -> None:
        """Go on without judging what is kept, as it is unknown; a trial ends. ``demand`` as for `update`."""
        if self.suspended:
            self.demand = demand
        elif self.demand > 0:
            self.stop()

    def stop(self, pause: int | None = None) -> None:
        """Return to the limit for a number of intervals; None: for the pause after a trial in vain."""
        self.demand, self.suspended, self._wait = 0.0, False, self._pause if pause is None else pause
        self._pause = min(2 * self._pause, _LONGEST)

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "demand": self.demand, "suspended": self.suspended, "events": self._events, "wait": self._wait,
            "pause": self._pause, "tries": self._tries, "limited": self._limited, "found": self._found,
            "kept": self._kept,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(dict(state), "control.shedder.choice")
        self.demand, self.suspended, self._events = state["demand"], state["suspended"], state["events"]
        self._wait, self._pause, self._tries = state["wait"], state["pause"], state["tries"]
        self._limited, self._found, self._kept = state["limited"], state["found"], state["kept"]
