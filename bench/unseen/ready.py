"""Measure what it costs to be ready to shed: engines with a bound that nothing exceeds, against one without."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import fastcep as fc
from bench.unseen.wall import STREAMS, Load, load_of

__all__ = ["ready"]

_SHEDDERS = ("rs", "hybrid", "auto")
_NEVER = "1h"  #: latency bound that nothing exceeds
_PASSES = 9
_EVENTS = 1_000_000


def ready(shared: Path, seed: int, *, streams: Sequence[str] = STREAMS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield, for each stream, the CPU time of engines that are ready to shed, divided by that of one without a bound.

    All use the row store, which drops of partial matches need. The engines alternate pass by pass, so that changes of
    the machine's speed affect all of them.
    """
    for name in streams:
        load = load_of(name, shared)
        if load is None:
            print(f"ready {name}: not run, as its data is missing", flush=True)
            continue
        ratios: dict[str, list[float]] = {shedder: [] for shedder in _SHEDDERS}
        for number in range(_PASSES):
            plain = _seconds(load, fc.Engine(list(load.queries), store="rows", **load.options))
            for shedder in _SHEDDERS:
                spent = _seconds(load, load.engine(shedder, seed, _NEVER))
                if number:  # the first pass warms up
                    ratios[shedder].append(spent / plain)
        rows = [{"shedder": key, "ratio": round(median(values), 4)} for key, values in ratios.items()]
        print(f"ready {name}", rows, flush=True)
        yield name, {"passes": _PASSES - 1, "rows": rows}


def _seconds(load: Load, engine: fc.Engine) -> float:
    """Run the stream, repeated as often as needed; return the CPU time of this thread."""
    engine.compile()
    batches = list(load.stream(_EVENTS))
    start = time.thread_time()
    for batch in batches:
        engine.process(batch)
    return time.thread_time() - start
