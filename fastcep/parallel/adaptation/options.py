"""Options of the adaptation loop."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from fastcep.errors import ValidationError
from fastcep.option_checks import check_whole, duration_option
from fastcep.parallel.adaptation.forecast import Method, check_method
from fastcep.parallel.queueing.profile import Profile
from fastcep.parallel.queueing.target import LEAST_SAMPLES, check_target

__all__ = ["KEPT", "MOST_INSTANCES", "Adaptation"]

#: Number of rates and decisions that a loop keeps.
KEPT = 500
#: Largest number of instances of a `ParallelEngine`, and of an adaptation without ``most``.
MOST_INSTANCES = 256


@dataclass(frozen=True)
class Adaptation:
    """Options of an adaptation loop.

    Attributes
    ----------
    buffer_limit
        Largest number of events that should wait or be processed at a time.
    probability
        Probability with which this must hold at an arbitrary time.
    least, most
        Smallest and largest number of instances; None: as many as this process can use processors, and 256 at most.
    initial
        Number of instances before the first decision; None: `least`.
    samples
        Number of times between events from which their distribution is found (the paper's *slength*). 1,600 give the
        mean to ±5 %, and 400 to ±10 %; more of them notice a change later.
    interval
        Time between two decisions (the paper's *sfreq*), such as ``"10s"``; None: a decision each time that `samples`
        more events have arrived.
    horizon
        Time that a new instance takes to start (the paper's *TH*).
    forecast, period
        Method of the forecast, see `forecast`, and the number of intervals in a season.
    profile
        Service times by rate; None: those that the instances of a `ParallelEngine` measure while they run.
    margin
        Number of standard errors of the measured rate by which a higher rate is expected than the forecast.

    Raises
    ------
    ValidationError
        If an option is invalid.
    """

    buffer_limit: int
    probability: float = 0.95
    least: int = 1
    most: int | None = None
    initial: int | None = None
    samples: int = 1_600
    interval: str | timedelta | None = "10s"
    horizon: str | timedelta = "5s"
    forecast: Method = "auto"
    period: int | None = None
    profile: Profile | None = None
    margin: float = 1.0

    def __post_init__(self) -> None:
        check_target(self.buffer_limit, self.probability, self.largest)
        for name, value, low, high in (
            ("least", self.least, 1, self.largest),
            ("initial", self.first, self.least, self.largest),
            ("samples", self.samples, LEAST_SAMPLES, 1_000_000),
            ("period", 2 if self.period is None else self.period, 2, KEPT),
        ):
            check_whole(name, value, low, high)
        if self.interval is not None and duration_option("interval", self.interval) == 0:
            raise ValidationError(f"interval={self.interval!r}: expected more than 0, or None")
        duration_option("horizon", self.horizon)
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 <= self.margin <= 10:
            raise ValidationError(f"margin={self.margin!r}: expected a number from 0 to 10")
        check_method(self.forecast, self.period)

    @property
    def largest(self) -> int:
        """Largest number of instances."""
        if self.most is not None:
            return self.most
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(processors, MOST_INSTANCES)

    @property
    def first(self) -> int:
        """Number of instances before the first decision."""
        return self.least if self.initial is None else self.initial
