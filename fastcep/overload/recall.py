"""Estimate the recall of a query under load shedding from its drop plans, its matches and their weights.

The matches are counted about twelve times in a window. How the counts give an estimate is described in
`fastcep.overload.match_counts`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from math import sqrt
from typing import Any

from fastcep.overload.match_counts import DESIGN_EFFECT, Counts, Estimate, MatchRate, estimate
from fastcep.stored import COUNT, INT64, NUMBER, listed, or_null, record, sequence

__all__ = ["RecallEstimate"]

#: Least share of a window between two counts of the matches; decisions in between are combined.
_COUNTED = 1 / 12

#: Number of counts that are kept, and over which recent matches are estimated: more than five windows.
_PAST = 64

#: Share that a shedder does not report.
_UNKNOWN = -1.0

#: Probability of keeping a match below which the matches found count less, as that probability is an estimate.
_RARE = 0.1

#: Share that the sums for the usual number of matches per event lose at each count.
_FORGOTTEN = 1 / 16

#: Number of windows over which their mean number of events is taken, and relative difference up to which they have as
#: many events as in the history.
_AVERAGED, _SIMILAR = 4, 0.1

#: Length of a block in windows; matches at its borders belong to two blocks, which should be few.
_BLOCK = 4

#: Number of pairs of blocks from which on the design effect is taken as measured; before that, it is not taken as less
#: than the usual one.
_PAIRS = 8


@dataclass(slots=True)
class _Interval:
    """Drop plans in force since matches were last counted.

    Attributes
    ----------
    events
        Number of events.
    kept, left
        Sum over events of the share of future matches that the drop plan kept, and product of the shares of the matches
        under way that were left; -1: unknown.
    limited
        Whether the work for an event was stopped at its limit.
    error
        Sum over events of the standard deviation of the share kept.
    historical, historical_error
        Sums over events of the match rate of the history, and of its standard deviation if matches were independent;
        -1: unknown.
    largest
        Two largest weights of types, variables or states, of the drop plan where their product was largest.
    plan
        Share kept by the drop plan in force, its standard deviation, and its two largest weights.
    """

    events: float = 0.0
    kept: float = 0.0
    left: float = 1.0
    limited: bool = False
    error: float = 0.0
    historical: float = 0.0
    historical_error: float = 0.0
    largest: tuple[float, float] = (1.0, 1.0)
    plan: tuple[float, float, float, float] = (1.0, 0.0, 1.0, 1.0)

    def advance(self, events: int, limited: bool, rate: MatchRate | None) -> None:
        """Add events under the drop plan in force."""
        kept, error, *_ = self.plan
        self.events += events
        self.kept = _UNKNOWN if kept < 0 or self.kept < 0 else self.kept + kept * events
        self.error += error * events
        self.limited |= limited
        if rate is None or self.historical < 0:
            self.historical = _UNKNOWN
        else:
            self.historical += rate.matches * (events / rate.events)
            self.historical_error += sqrt(max(rate.matches, 1.0)) * (events / rate.events)

    def follow(self, kept: float, left: float, largest: tuple[float, float], error: float) -> None:
        """Follow a new drop plan."""
        self.left = _UNKNOWN if left < 0 or self.left < 0 else self.left * left
        self.plan = kept, error, *largest
        self.largest = max(self.largest, largest, key=lambda weights: weights[0] * weights[1])

    def start(self) -> None:
        """Start a new interval with the drop plan in force."""
        self.events = self.kept = self.error = self.historical = self.historical_error = 0.0
        self.limited = False
        self.left, self.largest = 1.0, self.plan[2:]

    def shares(self) -> tuple[float, float]:
        """Return the mean share kept, and the share left; -1: unknown."""
        return _UNKNOWN if self.kept < 0 else self.kept / self.events, self.left

    @property
    def mean_error(self) -> float:
        """Mean standard deviation of the share kept."""
        return self.error / self.events

    def state(self) -> list[float]:
        """Return the state for a snapshot."""
        return [
            self.events, self.kept, self.left, float(self.limited), self.error, *self.largest, *self.plan,
            self.historical, self.historical_error,
        ]  # fmt: skip

    @classmethod
    def of(cls, state: Sequence[float]) -> _Interval:
        """Restore a `state`."""
        events, kept, left, limited, error, largest, second, *plan = state
        historical = plan[4:] or [_UNKNOWN, 0.0]  # older snapshots lack it
        return cls(
            events, kept, left, limited > 0, error, historical[0], historical[1], (largest, second),
            (plan[0], plan[1], plan[2], plan[3]),
        )  # fmt: skip


class RecallEstimate:
    """Estimate of the recall of one query.

    Attributes
    ----------
    counts
        Counts since the query was added.
    rate
        Match rate of the history at the last decision; None: unknown.
    """

    def __init__(self, matches: int = 0) -> None:
        self.counts = Counts()
        self.rate: MatchRate | None = None
        self._matches, self._missed = matches, 0
        self._interval = _Interval()
        self._kept_shares: deque[tuple[float, float]] = deque(maxlen=_PAST)
        self._usual = 0.0, 0.0  # expected matches and events, where the former could be estimated
        self._recent: deque[Counts] = deque()
        self._rated = Counts()  # counts with historical numbers, but for the recent ones
        self._window = 0.0  # mean number of events in a window, of late
        self._block, self._block_size = Counts(), 0
        self._last_block: Counts | None = None
        self._pairs = 0
        self._together = self._apart = 0.0  # sampling variance of the blocks, if drawn as a whole, and by match

    def advance(self, events: int, limited: bool, window: float, rate: MatchRate | None = None) -> bool:
        """Record that the drop plan in force was so for some events; return whether `count` is due.

        Parameters
        ----------
        events
            Number of events since the last decision.
        limited
            Whether the work for one of these was stopped at its limit.
        window
            Number of events in a window.
        rate
            Match rate of the history; None: unknown.
        """
        self.rate = rate
        self._window += (window - self._window) * (min(1.0, events / (_AVERAGED * window)) if self._window > 0 else 1.0)
        self._interval.advance(events, limited, rate)
        return self._interval.events >= window * _COUNTED

    def count(
        self, matches: int, taken: int, missed: int, window: float, weighed: tuple[float, float, float],
        beyond: float = 1.0, *, certain: bool = False,
    ) -> None:  # fmt: skip
        """Count the matches since the last call, which were found under the drop plans in force since then.

        Parameters
        ----------
        matches
            Number of matches so far.
        taken, missed
            Number of events that the query has matched so far, and that it missed after it ran out of memory. Missed
            events are expected to yield as many matches per event as the others.
        window
            Number of events in a window.
        weighed
            Number of matches made since the last call, sum of their weights, and sum of the squares.
        beyond
            Largest weight of what an event did beyond its limit.
        certain
            Whether some drops in force were certain, so that the weights do not show them.
        """
        new, self._matches = matches - self._matches, matches
        absent = 0.0
        if missed > self._missed and taken > 0:
            absent = (missed - self._missed) * self.counts.weighted / taken
            self._missed = missed
        by_window = window / self._interval.events
        self._kept_shares.append(self._interval.shares())
        counts = self._counts(new, absent, self._keep_probability(by_window), weighed, certain)
        counts.error += self._interval.mean_error * counts.modelled
        counts.limited = float(self._interval.limited)
        counts.largest = max(counts.largest, beyond)
        self.counts.add(counts)
        self._recent.append(counts)
        if len(self._recent) > _PAST and (old := self._recent.popleft()).historical_error > 0:
            self._rated.add(old)
        self._add_to_block(counts, by_window)
        self._interval.start()

    def follow_plan(
        self, kept: float | None, left: float | None, largest: tuple[float, float], error: float
    ) -> None:
        """Follow a new drop plan.

        Parameters
        ----------
        kept, left
            Share of future matches that the drop plan keeps, and share of the matches under way that is left after its
            drops of live partial matches; None: unknown.
        largest
            Two largest weights of types, variables or states.
        error
            Standard deviation of `kept`.
        """
        self._interval.follow(_UNKNOWN if kept is None else kept, _UNKNOWN if left is None else left, largest, error)

    def _counts(
        self, new: int, absent: float, probability: float | None, weighed: tuple[float, float, float], certain: bool
    ) -> Counts:
        """Return the counts of the interval, given the keep probability of the model."""
        limited, largest = self._interval.limited, self._interval.largest
        made, weight, square = weighed
        scale = new / made if made > 0 else 0.0  # matches may be discarded after they are weighed
        unlimited = max(new, scale * weight) if limited and certain else new
        share = 1.0 if probability is None else min(1.0, probability / _RARE)  # weight of the matches found
        usual = self._interval.events * self._usual[0] / max(self._usual[1], 1.0)
        modelled = unlimited / max(1.0 if probability is None else probability, _RARE) + (1 - share) * usual
        counts = Counts(float(new), modelled + absent, largest=max(largest))
        if certain or (new > 0 and made <= 0 and probability is not None and probability < 1):
            counts.unknown = float(probability is None)
            counts.weighted = counts.modelled
            counts.variance = counts.modelled * (counts.modelled - new) / max(new, 1)  # as if all weights were equal
            counts.error = max(0.0, counts.modelled - new) * certain
        else:
            counts.weighted = (scale * weight if made > 0 else new) + absent
            counts.variance = scale * (square - weight)
            if probability is None or limited:  # the model does not know what the limit loses
                counts.modelled = counts.weighted
            else:
                counts.unseen = max(0.0, counts.modelled - new) * (largest[0] * largest[1] - 1)
        loses = certain or probability is None or probability < 1 or limited
        # What the work limit loses is lost where there are most matches, so the intervals between count as well.
        loses = loses or any(item.limited > 0 for item in self._recent)
        if loses and self._interval.historical >= 0 and self._windows_are_similar():
            counts.historical, counts.historical_error = self._interval.historical, self._interval.historical_error
        if not counts.unknown:
            self._usual = (
                (1 - _FORGOTTEN) * self._usual[0] + share * counts.modelled,
                (1 - _FORGOTTEN) * self._usual[1] + share * self._interval.events,
            )
        return counts

    def _windows_are_similar(self) -> bool:
        """Return whether windows have about as many events as in the history."""
        return self.rate is not None and abs(self._window - self.rate.window) <= _SIMILAR * self.rate.window

    def withdraw_history(self) -> None:
        """Discard the recent historical numbers: the stream has changed some time before this was noticed."""
        for item in self._recent:
            item.historical = item.historical_error = 0.0

    def _add_to_block(self, counts: Counts, by_window: float) -> None:
        """Add counts to the block; update the design effect if it is complete."""
        self._block.add(counts)
        self._block_size += 1
        if self._block_size < _BLOCK * by_window:
            return
        block, before = self._block, self._last_block
        if before is not None:
            weighted, missing = block.weighted - before.weighted, block.weighted - block.found
            self._together += weighted * (missing - before.weighted + before.found) / 2
            self._apart += (block.variance + before.variance) / 2
            self._pairs += 1
        self._last_block, self._block, self._block_size = block, Counts(), 0

    @property
    def design_effect(self) -> float:
        """Factor on the sampling variance because matches share events."""
        if self._apart <= 0:
            return DESIGN_EFFECT
        effect = max(1.0, self._together / self._apart)
        effect *= (1 + 2 / max(self._pairs, 1)) ** 2  # as Student's t, for two thirds as many degrees of freedom
        weight = min(1.0, self._pairs / _PAIRS)
        return weight * effect + (1 - weight) * max(effect, DESIGN_EFFECT)

    def _keep_probability(self, by_window: float) -> float | None:
        """Return the probability that a match that ends now has been kept, by the drop plans of the last window.

        Ages are weighted by themselves, because the first of three events in a window is more often old than recent.
        """
        shares = list(self._kept_shares)[-max(1, round(by_window)) :][::-1]
        if not shares:
            return 1.0
        if any(kept < 0 or left < 0 for kept, left in shares):
            return None
        survival, weighted, weights = 1.0, 0.0, 0.0
        for age, (_, left) in enumerate(shares):
            weighted += (age + 0.5) * survival * (1 + left) / 2  # half of the matches of this age had begun at the drop
            weights += age + 0.5
            survival *= left
        mean_kept = sum(kept for kept, _ in shares) / len(shares)
        return mean_kept * (1 - min(by_window, 1.0) * (1 - weighted / weights))  # rare decisions miss some windows

    def shift(self, matches: int) -> None:
        """Adjust for a jump of the number of matches, after the state has moved to another matcher."""
        self._matches += matches

    @property
    def total(self) -> Estimate:
        """Estimate since the query was added."""
        rated = replace(self._rated)
        rated.add(self._recent_counts(rated=True))
        return estimate(self.counts, rated, self.design_effect)

    @property
    def recent(self) -> Estimate:
        """Estimate for the last 64 counts, of at least a twelfth of a window each."""
        return estimate(self._recent_counts(), self._recent_counts(rated=True), self.design_effect)

    def _recent_counts(self, *, rated: bool = False) -> Counts:
        """Return the sum of the recent counts; ``rated``: of those with historical numbers."""
        counts = Counts()
        for item in self._recent:
            if not rated or item.historical_error > 0:
                counts.add(item)
        return counts

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {
            "matches": self._matches, "missed": self._missed, "interval": self._interval.state(),
            "counts": list(astuple(self.counts)),
            "shares": [list(shares) for shares in self._kept_shares],
            "recent": [list(astuple(item)) for item in self._recent],
            "block": list(astuple(self._block)), "size": self._block_size,
            "last": None if self._last_block is None else list(astuple(self._last_block)),
            "effect": [self._pairs, self._together, self._apart], "usual": list(self._usual),
            "rated": list(astuple(self._rated)), "rate": None if self.rate is None else list(self.rate),
            "window": self._window,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`; raise `Misfit` if it is invalid."""
        _STATE(state, "control.queries.recall")
        self._matches, self._missed, self.counts = state["matches"], state["missed"], Counts(*state["counts"])
        self._interval = _Interval.of(state["interval"])
        self._kept_shares = deque(((kept, left) for kept, left in state["shares"]), _PAST)
        self._recent = deque(Counts(*item) for item in state["recent"])
        self._block, self._block_size = Counts(*state["block"]), state["size"]
        self._last_block = None if state["last"] is None else Counts(*state["last"])
        self._pairs, self._together, self._apart = state["effect"]
        matches, events = state.get("usual", (0.0, 0.0))  # older snapshots lack it
        self._usual = matches, events
        self._rated = Counts(*state["rated"]) if "rated" in state else Counts()
        rate = state.get("rate")
        self.rate = None if rate is None else MatchRate(*rate)
        self._window = state.get("window", 0.0)


_COUNTS = sequence(*[NUMBER] * 11, optional=2)  # older snapshots lack the historical numbers
_STATE = record({
    "matches": INT64, "missed": INT64, "interval": sequence(*[NUMBER] * 13, optional=2),
    "counts": _COUNTS, "shares": listed(sequence(NUMBER, NUMBER)),
    "recent": listed(_COUNTS), "block": _COUNTS, "size": COUNT, "last": or_null(_COUNTS),
    "effect": sequence(COUNT, NUMBER, NUMBER),
}, {
    "usual": sequence(NUMBER, NUMBER), "rated": _COUNTS, "rate": or_null(sequence(*[NUMBER] * 3)), "window": NUMBER,
})  # fmt: skip
