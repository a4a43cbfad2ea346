"""Arrivals that nobody tuned to: is the limit kept in the next time slice, with the degree from the last one?

For each stream, a degree is computed from the times between 1,600 events, and the queue of the next 1,600 events is
computed with it and with exactly the service time that was used, which is chosen so that four instances are busy on
average. So a miss is due to arrivals: another rate than in the slice before, or another distribution than the one
assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import fastcep.datasets
from fastcep.errors import CapacityError
from fastcep.parallel import degree
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.queueing.trace import share_within

__all__ = ["arrivals", "evaluate"]

Floats = npt.NDArray[np.float64]

SLICE, LOAD, LIMIT, PROBABILITY = 1_600, 4.0, 15, 0.95
_EVENTS = 40_000


def arrivals(seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield names of streams, and the times between their events in ns."""
    random = np.random.default_rng(seed)
    n = _EVENTS
    yield "Poisson", random.exponential(1e9, n)
    yield "constant", np.full(n, 1e9)
    yield "normal", np.abs(random.normal(1e9, 2e8, n))
    yield "Pareto, shape 1.5", (random.pareto(1.5, n) + 1) * 1e9
    yield "log-normal", random.lognormal(0, 1.5, n) * 1e9
    state = np.cumsum(random.random(n) < 0.01) % 2
    yield "two rates, 1 : 5, changing every 100 events", random.exponential(1e9, n) * np.where(state, 0.4, 2.0)
    yield "groups of up to 5", np.where(random.random(n) < 0.6, 0.0, random.exponential(2.5e9, n))
    yield "daily wave", random.exponential(1e9, n) / (1 + 0.8 * np.sin(np.arange(n) / n * 12 * np.pi))
    yield "rate grows to 10 times", random.exponential(1e9, n) / np.linspace(0.2, 2, n)
    for name, column in (("bayarea_2014", "start_date"), ("google_2011", "time")):
        yield f"{name} (real)", _real(name, column)


def _real(name: str, column: str) -> Floats:
    values = pq.read_table(fastcep.datasets.path(name), columns=[column])[column].to_numpy()
    times = values.astype("datetime64[ns]").astype(np.int64) if values.dtype.kind == "M" else values
    return np.diff(np.sort(times)[: _EVENTS * 2]).astype(np.float64)


def evaluate(gaps: Floats) -> dict[str, Any]:
    """Return how often the limit was kept in the next slice, the worst share, the prediction, and the methods used."""
    kept, shares, predicted, used = [], [], [], Counter[str]()
    instances = []
    for at in range(0, len(gaps) - 2 * SLICE + 1, SLICE):
        now, following = gaps[at : at + SLICE], gaps[at + SLICE : at + 2 * SLICE]
        service = LOAD * float(now.mean())
        if not service:
            continue
        try:
            found = degree(now, Deterministic(service), LIMIT, PROBABILITY)
        except CapacityError:
            used["not reachable"] += 1
            continue
        share = share_within(np.cumsum(following), service, found.instances, LIMIT)
        family = str(found.arrival_fit.distribution).split(":")[0] if found.arrival_fit else ""
        used[found.method if found.method == "trace" else family] += 1
        kept.append(share >= PROBABILITY)
        shares.append(share)
        predicted.append(found.probability)
        instances.append(found.instances)
    if not kept:
        return {"slices": sum(used.values()), "used": dict(used)}
    return {
        "slices": sum(used.values()), "kept": round(float(np.mean(kept)), 3),
        "mean": round(float(np.mean(shares)), 3), "worst": round(float(np.min(shares)), 3),
        "predicted": round(float(np.mean(predicted)), 3), "instances": [min(instances), max(instances)],
        "used": dict(used),
    }  # fmt: skip
