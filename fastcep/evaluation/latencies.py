"""Statistics of latencies. Sums are in integer picoseconds, so they do not depend on the machine."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

from fastcep.engine import Engine
from fastcep.overload.clock import exact_sum

__all__ = ["STATISTICS", "Floats", "Latencies", "over_time", "percentile", "skipped", "statistic_of", "total"]

Floats = npt.NDArray[np.float64]

#: Statistics that a bound may limit: the mean, or a percentile as a share.
STATISTICS = {"mean": None, "p95": 0.95, "p99": 0.99}

#: Number of points of a line over time.
_POINTS = 240


class Latencies:
    """Latencies of all events of an engine, 16 bytes per event.

    Parameters
    ----------
    engine
        Engine that measures latencies.
    """

    def __init__(self, engine: Engine) -> None:
        self._blocks: list[tuple[Floats, Floats]] = []
        engine.listen(lambda processing, event: self._blocks.append((processing, event)))

    @property
    def processing(self) -> Floats:
        """Processing latency of each event in ns."""
        return self._all(0)

    @property
    def event(self) -> Floats:
        """Event latency of each event in ns: from its arrival until it was processed."""
        return self._all(1)

    def _all(self, kind: int) -> Floats:
        return np.concatenate([block[kind] for block in self._blocks]) if self._blocks else np.empty(0)


def skipped(events: int, share: float) -> int:
    """Return the number of events at the start to exclude as warm-up."""
    return ceil(share * events)


def total(latencies: Floats) -> float:
    """Return the sum of latencies."""
    return exact_sum(np.rint(latencies * 1000).astype(np.int64)) / 1000


def percentile(latencies: Floats, share: float) -> float:
    """Return the smallest latency that at most a share of 1 - `share` of the events exceed."""
    return float(np.quantile(latencies, share, method="inverted_cdf"))


def statistic_of(latencies: Floats, statistic: str) -> float:
    """Return the mean, or a percentile; 0.0 without events."""
    share = STATISTICS[statistic]
    if not len(latencies):
        return 0.0
    return total(latencies) / len(latencies) if share is None else percentile(latencies, share)


def over_time(latencies: Floats, statistic: str) -> tuple[list[int], list[float]]:
    """Return a line over time with at most 240 points: the number of the last event of each part, and a statistic.

    ``statistic`` may also be ``"max"``.
    """
    edges = np.unique(np.linspace(0, len(latencies), _POINTS + 1).astype(np.int64)).tolist()
    parts = [latencies[first:last] for first, last in pairwise(edges)]
    values = [float(part.max()) if statistic == "max" else statistic_of(part, statistic) for part in parts]
    return [last - 1 for last in edges[1:]], values
