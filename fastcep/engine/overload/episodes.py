"""When and why load was shed, told to people: episodes, a line in the log for each, and an estimate of the recall."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Episodes"]

_LOG = logging.getLogger("fastcep.shedding")

#: Decisions in a row without shedding after which an episode is over: those of about one window.
_QUIET = 8

#: Decisions that are remembered; a window seldom has more.
_PAST = 64

#: Matches are not taken to be rarer than that among the true ones: what is kept is an estimate, too.
_RAREST = 0.01


class Episodes:
    """Episodes of shedding, one after the other.

    An episode begins with the first decision to shed and is over when nothing was shed for about a window. The recall
    is estimated by weighting each match that was found by the inverse of the chance with which it was kept (Horvitz and
    Thompson): what the shedder's orders of the last window kept on the mean, and of that the share that has outlived
    what was dropped at once since the match began. Of three events in a window the first one is more often far back
    than near, so ages are weighted by themselves.

    Attributes
    ----------
    count
        How many have begun.
    active
        Whether one goes on.
    """

    def __init__(self) -> None:
        self.count = 0
        self.active = False
        self._why = ""
        self._began = 0
        self._quiet = 0
        self._before: tuple[int, int] = (0, 0)
        self._found = 0.0
        self._expected = self._absent = 0.0
        self._matches = self._missed = 0
        self._orders: deque[tuple[float, float]] = deque(maxlen=_PAST)
        self._episode: tuple[float, float] = (0.0, 0.0)

    def found(
        self, matches: int, kept: float, left: float, by_window: float, taken: int, missed: int, lost: float = 0.0
    ) -> None:
        """Take into account how many matches there are by now, what is kept from now on, and what was left just now.

        A window has ``by_window`` decisions. ``lost`` matches were cut off since the last time.

        Queries have ``taken`` so many events, and ``missed`` others, after they had given way for want of memory: there
        as many matches are expected as were in the others.
        """
        if missed > self._missed and taken > 0:
            self._absent += (missed - self._missed) * self._expected / taken
            self._missed = missed
        new = matches - self._matches
        self._matches = matches
        self._found += new
        self._expected += (new + lost) / max(self._chance(by_window), _RAREST)
        self._orders.append((kept, left))

    def _chance(self, by_window: float) -> float:
        """The chance with which a match that ends now has been kept."""
        orders = list(self._orders)[-max(1, round(by_window)) :][::-1]
        if not orders:
            return 1.0
        outlived, total, weights = 1.0, 0.0, 0.0
        for age, (_, left) in enumerate(orders):
            total += (age + 0.5) * outlived * (1 + left) / 2  # half of them had begun when this was dropped
            weights += age + 0.5
            outlived *= left
        kept = sum(share for share, _ in orders) / len(orders)
        return kept * (1 - min(by_window, 1.0) * (1 - total / weights))  # not every window sees a decision

    def shift(self, matches: int, missed: int, events: int, partial_matches: int) -> None:
        """Take into account that the counters jump by so much, as other queries, or states, are counted now."""
        self._matches += matches
        self._missed += missed
        self._before = self._before[0] + events, self._before[1] + partial_matches

    @property
    def recall(self) -> float | None:
        """The estimated share of the matches that were found; None before the first."""
        return self._found / (self._expected + self._absent) if self._expected else None

    def note(
        self, now: int, sheds: bool, why: str, before: tuple[int, int], dropped: Callable[[], tuple[int, int]]
    ) -> None:  # fmt: skip
        """Take into account a decision at ``now``.

        ``dropped`` gives how many events and partial matches were dropped since the engine was made, ``before`` how
        many these were before the decision, which may have dropped some at once, if it begins an episode.
        """
        if sheds:
            self._quiet = 0
            if not self.active:
                self.active, self._why, self._began = True, why, now
                self._before = before
                self._episode = self._found, self._expected
                self.count += 1
        elif self.active:
            self._quiet += 1
            if self._quiet >= _QUIET:
                self.close(now, dropped)

    def close(self, now: int, dropped: Callable[[], tuple[int, int]]) -> None:
        """End the episode that goes on, if there is one, and log it."""
        if not self.active:
            return
        self.active = False
        self._quiet = 0
        events, partial_matches = dropped()
        found, expected = self._found - self._episode[0], self._expected - self._episode[1]
        recall = f"{found / expected:.3f}" if expected else "unknown, no match was found"
        _LOG.warning(
            "load was shed for %.6g s: %s; dropped %s events and %s partial matches; estimated recall %s",
            (now - self._began) / 1e9, self._why, f"{events - self._before[0]:,}",
            f"{partial_matches - self._before[1]:,}", recall,
        )  # fmt: skip

    def metrics(self) -> dict[str, Any]:
        """What people see."""
        recall = self.recall
        return {
            "active": self.active,
            "why": self._why if self.active else "",
            "since": self._began if self.active else None,
            "episodes": self.count,
            "estimated_recall": 1.0 if recall is None else recall,
        }

    def state(self) -> dict[str, Any]:
        """What a snapshot has of it."""
        return {
            "count": self.count, "active": self.active, "why": self._why, "began": self._began, "quiet": self._quiet,
            "before": list(self._before), "found": self._found, "expected": self._expected, "matches": self._matches,
            "missed": self._missed, "absent": self._absent,
            "orders": [list(order) for order in self._orders], "episode": list(self._episode),
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.count, self.active, self._why = state["count"], state["active"], state["why"]
        self._began, self._quiet, self._matches = state["began"], state["quiet"], state["matches"]
        self._missed, self._absent = state["missed"], state["absent"]
        self._found, self._expected = state["found"], state["expected"]
        self._before = state["before"][0], state["before"][1]
        self._episode = state["episode"][0], state["episode"][1]
        self._orders = deque(((kept, left) for kept, left in state["orders"]), _PAST)
