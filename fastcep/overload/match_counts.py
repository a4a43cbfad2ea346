"""Combine estimates of the number of matches without load shedding, with a confidence interval.

Three estimates of the number of matches without shedding are combined:

* The *weighted* one (Horvitz and Thompson): each match found counts as the inverse of the probability with which all
  its events and partial matches were kept. The matcher carries these weights (``_core/shed/flows.pyx``). It needs no
  assumption about the stream, but it is noisy if much is dropped with a probability near 1.
* The *modelled* one: the matches found, divided by the share that the drop plans keep according to the shedder. The
  smaller that share, the more the number of matches per event before counts instead.
* The *historical* one: the number of events, times the matches per event in the history of the shedder's model. It does
  not depend on what is dropped, but the stream may differ from the history.

If the first two differ by more than chance, the weighted estimate counts, otherwise both do, as in a random-effects
meta-analysis (DerSimonian and Laird): the variance of the model is estimated by the excess of the squared difference
over the sampling variance. Its standard deviation is at least the error that the shedder reports, and half of the
matches that it says were lost, because models are most often wrong about these. The result is combined with the
historical estimate in the same way, where matches may have been lost. The interval does not become narrower by the
latter, because the stream may change in a way that the matches found do not show.

The sampling variance of the weighted estimate is the sum of ``w * (w - 1)`` over matches of weight ``w``, if matches
are kept independently of each other. Matches that share events are not. So the same sum is also taken over *blocks* of
some windows: the weights of a block, times the excess of these weights over the matches found. The quotient of both
is the *design effect*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, sqrt
from typing import Any, NamedTuple

__all__ = ["CONFIDENCE", "DESIGN_EFFECT", "Counts", "Estimate", "MatchRate", "estimate", "total"]

#: Probability with which the interval covers the truth, and the quantile of the normal distribution for it.
CONFIDENCE, _QUANTILE = 0.95, 1.96

#: Design effect where it is not measured, and the least one while the work for single events is limited: all that an
#: event does beyond the limit has the same weight.
DESIGN_EFFECT, _LIMITED_EFFECT = 10.0, 40.0

#: Least standard deviation of the modelled number of matches that were lost, as a share of that number.
_LOSS_ERROR = 0.5

#: Relative standard deviation of the match rate of a history from that of the stream after it.
_HISTORY_ERROR = 0.1

#: If none of n equal units is seen, each kept with probability p, then n is below 3 / p (95 %).
_UNSEEN = 3.0


class MatchRate(NamedTuple):
    """Number of matches without load shedding in a number of events.

    Attributes
    ----------
    events
        Number of events, above 0.
    matches
        Number of matches in them.
    window
        Mean number of events in a window, as the matches per event depend on it; 0: unknown. Then the rate counts only
        for windows of a fixed number of events.
    """

    events: float
    matches: float
    window: float


@dataclass(slots=True)
class Counts:
    """Counted and estimated numbers of matches of a stretch of the stream.

    Attributes
    ----------
    found
        Number of matches found.
    modelled, weighted
        Number of matches without shedding, by the model and by the weights.
    variance
        Variance of `weighted`, if matches were kept independently of each other.
    unseen
        Variance that the modelled number of lost matches would give `weighted`.
    largest
        Largest weight of a single event or partial match.
    error
        Standard deviation of `modelled` that the shedder reports.
    unknown
        Number of decisions with drops of a loss that the model does not show, either.
    limited
        Number of counts before which the work for some event was stopped at its limit.
    historical, historical_error
        Number of matches without shedding by the match rate of the history, and its standard deviation if matches were
        independent of each other. Both are 0 where no match can have been lost, and where the rate is unknown.
    """

    found: float = 0.0
    modelled: float = 0.0
    weighted: float = 0.0
    variance: float = 0.0
    unseen: float = 0.0
    largest: float = 1.0
    error: float = 0.0
    unknown: float = 0.0
    limited: float = 0.0
    historical: float = 0.0
    historical_error: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the counts of another stretch."""
        self.found += other.found
        self.modelled += other.modelled
        self.weighted += other.weighted
        self.variance += other.variance
        self.unseen += other.unseen
        self.largest = max(self.largest, other.largest)
        self.error += other.error
        self.unknown += other.unknown
        self.limited += other.limited
        self.historical += other.historical
        self.historical_error += other.historical_error


@dataclass(frozen=True, slots=True)
class Estimate:
    """Number of matches without shedding.

    Attributes
    ----------
    found
        Number of matches found.
    expected
        Estimated number of matches without shedding.
    low, high
        Bounds of the confidence interval of `expected`; None: unknown.
    """

    found: float
    expected: float
    low: float | None
    high: float | None

    @property
    def recall(self) -> float | None:
        """Estimated share of the matches that were found; None if none is expected."""
        return self.found / self.expected if self.expected > 0 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Bounds of the confidence interval of the `recall`."""
        if self.low is None or self.high is None or self.expected <= 0:
            return None
        return self.found / self.high, self.found / self.low if self.low > 0 else 1.0

    def metrics(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        bounds = None if self.low is None or self.high is None else [self.low, self.high]
        return {
            "found": self.found, "expected": self.expected, "expected_interval": bounds,
            "estimated_recall": self.recall,
            "estimated_recall_interval": None if self.interval is None else list(self.interval),
        }  # fmt: skip


def total(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate for several queries; their errors are taken to be independent."""
    found = expected = below = above = 0.0
    known = True
    for item in estimates:
        found, expected = found + item.found, expected + item.expected
        known &= item.low is not None and item.high is not None
        below += (item.expected - (item.low or 0.0)) ** 2
        above += ((item.high or 0.0) - item.expected) ** 2
    if not known:
        return Estimate(found, expected, None, None)
    return Estimate(found, expected, max(found, expected - sqrt(below)), expected + sqrt(above))


def estimate(counts: Counts, rated: Counts, design_effect: float) -> Estimate:
    """Return the estimate for a stretch of the stream.

    Parameters
    ----------
    counts, rated
        Counts of the stretch, and of those parts of it for which there is a historical number.
    design_effect
        Factor on the sampling variance because matches share events.
    """
    if counts.unknown:
        return Estimate(counts.found, 0.0, None, None)
    first, variance = _of_matches_found(counts, design_effect)
    spread = _QUANTILE * sqrt(variance)
    if counts.largest > 1:
        spread += _UNSEEN * (counts.largest - 1)
    expected = max(counts.found, first + _correction(rated, design_effect))
    low, high = max(counts.found, min(first, expected) - spread), max(first, expected) + spread
    return Estimate(counts.found, expected, low, high)


def _of_matches_found(counts: Counts, design_effect: float) -> tuple[float, float]:
    """Return the number of matches by the weighted and the modelled estimate, and its variance."""
    sampling = max(counts.variance * max(design_effect, _LIMITED_EFFECT * (counts.limited > 0)), counts.unseen)
    difference = counts.modelled - counts.weighted
    error = hypot(counts.error, _LOSS_ERROR * max(0.0, counts.modelled - counts.found))
    share = _weight_of_second(sampling, difference, error**2)
    expected = max(counts.found, counts.weighted + share * difference)
    return expected, sampling + (share * error) ** 2


def _correction(rated: Counts, design_effect: float) -> float:
    """Return what the history adds to the number of matches; 0 if it has fewer than were found."""
    if rated.historical <= rated.found:
        return 0.0
    first, variance = _of_matches_found(rated, design_effect)
    difference = rated.historical - first
    least = DESIGN_EFFECT * rated.historical_error**2 + (_HISTORY_ERROR * rated.historical) ** 2
    return _weight_of_second(variance, difference, least) * difference


def _weight_of_second(variance: float, difference: float, least: float) -> float:
    """Return the weight of the second of two estimates in their mean.

    Parameters
    ----------
    variance
        Variance of the first estimate.
    difference
        Second estimate minus the first one. The part of its square above ``variance`` estimates the second variance.
    least
        Smallest variance of the second estimate.
    """
    second = max(difference**2 - variance, least)
    return variance / (variance + second) if variance + second > 0 else 0.0
