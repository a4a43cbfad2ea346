"""Report shedding: episodes, log messages, and an estimate of the recall."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from fastcep.stored import AMOUNT, COUNT, FLAG, INT64, NUMBER, SHARE, TEXT, listed, or_null, record, sequence

__all__ = ["Episodes"]

_LOG = logging.getLogger("fastcep.shedding")

#: Consecutive decisions without shedding that end an episode: those of about one window.
_QUIET = 8

#: Nanoseconds without shedding after which the log reports its end; episodes closer together are reported as one.
_CALM = 10_000_000_000

#: Minimum number of consecutive decisions at the largest demand without holding the bound, before the log reports it.
_FAILED = 8

#: Number of decisions that are kept; a window seldom has more.
_PAST = 64

#: Lower limit of the probability of keeping a match, as that probability is an estimate.
_RAREST = 0.01

_PAIR = sequence(INT64, INT64)
_LOGGED = record({
    "first": INT64, "last": INT64, "why": TEXT, "before": _PAIR, "found": sequence(NUMBER, NUMBER), "failed": FLAG,
})  # fmt: skip
_STATE = record(
    {
        "count": COUNT, "active": FLAG, "why": TEXT, "began": INT64, "quiet": COUNT, "found": NUMBER,
        "expected": NUMBER, "matches": INT64, "missed": INT64, "absent": AMOUNT,
        "orders": listed(sequence(SHARE, SHARE)),
    },
    # Older snapshots have "before" and "episode", and lack the others.
    {"unknown": FLAG, "told": or_null(_LOGGED), "before": _PAIR, "episode": sequence(NUMBER, NUMBER)},
)  # fmt: skip


class Episodes:
    """Successive episodes of shedding.

    An episode begins with the first decision to shed. It ends when nothing was shed for about a window.

    The recall is estimated by weighting each match found by the inverse of its probability of being kept (Horvitz and
    Thompson). This probability is the mean share of matches kept by the drop plans of the last window, times the share
    that survived the drops of live partial matches since the match began. Ages are weighted by themselves, because the
    first of three events in a window is more often old than recent.

    The log has a WARNING when shedding starts, another one if the bound cannot be held at the largest demand, and an
    INFO message when nothing was shed for ten seconds of the engine's clock or the stream has ended.

    Attributes
    ----------
    count
        Number of episodes that have begun.
    active
        Whether an episode is in progress.
    """

    def __init__(self) -> None:
        self.count = 0
        self.active = False
        self._why = ""
        self._began = 0
        self._quiet = 0
        self._found_matches = 0.0
        self._expected = self._absent = 0.0
        self._match_count = self._missed = 0
        self._kept_shares: deque[tuple[float, float]] = deque(maxlen=_PAST)
        self._unknown = False
        self._logged: dict[str, Any] | None = None  # values at the start of shedding that the log has reported
        self._costs: list[float] = []  # ns per event, at consecutive decisions with the largest demand

    def lose_track(self) -> None:
        """Record that the loss of a drop is unknown; the recall is unknown from now on."""
        self._unknown = True

    def record_matches(
        self, matches: int, kept: float, left: float, by_window: float, taken: int, missed: int, lost: float = 0.0
    ) -> None:
        """Record the matches up to a decision, and the shares that its drop plans keep.

        Parameters
        ----------
        matches
            Number of matches so far.
        kept, left
            Share of future matches that the new drop plans keep, and share of the matches under way that is left after
            the drops of live partial matches.
        by_window
            Number of decisions in a window.
        taken, missed
            Number of events that queries have matched so far, and that they missed after they ran out of memory. Missed
            events are expected to yield as many matches per event as the others.
        lost
            Estimated number of matches lost by the work limit since the last call.
        """
        if missed > self._missed and taken > 0:
            self._absent += (missed - self._missed) * self._expected / taken
            self._missed = missed
        new = matches - self._match_count
        self._match_count = matches
        self._found_matches += new
        self._expected += (new + lost) / max(self._keep_probability(by_window), _RAREST)
        self._kept_shares.append((kept, left))

    def _keep_probability(self, by_window: float) -> float:
        """Return the probability that a match that ends now has been kept."""
        shares = list(self._kept_shares)[-max(1, round(by_window)) :][::-1]
        if not shares:
            return 1.0
        survival, total, weights = 1.0, 0.0, 0.0
        for age, (_, left) in enumerate(shares):
            total += (age + 0.5) * survival * (1 + left) / 2  # half of the matches of this age had begun at the drop
            weights += age + 0.5
            survival *= left
        mean_kept = sum(kept for kept, _ in shares) / len(shares)
        return mean_kept * (1 - min(by_window, 1.0) * (1 - total / weights))  # rare decisions miss some windows

    def shift_counters(self, matches: int, missed: int, events: int, partial_matches: int) -> None:
        """Adjust for a jump of the counters by these numbers, after queries or their states were exchanged."""
        self._match_count += matches
        self._missed += missed
        if self._logged is not None:
            before = self._logged["before"]
            self._logged["before"] = [before[0] + events, before[1] + partial_matches]

    @property
    def recall(self) -> float | None:
        """Estimated share of the true matches that were found; None if unknown."""
        if self._unknown or not self._expected:
            return None if self._unknown or self.count else 1.0
        return self._found_matches / (self._expected + self._absent)

    def record_decision(
        self, now: int, sheds: bool, why: str, before: tuple[int, int], dropped: Callable[[], tuple[int, int]]
    ) -> None:  # fmt: skip
        """Record a decision.

        Parameters
        ----------
        now
            Time of the decision, in ns on the engine's clock.
        sheds
            Whether the decision sheds load.
        why
            Reason, for the log and the metrics.
        before
            Number of events, and of partial matches, dropped before the decision. It counts if the decision begins an
            episode, as the decision itself may drop partial matches.
        dropped
            Function that returns these numbers since the engine was created.
        """
        if sheds:
            self._quiet = 0
            if not self.active:
                self.active, self._why, self._began = True, why, now
                self.count += 1
            self._log_start(now, why, before)
        elif self.active:
            self._quiet += 1
            if self._quiet >= _QUIET:
                self.active, self._quiet = False, 0
        if self._logged is not None and not self.active and now - self._logged["last"] >= _CALM:
            self._log_end(dropped)

    def check_bound(self, failed: bool, cost: float, bound: float | None, by_window: float) -> None:
        """Log a warning if the bound is missed at the largest demand for two windows.

        Parameters
        ----------
        failed
            Whether the bound was missed at the largest demand. The demand takes effect in the course of a window.
        cost
            Time per event since the last decision, in ns.
        bound
            Latency bound in ns, or None.
        by_window
            Number of decisions in a window.
        """
        if not failed or self._logged is None or self._logged["failed"]:
            self._costs.clear()
            return
        self._costs.append(cost)
        if len(self._costs) >= min(max(_FAILED, 2 * by_window), _PAST):
            self._logged["failed"] = True
            limit = "the limit" if bound is None else f"the latency bound of {_duration(bound)}"
            _LOG.warning(
                "%s cannot be held: with all shed that the shedder can, an event costs at least %s; give a larger "
                "bound, a simpler query, or a shedder that drops events", limit,
                _duration(sum(self._costs) / len(self._costs)),
            )  # fmt: skip

    def end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        """End the episode in progress, if any, at the end of the stream."""
        self.active, self._quiet = False, 0
        if self._logged is not None:
            self._log_end(dropped)

    def _log_start(self, now: int, why: str, before: tuple[int, int]) -> None:
        if self._logged is None:
            self._logged = {
                "first": now, "why": why, "before": list(before), "found": [self._found_matches, self._expected],
                "failed": False,
            }  # fmt: skip
            _LOG.warning("load is shed: %s", why)
        self._logged["last"] = now

    def _log_end(self, dropped: Callable[[], tuple[int, int]]) -> None:
        assert self._logged is not None
        start, self._logged = self._logged, None
        events, partial_matches = (new - old for new, old in zip(dropped(), start["before"], strict=True))
        found, expected = self._found_matches - start["found"][0], self._expected - start["found"][1]
        recall = "n/a" if self._unknown or not expected else f"{found / expected:.3f}"
        _LOG.info(
            "load was shed for %s: %s; dropped %s events and %s partial matches; estimated recall %s",
            _duration(start["last"] - start["first"]), start["why"], f"{events:,}", f"{partial_matches:,}", recall,
        )  # fmt: skip

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the current episode and the estimated recall, see `Engine.metrics`."""
        return {
            "active": self.active,
            "why": self._why if self.active else "",
            "since": self._began if self.active else None,
            "episodes": self.count,
            "estimated_recall": self.recall,
        }

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return {
            "count": self.count, "active": self.active, "why": self._why, "began": self._began, "quiet": self._quiet,
            "found": self._found_matches, "expected": self._expected, "matches": self._match_count,
            "missed": self._missed, "absent": self._absent,
            "orders": [list(shares) for shares in self._kept_shares], "unknown": self._unknown, "told": self._logged,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(state, "control.episodes")
        self.count, self.active, self._why = state["count"], state["active"], state["why"]
        self._began, self._quiet, self._match_count = state["began"], state["quiet"], state["matches"]
        self._missed, self._absent = state["missed"], state["absent"]
        self._found_matches, self._expected = state["found"], state["expected"]
        self._unknown, self._logged = state.get("unknown", False), state.get("told")  # older snapshots lack them
        self._kept_shares = deque(((kept, left) for kept, left in state["orders"]), _PAST)


def _duration(nanoseconds: float) -> str:
    """Format a duration to three digits, with its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
