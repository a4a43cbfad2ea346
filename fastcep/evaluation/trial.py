"""A trial: events, queries, the matches without shedding, and the targets."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.engine.results.match_identity import Identities
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import Target
from fastcep.query import ast

__all__ = ["Trial", "Truth"]


@dataclass(frozen=True)
class Truth:
    """Matches and latencies of an engine without a shedder. Times are in ns.

    Attributes
    ----------
    identities
        Identities of the matches, sorted.
    mean, p95, p99
        Statistics of the processing latencies after the warm-up.
    throughput
        Events per second of busy time: the maximum sustainable arrival rate.
    line
        Latency over time: numbers of events, and latencies by the statistic.
    created
        Number of partial matches created.
    """

    identities: Identities
    mean: float
    p95: float
    p99: float
    throughput: float
    line: tuple[list[int], list[float]]
    created: int = 0

    def latency(self, statistic: str) -> float:
        """Return a statistic of the latencies."""
        return {"mean": self.mean, "p95": self.p95, "p99": self.p99}[statistic]


@dataclass(frozen=True)
class Trial:
    """Immutable data that all runs share.

    Attributes
    ----------
    queries, stream, setting
        Queries, events and options of the runs.
    truth
        Matches and latencies without shedding.
    targets
        Targets of the runs.
    bindable
        Number of events that some variable can bind, by query and type.
    """

    queries: tuple[ast.Query, ...]
    stream: Stream
    setting: Setting
    truth: Truth
    targets: tuple[Target, ...]
    bindable: dict[str, dict[str, int]]
