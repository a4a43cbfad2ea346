"""A trial: events, queries, the truth about them, and the targets that are to be reached."""

from __future__ import annotations

from dataclasses import dataclass

from fastcep.evaluation.identity import Words
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import Target
from fastcep.query import ast

__all__ = ["Trial", "Truth"]


@dataclass(frozen=True)
class Truth:
    """What an engine without a shedder finds, and how long it takes. Times are ns.

    Attributes
    ----------
    identities
        Of the matches, sorted.
    mean, p95, p99
        Of the processing latencies behind the events to skip.
    throughput
        Events per second of busy time; the largest rate of arrivals that can be taken.
    line
        Latency over time: numbers of events, and latencies by the statistic.
    created
        How many partial matches there were.
    """

    identities: Words
    mean: float
    p95: float
    p99: float
    throughput: float
    line: tuple[list[int], list[float]]
    created: int = 0

    def latency(self, statistic: str) -> float:
        """A statistic of the latencies."""
        return {"mean": self.mean, "p95": self.p95, "p99": self.p99}[statistic]


@dataclass(frozen=True)
class Trial:
    """All that a judgement needs beside its cell; nothing of it changes.

    Attributes
    ----------
    queries, stream, setting
        What runs, over what, how.
    truth
        What there is to be found.
    targets
        What is to be reached.
    bindable
        By query and type, how many events are of a type that some variable names.
    """

    queries: tuple[ast.Query, ...]
    stream: Stream
    setting: Setting
    truth: Truth
    targets: tuple[Target, ...]
    bindable: dict[str, dict[str, int]]
