"""The queue that a recorded sequence of arrivals would have had: no assumption about their distribution.

Used for arrivals that fit no family, such as groups of events, and to check the formulas.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["departures", "share_within"]

Floats = npt.NDArray[np.float64]


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
    if len(arrivals) <= limit:
        return 1.0
    if arrivals[-1] <= arrivals[0]:
        return 0.0
    leaves = departures(arrivals, service, instances)
    # From arrival i on there are more than `limit` events until event i - limit leaves, or event i + 1 arrives.
    over = np.minimum(leaves[: -limit - 1], arrivals[limit + 1 :]) - arrivals[limit:-1]
    return float(1 - np.maximum(over, 0).sum() / (arrivals[-1] - arrivals[0]))
