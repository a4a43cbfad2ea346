"""Distributions that bound others, so that a formula for them is on the safe side (paper 5, section V-C).

Times between arrivals are bounded by an exponential distribution with shorter times, and service times by a constant
that 99 % of them do not exceed. Both ignore the largest hundredth of the times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize

from fastcep.errors import ValidationError
from fastcep.parallel.queueing.distributions import Deterministic, Distribution, Exponential

__all__ = ["arrival_bound", "service_bound"]

Floats = npt.NDArray[np.float64]

#: Share of the times that a bound covers.
_COVERED = 0.99
_POINTS = 2_000


def arrival_bound(times: Distribution) -> Exponential:
    """Return the exponential distribution with the largest mean that is a lower bound of times between arrivals.

    Its distribution function lies above that of the times for all times up to their 99th percentile. An exponential
    distribution is its own bound.

    Raises
    ------
    ValidationError
        If there is none, because too many of the times are 0.
    """
    if isinstance(times, Exponential):
        return times

    # exp(-x / m) <= 1 - F(x), that is m <= x / -log(1 - F(x)). At a jump of F, its value after the jump counts.
    def largest(shares: Floats) -> Floats:
        return times.quantiles(shares) / -np.log1p(-shares)

    shares = np.linspace(0, _COVERED, _POINTS + 1)[1:]
    values = largest(shares)
    least = int(np.argmin(values))
    low, high = shares[max(least - 1, 0)], shares[min(least + 1, _POINTS - 1)]
    mean = values[least]
    if low < high:
        found = optimize.minimize_scalar(
            lambda share: largest(np.array([share]))[0], bounds=(low, high), method="bounded", options={"xatol": 1e-10}
        )
        mean = min(mean, float(found.fun))
    if not mean > 0:
        raise ValidationError(
            f"{times}: no exponential distribution bounds these times between arrivals, because some are 0; give them "
            "as samples, of which the sequence itself is evaluated"
        )
    return Exponential(float(mean))


def service_bound(times: Distribution) -> Exponential | Deterministic:
    """Return the 99th percentile of service times as a constant; exponential and constant times are their own bound."""
    if isinstance(times, Exponential | Deterministic):
        return times
    return Deterministic(times.quantile(_COVERED))
