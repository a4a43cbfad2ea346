"""The adaptation loop live: a stream whose rate doubles and halves again, and processes whose number follows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.parallel import HEAVY, stream
from fastcep.parallel import Adaptation, ParallelEngine

__all__ = ["live"]

_PERIOD = 0.02  # s between two batches
BUFFER_LIMIT = 40_000


def capacity(events: int = 100_000) -> float:
    """Return the number of events per second that one instance takes."""
    table = stream(events)
    with ParallelEngine(HEAVY, instances=1, slice_events=BUFFER_LIMIT // 4) as engine:
        engine.process(table.slice(0, 20_000))
        while engine.metrics()["waiting_events"]:
            engine.poll("1s")
        start = time.perf_counter()
        engine.process(table.slice(20_000))
        engine.flush()
        return (events - 20_000) / (time.perf_counter() - start)


def live(seconds: float = 30.0, low: float = 0.5, high: float = 1.0) -> dict[str, Any]:
    """Run a stream at `low`, `high` and `low` times the rate that one instance can take, `seconds` each.

    Returns
    -------
    dict
        The rates, the samples taken every 20 ms, shares of the time within the limit, and whether the matches are those
        of one engine.
    """
    one = capacity()
    rates = [one * share for share in (low, high, low)]
    table = stream(int(sum(rate * seconds for rate in rates)) + 1)
    adaptation = Adaptation(
        BUFFER_LIMIT, 0.95, most=2, samples=400, interval="2s", horizon="3s", forecast="naive"
    )
    found: list[pa.Table] = []
    samples: list[tuple[float, int, int, int]] = []
    with ParallelEngine(HEAVY, instances=adaptation) as engine:
        while engine.counts().ready < 1:
            engine.poll("100ms")
        start, sent = time.perf_counter(), 0
        while (now := time.perf_counter() - start) < 3 * seconds:
            due = int(sum(rate * min(max(now - number * seconds, 0), seconds) for number, rate in enumerate(rates)))
            if due > sent:
                found.append(engine.process(table.slice(sent, due - sent)).to_arrow())
                sent = due
            else:
                found.append(engine.poll().to_arrow())
            metrics, counts = engine.metrics(), engine.counts()
            samples.append((now, metrics["waiting_events"], counts.ready, metrics["adaptation"]["wanted_instances"]))
            time.sleep(max(0.0, _PERIOD - (time.perf_counter() - start - now)))
        metrics = engine.metrics()
        found.append(engine.flush().to_arrow())
    single = fc.Engine(HEAVY)
    expected = [single.process(table.slice(0, sent)).to_arrow(), single.flush().to_arrow()]
    columns = np.array(samples)
    return {
        "events": sent, "events_per_second_of_one": round(one), "rates": [round(rate) for rate in rates],
        "seconds": seconds, "buffer_limit": BUFFER_LIMIT,
        "within": [round(float((part[:, 1] <= BUFFER_LIMIT).mean()), 4) for part in np.array_split(columns, 3)],
        "p95": [int(np.quantile(part[:, 1], 0.95)) for part in np.array_split(columns, 3)],
        "most": int(columns[:, 1].max()),
        "equal": pa.concat_tables(found).equals(pa.concat_tables(expected)),
        "matches": sum(map(len, expected)),
        "changes": _changes(columns), "last": metrics["adaptation"],
        "samples": columns[:: max(1, len(columns) // 600)].round(3).tolist(),
    }  # fmt: skip


def _changes(columns: np.ndarray[Any, np.dtype[np.float64]]) -> list[list[float]]:
    """Return the times in s at which the number of ready instances changed, with the new number."""
    ready = columns[:, 2]
    at = np.flatnonzero(np.diff(ready)) + 1
    return [[round(float(columns[row, 0]), 1), int(ready[row])] for row in at]
