"""What is told of many latencies. Sums are of whole picoseconds, so that they do not depend on the machine."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

from fastcep.engine import Engine
from fastcep.overload.clock import exact_sum

__all__ = ["STATISTICS", "Floats", "Latencies", "over_time", "percentile", "skipped", "statistic_of", "total"]

Floats = npt.NDArray[np.float64]

#: What a bound may be on: the mean, or a percentile.
STATISTICS = {"mean": None, "p95": 0.95, "p99": 0.99}

#: How many points a line over time has.
_POINTS = 240


class Latencies:
    """Keeps the latencies of all events of an engine, 16 bytes each.

    Parameters
    ----------
    engine
        One that measures them.
    """

    def __init__(self, engine: Engine) -> None:
        self._blocks: list[tuple[Floats, Floats]] = []
        engine.listen(lambda processing, event: self._blocks.append((processing, event)))

    @property
    def processing(self) -> Floats:
        """How long the engine was busy with each event, ns."""
        return self._all(0)

    @property
    def event(self) -> Floats:
        """From each event's arrival until it was done, ns."""
        return self._all(1)

    def _all(self, kind: int) -> Floats:
        return np.concatenate([block[kind] for block in self._blocks]) if self._blocks else np.empty(0)


def skipped(events: int, share: float) -> int:
    """How many events at the beginning are not judged."""
    return ceil(share * events)


def total(latencies: Floats) -> float:
    """The sum."""
    return exact_sum(np.rint(latencies * 1000).astype(np.int64)) / 1000


def percentile(latencies: Floats, share: float) -> float:
    """The least latency that no more than the rest of the events exceed."""
    return float(np.quantile(latencies, share, method="inverted_cdf"))


def statistic_of(latencies: Floats, statistic: str) -> float:
    """The mean, or a percentile; 0.0 of no events."""
    share = STATISTICS[statistic]
    if not len(latencies):
        return 0.0
    return total(latencies) / len(latencies) if share is None else percentile(latencies, share)


def over_time(latencies: Floats, statistic: str) -> tuple[list[int], list[float]]:
    """Make a line over time of 240 points at most: of each piece the number of its last event, and a statistic.

    ``statistic`` may also be ``"max"``.
    """
    edges = np.unique(np.linspace(0, len(latencies), _POINTS + 1).astype(np.int64)).tolist()
    pieces = [latencies[first:last] for first, last in pairwise(edges)]
    values = [float(piece.max()) if statistic == "max" else statistic_of(piece, statistic) for piece in pieces]
    return [last - 1 for last in edges[1:]], values
