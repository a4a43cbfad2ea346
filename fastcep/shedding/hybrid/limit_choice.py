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
from enum import StrEnum
from typing import Any

from fastcep.stored import AMOUNT, COUNT, SHARE, one_of, record, whole

__all__ = ["LimitChoice", "Mode"]

#: Number of windows, and of events, after which the last change of the drops has taken effect: an *interval*.
_SETTLED, _EVENTS = 2.0, 4000.0

#: Share of the predicted matches by which they must exceed those found beside the limit, for a trial to begin.
_MARGIN = 0.05

#: Number of events before the first trial, within which the work limit settles.
_FIRST = 40_000.0

#: Number of intervals in the first pause after a trial in vain, and in the longest one.
_PAUSE, _LONGEST = 8, 1024

#: Number of intervals without a limit until it is measured again, and in such a measurement. Each measurement doubles
#: the former, up to `_LONGEST_STAY`.
_STAY, _MEASURED, _LONGEST_STAY = 32, 3, 4096

#: Number of intervals over which the share kept without a limit is averaged.
_AVERAGED = 2.0

#: Factor on the percentile that is predicted, so that fewer than the allowed events exceed the bound; largest number of
#: corrections of the demand in a trial.
_MORE, _TRIES = 1.03, 4


class Mode(StrEnum):
    """A bound is held by the limit, by the limit while more drops are tried, or by drops alone."""

    LIMIT = "limit"
    TRIAL = "trial"
    ALONE = "alone"


_STATE = record({
    "mode": one_of(*map(str, Mode)), "demand": SHARE, "events": AMOUNT, "wait": whole(0, _LONGEST_STAY),
    "pause": whole(_PAUSE, _LONGEST), "stay": whole(_STAY, _LONGEST_STAY), "tries": COUNT, "limited": AMOUNT,
    "found": SHARE, "kept": SHARE,
})  # fmt: skip


class LimitChoice:
    """Choice between a work limit and dropping classes alone.

    Attributes
    ----------
    mode
        What holds the bound.
    demand
        Demand that suffices without a work limit, in a trial and afterwards; 0: as much is dropped as pays beside it.
    returned
        Mode from which the last update returned to the limit; None: it did not.
    """

    def __init__(self) -> None:
        self.mode, self.demand = Mode.LIMIT, 0.0
        self.returned: Mode | None = None
        self._events = 0.0  #: number of events of the present interval
        self._wait, self._pause, self._stay, self._tries = _MEASURED, _PAUSE, _STAY, 0
        self._limited = 0.0  #: number of events with a limit, up to `_FIRST`
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
            Demand in force since the last decision, or, without a limit, until the next one.
        kept
            Function that returns the share of the matches that is kept for a demand.
        """
        self.returned = None
        interval = max(_SETTLED * window, _EVENTS)
        self._events += events
        if self.mode is Mode.ALONE:
            self.demand = demand
            self._kept += (kept(demand) - self._kept) * min(1.0, events / (_AVERAGED * interval))
            if self._kept < self._found:
                self._return_in_vain()
        else:
            self._limited = min(self._limited + events, _FIRST)
        if self._events < interval:
            return
        self._events = 0.0
        self._wait = max(0, self._wait - 1)
        if self.mode is Mode.TRIAL:
            self._continue_trial(max(demand, self.demand), unlimited_work, kept)
        elif self.mode is Mode.ALONE:
            if self._wait == 0:
                self._pause, self._stay = _PAUSE, min(2 * self._stay, _LONGEST_STAY)
                self._return(_MEASURED)
        else:
            self._found = found
            if self._wait == 0 and self._limited >= _FIRST and found > 0 and unlimited_work > 1:
                needed = 1 - (1 - demand) / (unlimited_work * _MORE)
                if kept(needed) * (1 - _MARGIN) > found:
                    self.mode, self.demand, self._tries = Mode.TRIAL, needed, 0

    def _continue_trial(self, demand: float, unlimited_work: float, kept: Callable[[float], float]) -> None:
        self.demand = demand
        if 0 < unlimited_work <= 1:
            self.mode, self._kept, self._wait = Mode.ALONE, kept(demand), self._stay
            return
        self._tries += 1
        if unlimited_work > 1:
            self.demand = 1 - (1 - demand) / (unlimited_work * _MORE)
        if kept(self.demand) <= self._found or self._tries > _TRIES:
            self._return_in_vain()

    def follow(self, demand: float) -> None:
        """Go on without judging what is kept, as it is unknown; a trial ends. ``demand`` as for `update`."""
        self.returned = None
        if self.mode is Mode.ALONE:
            self.demand = demand
        elif self.mode is Mode.TRIAL:
            self._return_in_vain()

    def _return_in_vain(self) -> None:
        self._return(self._pause)
        self._pause, self._stay = min(2 * self._pause, _LONGEST), _STAY

    def _return(self, pause: int) -> None:
        """Return to the limit, for a number of intervals at least."""
        self.returned, self.mode = self.mode, Mode.LIMIT
        self.demand, self._wait, self._events = 0.0, pause, 0.0

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "mode": str(self.mode), "demand": self.demand, "events": self._events, "wait": self._wait,
            "pause": self._pause, "stay": self._stay, "tries": self._tries, "limited": self._limited,
            "found": self._found, "kept": self._kept,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.shedder.choice")
        self.mode, self.demand, self._events = Mode(state["mode"]), state["demand"], state["events"]
        self._wait, self._pause, self._stay = state["wait"], state["pause"], state["stay"]
        self._tries, self._limited = state["tries"], state["limited"]
        self._found, self._kept = state["found"], state["kept"]
