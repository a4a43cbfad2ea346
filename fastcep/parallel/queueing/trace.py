"""The queue that a recorded sequence of arrivals would have had: no assumption about their distribution.

Used for arrivals that fit no family, such as groups of events, and to check the formulas.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["departures", "lowest_share_within", "share_within"]

Floats = npt.NDArray[np.float64]

#: Parts of a sequence, and the 95 % quantile of Student's t distribution with one degree of freedom less.
_PARTS, _QUANTILE = 16, 1.753


def departures(arrivals: Floats, service: float, instances: int) -> Floats:
    """Return when each event has been processed, in the order of arrival, by instances with a constant service time.

    Parameters
    ----------
    arrivals
        Times of arrival, [n], ascending.
    service
        Service time, in the same unit.
    instances
        Number of instances; each event goes to the first free one.

    Returns
    -------
    float64[n]
        Ascending: with a constant service time, event ``i`` is processed by the instance of event ``i - instances``.
    """
    leaves = np.empty(len(arrivals))
    for first in range(min(instances, len(arrivals))):
        chain = arrivals[first::instances]
        work = service * np.arange(len(chain))
        leaves[first::instances] = np.maximum.accumulate(chain - work) + work + service
    return leaves


def share_within(arrivals: Floats, service: float, instances: int, limit: int) -> float:
    """Return the share of the time, from the first to the last arrival, in which at most `limit` events are there."""
    over, elapsed = _over(arrivals, service, instances, limit)
    return float(1 - over.sum() / elapsed.sum()) if elapsed.sum() else float(len(arrivals) <= limit)


def lowest_share_within(arrivals: Floats, service: float, instances: int, limit: int) -> float:
    """Return a lower limit of this share for other arrivals of the same kind.

    It is the lower end of the one-sided 95 % confidence interval, from the means of 16 consecutive parts (batch means;
    Law, *Simulation Modeling and Analysis*, section 9.5.3). If the parts are too few or too short, it is 0.
    """
    over, elapsed = _over(arrivals, service, instances, limit)
    if len(over) < _PARTS or not elapsed.sum():
        return 0.0
    firsts = np.linspace(0, len(over), _PARTS + 1).astype(int)[:-1]
    parts, lengths = np.add.reduceat(over, firsts), np.add.reduceat(elapsed, firsts)
    share = parts.sum() / lengths.sum()
    # The parts have different lengths in time: the error of a ratio of sums.
    error = np.sqrt(np.sum((parts - share * lengths) ** 2) * _PARTS / (_PARTS - 1)) / lengths.sum()
    return float(max(0.0, 1 - share - _QUANTILE * error))


def _over(arrivals: Floats, service: float, instances: int, limit: int) -> tuple[Floats, Floats]:
    """Return the time for which more than `limit` events are there, and the time, between each two arrivals."""
    elapsed = np.diff(arrivals)
    over = np.zeros(len(elapsed))
    if len(arrivals) > limit + 1:
        # From arrival i on there are more than `limit` events until event i - limit leaves.
        leaves = departures(arrivals, service, instances)
        over[limit:] = np.clip(leaves[: -limit - 1] - arrivals[limit:-1], 0, elapsed[limit:])
    return over, elapsed
