"""Run the events through an engine, and record matches, latencies and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastcep.arrivals.replay import replay
from fastcep.engine import Engine, Matches
from fastcep.engine.results.match_identity import Identities, identities
from fastcep.evaluation.latencies import Floats, Latencies
from fastcep.evaluation.stream import Stream
from fastcep.overload.episodes import without_warnings
from fastcep.query import ast

__all__ = ["Measured", "measure"]

#: Maximum time to wait for kernels on the wall clock.
_COMPILE = "5min"


@dataclass(frozen=True)
class Measured:
    """Measurements of a run.

    Attributes
    ----------
    identities
        Identities of the matches, sorted.
    processing, event
        Processing and event latencies of all events, in ns.
    metrics
        Metrics of the engine.
    share_over
        With a rate: share of the events after the warm-up whose latency was above the bound.
    """

    identities: Identities
    processing: Floats
    event: Floats
    metrics: dict[str, Any]
    share_over: float | None = None


def measure(
    engine: Engine, queries: Sequence[ast.Query], stream: Stream, *, rate: float | None = None, skip: float = 0.0
) -> Measured:
    """Run all events through an engine, as fast as possible or at a rate, and flush it."""
    latencies, parts = Latencies(engine), list[Identities]()

    def collect(matches: Matches) -> None:
        if len(matches):
            parts.append(identities(matches, queries))

    share_over = None
    with without_warnings():
        engine.compile(_COMPILE if engine.metrics()["shedding"]["clock"] == "wall" else "0s")
        if rate is None:
            for block in stream.blocks():
                collect(engine.process(block))
        else:
            blocks = list(stream.blocks())
            share_over = replay(engine, blocks, rate, skip=skip, collect=collect, must_shed=False).share_over_bound
        metrics = engine.metrics()
        collect(engine.flush())
    all_identities = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.uint64)
    return Measured(all_identities, latencies.processing, latencies.event, metrics, share_over)
