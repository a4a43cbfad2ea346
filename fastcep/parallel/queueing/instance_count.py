"""The smallest number of instances that keeps a queue below a limit with a given probability (paper 5, section V-C)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from fastcep.errors import CapacityError, ValidationError
from fastcep.parallel.queueing.bounds import arrival_bound, service_bound
from fastcep.parallel.queueing.distributions import (
    Deterministic,
    Distribution,
    Exponential,
    Samples,
    parse_distribution,
    show_time,
)
from fastcep.parallel.queueing.fitting import Fit, fit
from fastcep.parallel.queueing.stationary import exponential_service, fixed_service
from fastcep.parallel.queueing.target import MOST_INSTANCES, check_target
from fastcep.parallel.queueing.trace import lowest_share_within, share_within_by_bound

__all__ = ["Degree", "Method", "degree"]

#: Way in which the probability is found: a formula, or the recorded arrivals themselves.
Method = Literal["M/M/c", "M/D/c", "trace"]

#: Number of recorded arrivals, as a multiple of the limit, that show how often it is exceeded.
_REACHED = 10
#: Load up to which SciPy computes quantiles of the Poisson distribution.
_HUGE = 1e18


@dataclass(frozen=True)
class Degree:
    """Result of `degree`.

    Attributes
    ----------
    instances
        Smallest number of instances that is sufficient.
    probability
        Probability that at most `buffer_limit` events wait or are being processed at an arbitrary time; of a ``trace``
        a lower limit, see `trace`.
    probability_with_fewer
        The same with one instance less; 0 if the queue would grow without limit.
    utilisation
        Share of the time for which an instance is busy.
    method
        ``M/M/c`` or ``M/D/c``, the formulas for exponential and constant service times; or ``trace``: the queue that
        the recorded arrivals would have had.
    arrival, service
        Distributions that the method uses: those that were given, or bounds of them.
    arrival_fit, service_fit
        Families found for samples; None without samples.
    """

    instances: int
    probability: float
    probability_with_fewer: float
    utilisation: float
    method: Method
    arrival: Distribution
    service: Distribution
    arrival_fit: Fit | None = None
    service_fit: Fit | None = None


def degree(
    arrival: Distribution | str | npt.NDArray[np.float64],
    service: Distribution | str | npt.NDArray[np.float64],
    buffer_limit: int,
    probability: float,
    *,
    most: int = MOST_INSTANCES,
) -> Degree:
    """Return the smallest number of instances that keeps a queue below a limit with a given probability.

    Parameters
    ----------
    arrival
        Times between events: a distribution, its text such as ``"exponential:100ms"`` (see `parse_distribution`), or
        measured times in ns in the order of arrival, float64[n].
    service
        Time that an instance takes for an event; in the same forms.
    buffer_limit
        Largest number of events that may be there, including those that are being processed.
    probability
        Probability with which the limit must hold at an arbitrary time, above 0 and below 1.
    most
        Largest number of instances.

    Raises
    ------
    CapacityError
        If no number of instances, or none up to `most`, is sufficient; its message says by how much.
    ValidationError
        If a distribution or an option is invalid, or there are too few samples.

    Notes
    -----
    The formulas are for Poisson arrivals (M), exponential (M) or constant (D) service times, and events that go to the
    first free instance. Other distributions are replaced by bounds, see `bounds`; samples by the distribution that fits
    them. If samples of arrivals are not exponential, the queue that they would have had is computed as well, and the
    way that needs fewer instances counts: the bound of arrivals that are nearly regular is far from them.
    """
    check_target(buffer_limit, probability, most)
    times, work = _distribution("arrival", arrival), _distribution("service", service)
    arrival_fit, service_fit = (fit(of) if isinstance(of, Samples) else None for of in (times, work))
    law = service_bound(service_fit.distribution if service_fit is not None and service_fit.is_accepted else work)
    if law.mean <= 0:
        raise ValidationError(f"{work}: the time that 99 % of the service times do not exceed is 0; expected more")
    family = times if arrival_fit is None else arrival_fit.distribution if arrival_fit.is_accepted else None
    goal = _Goal(buffer_limit, probability, most)
    ways: list[Callable[[], Degree]] = []
    if family is not None:
        ways.append(lambda: _by_formula(arrival_bound(family), law, goal))
    if isinstance(times, Samples) and not isinstance(family, Exponential):
        ways.append(lambda: _by_trace(times, Deterministic(law.quantile(0.99)), goal))
    return replace(_fewest(ways), arrival_fit=arrival_fit, service_fit=service_fit)


@dataclass(frozen=True)
class _Goal:
    limit: int
    probability: float
    most: int


def _fewest(ways: list[Callable[[], Degree]]) -> Degree:
    """Return the result with the fewest instances, as each is sufficient; without any, raise the nearest error."""
    found: list[Degree] = []
    errors: list[CapacityError] = []
    for way in ways:
        try:
            found.append(way())
        except CapacityError as error:
            errors.append(error)
    if not found:
        raise max(errors, key=lambda error: error.probability)
    return min(found, key=lambda of: of.instances)


def _by_formula(arrival: Exponential, service: Exponential | Deterministic, goal: _Goal) -> Degree:
    load = service.mean / arrival.mean
    _check_reachable(load, goal, arrival, service)
    formula = exponential_service if isinstance(service, Exponential) else fixed_service

    @cache
    def within(instances: int) -> float:
        return float(formula(load, instances, goal.limit)[-1])

    method: Method = "M/M/c" if isinstance(service, Exponential) else "M/D/c"
    return _degree(within, load, goal, method, arrival, service)


def _by_trace(arrival: Samples, service: Deterministic, goal: _Goal) -> Degree:
    arrivals = np.cumsum(arrival.times)
    reaches = len(arrivals) >= _REACHED * goal.limit  # long enough to show how often the limit is exceeded

    @cache
    def within(instances: int) -> float:
        if reaches:
            return lowest_share_within(arrivals, service.mean, instances, goal.limit)
        return share_within_by_bound(arrival.times, service.mean, instances, goal.limit)

    return _degree(within, service.mean / arrival.mean, goal, "trace", arrival, service)


def _degree(
    within: Callable[[int], float], load: float, goal: _Goal, method: Method, arrival: Distribution,
    service: Distribution,
) -> Degree:  # fmt: skip
    instances = _least(within, load, goal)
    fewer = within(instances - 1) if instances - 1 > load else 0.0
    return Degree(instances, within(instances), fewer, load / instances, method, arrival, service)


def _distribution(name: str, value: Distribution | str | npt.NDArray[np.float64]) -> Distribution:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, str):
        try:
            return parse_distribution(value)
        except ValidationError as error:
            raise ValidationError(f"{name}: {error}") from None
    return Samples(value, name)


def _check_reachable(load: float, goal: _Goal, arrival: Distribution, service: Distribution) -> None:
    """With more and more instances, no event waits, and the number being processed has a Poisson distribution."""
    best = float(stats.poisson.cdf(goal.limit, load))
    if best < goal.probability:
        raise CapacityError(
            f"no number of instances is sufficient: {load:.4g} events are being processed at a time on average, as one "
            f"arrives every {show_time(arrival.mean)} and takes {show_time(service.mean)}; so at most {goal.limit} are "
            f"there with a probability of {best:.3g} at best, and {goal.probability:g} is required; give a limit of at "
            f"least {int(stats.poisson.ppf(goal.probability, min(load, _HUGE)))}, or make the query faster",
            best,
        )


def _least(within: Callable[[int], float], load: float, goal: _Goal) -> int:
    """Return the smallest number of instances, by doubling and bisection: the probability increases with the number.

    That of recorded arrivals may decrease a little; the number is sufficient then, but maybe not the smallest.
    """
    limit, probability, most = goal.limit, goal.probability, goal.most
    low = int(load)  # not sufficient: the queue would grow without limit
    if low >= most:
        raise CapacityError(
            f"the system is unstable: the load keeps {load:.4g} instances busy, and at most {most} are allowed, so the "
            f"queue would grow without limit; allow at least {low + 1}, or make the query faster by a factor of more "
            f"than {load / most:.3g}",
            0.0,
        )
    step, high = 1, low + 1
    while within(high) < probability:
        if high == most:
            raise CapacityError(
                f"no number of instances up to {most} is sufficient: with {most}, at most {limit} events are there "
                f"with a probability of {within(most):.3g}, and {probability:g} is required; allow more instances or "
                "a larger limit",
                within(most),
            )
        low, step = high, 2 * step
        high = min(high + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) < probability else (low, middle)
    return high
