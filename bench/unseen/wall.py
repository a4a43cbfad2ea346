"""Run DS1 and real cases on the wall clock: above the maximum rate, and below it with a consumer that pauses."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.queries import QUERIES, SCHEMA
from bench.unseen.real import real_case
from bench.unseen.repeated import BLOCK, Repeated
from fastcep.datasets import ds1
from fastcep.shedding.names import SHEDDERS, by_name

__all__ = ["BOUNDS", "PAUSES", "RATES", "STREAMS", "Load", "load_of", "pauses", "rates"]

BOUNDS = ("20ms", "50ms", "100ms")
RATES = (1.2, 1.5, 2.0)
#: Lengths of the pause in s. Without one, nothing should be lost; otherwise the machine is busy with other work.
PAUSES = (0.0, 0.06, 0.2, 0.5)
STREAMS = ("ds1", "jersey_triangle", "bars_run", "cards_probe")
SHEDDERS_COMPARED = ("ri", "rs", "hybrid", "auto")
_WARM_UP = 0.1  #: share of a run at its start that is not evaluated
_LOAD, _PAUSE_BOUND = 0.6, 0.05  #: share of the maximum rate, and latency bound in s, of runs with a pause
_PAUSE_BLOCK = 512
#: Events of DS1 that are repeated, and events that its model is fitted on.
_DS1_EVENTS, _DS1_HISTORY = 100_000, 50_000
#: Events from which the maximum rate with a queue is measured.
_QUEUE_EVENTS = 1_000_000


@dataclass(frozen=True)
class Load:
    """Queries, history and events of a stream, and the options and the maximum rate of its engines."""

    queries: tuple[fc.Query, ...]
    history: pa.Table
    table: pa.Table
    time_name: str
    options: dict[str, Any]
    maximum: float
    models: tuple[Any, ...]

    def stream(self, events: int, block: int = BLOCK) -> Repeated:
        """Return a stream with a number of events."""
        return Repeated(self.table, self.time_name, events, block)

    def truth(self, events: int) -> int:
        """Count the matches of a stream without shedding."""
        engine = fc.Engine(list(self.queries), **self.options)
        return sum(len(engine.process(batch)) for batch in self.stream(events))

    def engine(self, name: str, seed: int, bound: str) -> fc.Engine:
        """Return an engine with a shedder and its default detectors."""
        model = {"model": list(self.models)} if name == "hybrid" else {}
        shedder = by_name(name, seed=seed, **model)
        return fc.Engine(list(self.queries), shedder=shedder, latency_bound=bound, **self.options)


def load_of(name: str, shared: Path) -> Load | None:
    """Prepare a stream; None if its data is missing."""
    if name == "ds1":
        queries: tuple[fc.Query, ...] = (fc.parse(QUERIES["Q1"].replace("8ms", "16ms"), SCHEMA, name="q1"),)
        table, history = ds1(events=_DS1_EVENTS, seed=7), ds1(events=_DS1_HISTORY, seed=77)
        options: dict[str, Any] = {"index": "key"}
    else:
        case = real_case(name, shared)
        if case is None:
            return None
        queries, table, history, options = case.queries, case.measured, case.history, {}
    time_name = str(queries[0].schema.time)
    maximum = fc.maximum_rate(
        lambda: fc.Engine(list(queries), latency_bound="1h", shedder=None, store="rows", **options),
        list(Repeated(table, time_name, 2 * len(table))), "wall",
    )  # fmt: skip
    models = tuple(fc.fit(query, history, **options) for query in queries)
    return Load(queries, history, table, time_name, options, maximum, models)


def _compared() -> tuple[str, ...]:
    return tuple(name for name in SHEDDERS_COMPARED if name in SHEDDERS)


def rates(
    shared: Path, seed: int, seconds: float, *, streams: Sequence[str] = STREAMS, bounds: Sequence[str] = BOUNDS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the result of each stream at arrival rates above its maximum.

    Parameters
    ----------
    shared
        Folder of the data sets.
    seed
        Seed of the shedders.
    seconds
        Length of a run.
    streams, bounds
        Streams and latency bounds.
    """
    for name in streams:
        load = load_of(name, shared)
        if load is None:
            print(f"wall {name}: not run, as its data is missing", flush=True)
            continue
        rows = []
        for rate in RATES:
            events = int(rate * load.maximum * seconds)
            truth = load.truth(events)
            for bound in bounds:
                for shedder in _compared():
                    engine = load.engine(shedder, seed, bound)
                    run = fc.replay(
                        engine, load.stream(events), rate * load.maximum, maximum=load.maximum, skip=_WARM_UP,
                        capacity=1 << 21, must_shed=False,
                    )  # fmt: skip
                    metrics = run.metrics["shedding"]
                    rows.append({
                        "shedder": shedder, "bound": bound, "rate": rate, "within": round(1 - run.share_over_bound, 5),
                        "longest_ms": round(run.longest_event / 1e6, 1), "recall": round(run.matches / truth, 4),
                        "estimated": metrics["estimated_recall"], "decisions": metrics["decisions"],
                        "overhead": round(metrics["overhead"] / 1e9 / run.seconds, 4), "stalls": run.stalls.count,
                    })  # fmt: skip
                    print(f"wall {name}", rows[-1], flush=True)
        yield name, {"maximum": round(load.maximum), "seconds": seconds, "rows": rows}


def pauses(shared: Path, seed: int, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the result of DS1 below its maximum rate with a consumer that pauses once, in the middle of a run.

    ``allowed`` is the share of the matches that the backlog above the bound holds: the events that arrive during the
    pause, without those that arrive in its last part, which is as long as the bound.
    """
    load = load_of("ds1", shared)
    assert load is not None
    maximum = _maximum_with_queue(load)
    rate, rows = _LOAD * maximum, []
    events = int(rate * seconds)
    truth = load.truth(events)
    for pause in PAUSES:
        for shedder in _compared():
            engine = load.engine(shedder, seed, f"{_PAUSE_BOUND * 1e3:.0f}ms")
            matches = _run_with_pause(engine, load.stream(events, _PAUSE_BLOCK), rate, seconds / 2, pause)
            metrics = engine.metrics()["shedding"]
            rows.append({
                "shedder": shedder, "pause": pause, "recall": round(matches / truth, 4),
                "allowed": round(max(0.0, pause - _PAUSE_BOUND) / seconds, 4), "events": events,
                "dropped_events": metrics["dropped_events"], "dropped_matches": metrics["dropped_partial_matches"],
                "estimated": metrics["estimated_recall"], "decisions": metrics["decisions"],
            })  # fmt: skip
            print("pauses ds1", rows[-1], flush=True)
    yield "ds1", {"maximum": round(maximum), "seconds": seconds, "rows": rows}


def _maximum_with_queue(load: Load) -> float:
    """Return the maximum rate in events per second with a queue, in the blocks and with the threads of `pauses`."""
    engine = fc.Engine(list(load.queries), latency_bound="1h", shedder=None, store="rows", **load.options)
    start = time.perf_counter()
    _run_with_pause(engine, load.stream(_QUEUE_EVENTS, _PAUSE_BLOCK), math.inf, 0.0, 0.0)
    return _QUEUE_EVENTS / (time.perf_counter() - start)


def _run_with_pause(engine: fc.Engine, stream: Repeated, rate: float, after: float, pause: float) -> int:
    """Run a stream through a queue whose consumer pauses once; return the number of matches."""
    engine.compile()
    queue, blocks = fc.InputQueue(engine, capacity=1 << 21), list(stream)
    start = time.perf_counter() + 0.02

    def produce() -> None:
        put = 0
        for block in blocks:
            put += len(block)
            time.sleep(max(0.0, start + put / rate - time.perf_counter()))
            queue.put(block)
        queue.close()

    producer = Thread(target=produce, daemon=True)
    producer.start()
    matches, paused = 0, False
    for found in queue.run():
        matches += len(found)
        if not paused and time.perf_counter() - start > after:
            time.sleep(pause)
            paused = True
    producer.join()
    return matches
