"""When and why load was shed, told to people: episodes, lines in the log, and an estimate of the recall."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from fastcep.stored import AMOUNT, COUNT, FLAG, INT64, NUMBER, SHARE, TEXT, listed, or_null, record, sequence

__all__ = ["Episodes"]

_LOG = logging.getLogger("fastcep.shedding")

#: Decisions in a row without shedding after which an episode is over: those of about one window.
_QUIET = 8

#: Nanoseconds without shedding after which the log says that it is over: episodes closer together are told as one.
_CALM = 10_000_000_000

#: Decisions in a row, at least, that demand all there is and do not hold the bound, after which the log says so.
_FAILED = 8

#: Decisions that are remembered; a window seldom has more.
_PAST = 64

#: Matches are not taken to be rarer than that among the true ones: what is kept is an estimate, too.
_RAREST = 0.01

_PAIR = sequence(INT64, INT64)
_TOLD = record({
    "first": INT64, "last": INT64, "why": TEXT, "before": _PAIR, "found": sequence(NUMBER, NUMBER), "failed": FLAG,
})  # fmt: skip
_STATE = record(
    {
        "count": COUNT, "active": FLAG, "why": TEXT, "began": INT64, "quiet": COUNT, "found": NUMBER,
        "expected": NUMBER, "matches": INT64, "missed": INT64, "absent": AMOUNT,
        "orders": listed(sequence(SHARE, SHARE)),
    },
    # "before" and "episode" stand in older snapshots, which lack the others.
    {"unknown": FLAG, "told": or_null(_TOLD), "before": _PAIR, "episode": sequence(NUMBER, NUMBER)},
)  # fmt: skip


class Episodes:
    """Episodes of shedding, one after the other.

    An episode begins with the first decision to shed and is over when nothing was shed for about a window. The recall
    is estimated by weighting each match that was found by the inverse of the chance with which it was kept (Horvitz and
    Thompson): what the shedder's orders of the last window kept on the mean, and of that the share that has outlived
    what was dropped at once since the match began. Of three events in a window the first one is more often far back
    than near, so ages are weighted by themselves.

    The log has a WARNING when shedding starts, one more if the bound cannot be held although all is shed that can be,
    and a line (INFO) when nothing was shed for ten seconds, or the stream has ended. On the virtual clock these are
    seconds of its own.

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
        self._found = 0.0
        self._expected = self._absent = 0.0
        self._matches = self._missed = 0
        self._orders: deque[tuple[float, float]] = deque(maxlen=_PAST)
        self._unknown = False
        self._told: dict[str, Any] | None = None  # what the log said when shedding started
        self._costs: list[float] = []  # of an event, in each decision in a row that demanded all

    def lose_track(self) -> None:
        """Take into account that something is dropped of which the shedder does not know what it loses."""
        self._unknown = True

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
        if self._told is not None:
            first = self._told["before"]
            self._told["before"] = [first[0] + events, first[1] + partial_matches]

    @property
    def recall(self) -> float | None:
        """The estimated share of the matches that were found; None if it is unknown."""
        if self._unknown or not self._expected:
            return None if self._unknown or self.count else 1.0
        return self._found / (self._expected + self._absent)

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
                self.count += 1
            self._tell_start(now, why, before)
        elif self.active:
            self._quiet += 1
            if self._quiet >= _QUIET:
                self.active, self._quiet = False, 0
        if self._told is not None and not self.active and now - self._told["last"] >= _CALM:
            self._tell_end(dropped)

    def judge(self, failed: bool, cost: float, bound: float | None, by_window: float) -> None:
        """Take into account whether the bound was missed although all is demanded; an event took ``cost`` ns then.

        What is demanded shows in the course of a window, which has ``by_window`` decisions.
        """
        if not failed or self._told is None or self._told["failed"]:
            self._costs.clear()
            return
        self._costs.append(cost)
        if len(self._costs) >= min(max(_FAILED, 2 * by_window), _PAST):
            self._told["failed"] = True
            limit = "the limit" if bound is None else f"the latency bound of {_duration(bound)}"
            _LOG.warning(
                "%s cannot be held: with all shed that the shedder can, an event costs at least %s; give a larger "
                "bound, a simpler query, or a shedder that drops events", limit,
                _duration(sum(self._costs) / len(self._costs)),
            )  # fmt: skip

    def end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        """End the episode that goes on, if there is one: the stream has ended."""
        self.active, self._quiet = False, 0
        if self._told is not None:
            self._tell_end(dropped)

    def _tell_start(self, now: int, why: str, before: tuple[int, int]) -> None:
        if self._told is None:
            self._told = {
                "first": now, "why": why, "before": list(before), "found": [self._found, self._expected],
                "failed": False,
            }  # fmt: skip
            _LOG.warning("load is shed: %s", why)
        self._told["last"] = now

    def _tell_end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        assert self._told is not None
        told, self._told = self._told, None
        events, partial_matches = (new - old for new, old in zip(dropped(), told["before"], strict=True))
        found, expected = self._found - told["found"][0], self._expected - told["found"][1]
        recall = "n/a" if self._unknown or not expected else f"{found / expected:.3f}"
        _LOG.info(
            "load was shed for %s: %s; dropped %s events and %s partial matches; estimated recall %s",
            _duration(told["last"] - told["first"]), told["why"], f"{events:,}", f"{partial_matches:,}", recall,
        )  # fmt: skip

    def metrics(self) -> dict[str, Any]:
        """What people see."""
        return {
            "active": self.active,
            "why": self._why if self.active else "",
            "since": self._began if self.active else None,
            "episodes": self.count,
            "estimated_recall": self.recall,
        }

    def state(self) -> dict[str, Any]:
        """What a snapshot has of it."""
        return {
            "count": self.count, "active": self.active, "why": self._why, "began": self._began, "quiet": self._quiet,
            "found": self._found, "expected": self._expected, "matches": self._matches,
            "missed": self._missed, "absent": self._absent,
            "orders": [list(order) for order in self._orders], "unknown": self._unknown, "told": self._told,
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        _STATE(state, "control.episodes")
        self.count, self.active, self._why = state["count"], state["active"], state["why"]
        self._began, self._quiet, self._matches = state["began"], state["quiet"], state["matches"]
        self._missed, self._absent = state["missed"], state["absent"]
        self._found, self._expected = state["found"], state["expected"]
        self._unknown, self._told = state.get("unknown", False), state.get("told")  # which older snapshots lack
        self._orders = deque(((kept, left) for kept, left in state["orders"]), _PAST)


def _duration(nanoseconds: float) -> str:
    """A time for people, of three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
