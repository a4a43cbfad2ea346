"""Running the events through an engine, and what is kept of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastcep.arrivals.replay import replay
from fastcep.engine import Engine, Matches
from fastcep.evaluation.identity import Words, identities
from fastcep.evaluation.latencies import Floats, Latencies
from fastcep.evaluation.stream import Stream
from fastcep.query import ast

__all__ = ["Measured", "measure"]

#: Kernels are waited for so long, on the wall clock.
_COMPILE = "5min"

_LOG = logging.getLogger("fastcep.shedding")


@dataclass(frozen=True)
class Measured:
    """What came out of a run.

    Attributes
    ----------
    identities
        Of the matches, sorted.
    processing, event
        Latencies of all events, ns.
    metrics
        Of the engine.
    share_over
        With a rate: the share of the events behind those skipped that were later than the bound.
    """

    identities: Words
    processing: Floats
    event: Floats
    metrics: dict[str, Any]
    share_over: float | None = None


def measure(
    engine: Engine, queries: Sequence[ast.Query], stream: Stream, *, rate: float | None = None, skip: float = 0.0
) -> Measured:
    """Run all events through an engine, one behind the other, or at a rate, and end the stream."""
    latencies, found = Latencies(engine), list[Words]()

    def collect(matches: Matches) -> None:
        if len(matches):
            found.append(identities(matches, queries))

    share_over = None
    with _silent():
        engine.compile(_COMPILE if engine.metrics()["shedding"]["clock"] == "wall" else "0s")
        if rate is None:
            for block in stream.blocks():
                collect(engine.process(block))
        else:
            blocks = list(stream.blocks())
            share_over = replay(engine, blocks, rate, skip=skip, collect=collect, must_shed=False).share_over_bound
        metrics = engine.metrics()
        collect(engine.flush())
    numbers = np.sort(np.concatenate(found)) if found else np.empty(0, np.uint64)
    return Measured(numbers, latencies.processing, latencies.event, metrics, share_over)


@contextmanager
def _silent() -> Iterator[None]:
    """Leave out the line that every episode of shedding logs: it is what is looked for here."""

    def errors(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    _LOG.addFilter(errors)  # the level would stay, where threads set it and set it back in turns
    try:
        yield
    finally:
        _LOG.removeFilter(errors)
