"""What the counted operations cost on this machine: queries that do much of the one and little of the other are timed.

The time of a run is taken as a sum of counters times nanoseconds, and the nanoseconds are those that fit all runs best.
That is a model: one partial match is cheaper to look at than another. How far it is off is said beside the numbers.

From one process to the next most numbers stay within a tenth, that of a match does not (8 to 14 ns in nine processes).
The package's ``measured.json`` is, of three processes, the one with the median cost of a match.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.arrivals.shedding_costs import relief
from fastcep.datasets import ds1
from fastcep.engine.engine import Engine
from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.overload.costs import OPERATIONS, CostTable
from fastcep.query import parse

__all__ = [
    "COUNTERS", "WORKLOADS", "Calibration", "TimedRun", "calibrate", "fit", "machine", "measure", "workload_stream",
]  # fmt: skip

#: Operations that are measured, and what counts them in `Engine.metrics`.
COUNTERS = {
    "event": "events",
    "relevant": "relevant_events",
    "visited": "rows_visited",
    "created": "rows_created",
    "match": "matches",
}

_EVENTS = 200_000
_ROUNDS = 3  # at least; of each query the fastest run counts, as what slows a run down is not its work
_SAME = "a.ID = b.ID AND a.ID = c.ID"
_Q1 = f"SEQ(A a, B b, C c) WHERE {_SAME} AND a.V + b.V = c.V"
_SPARSE = f"SEQ(A a, B b, C c) WHERE {_SAME} AND a.V = 10 AND b.V = 10 AND c.V = 10"

#: Queries over DS1 whose counters differ independently of each other. E and F are types that do not occur.
WORKLOADS = {
    "Q1, 1 ms": f"{_Q1} WITHIN 1ms",
    "Q1, 2 ms": f"{_Q1} WITHIN 2ms",
    "Q1, 4 ms": f"{_Q1} WITHIN 4ms",
    "Q1, 8 ms": f"{_Q1} WITHIN 8ms",
    "sparse, 1 ms": f"{_SPARSE} WITHIN 1ms",
    "sparse, 8 ms": f"{_SPARSE} WITHIN 8ms",
    "Kleene": "SEQ(A a, B+ k[], C c) WHERE a.ID = k[i].ID AND a.ID = c.ID AND k[i].V = a.V WITHIN 1ms",
    "events": "SEQ(E a, F b) WITHIN 1ms",
    "relevant, 1 in 4": "SEQ(A a, B b) WHERE a.ID = b.ID AND a.ID = 11 WITHIN 1ms",
    "relevant, 3 in 4": "SEQ(A a, B b, C c, D d) WHERE a.ID = b.ID AND a.V = 11 WITHIN 1ms",
    "visited, 1 ms": "SEQ(A a, B b) WHERE a.ID = b.ID AND a.V + b.V = 100 WITHIN 1ms",
    "visited, 8 ms": "SEQ(A a, B b) WHERE a.ID = b.ID AND a.V + b.V = 100 WITHIN 8ms",
    "created, 1 step": "SEQ(A a, E b) WHERE a.ID = b.ID WITHIN 1ms",
    "created, 2 steps": "SEQ(A a, B b, E c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 1ms",
    "matches of one": "SEQ(A a) WITHIN 1ms",
    "pairs, 1 ms": "SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms",
    "pairs, 4 ms": "SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 4ms",
    "pairs, filtered": "SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V WITHIN 4ms",
}


@dataclass(frozen=True)
class TimedRun:
    """A query's fastest run: its name, its counters by operation and its nanoseconds."""

    name: str
    counts: Mapping[str, int]
    nanoseconds: float


@dataclass(frozen=True)
class Calibration:
    """What `calibrate` found.

    Attributes
    ----------
    table
        The cost table.
    runs
        What was timed.
    predicted
        Of every run, the nanoseconds by the table.
    about
        Machine, versions, date, error and runs, to be kept beside the numbers.
    """

    table: CostTable
    runs: tuple[TimedRun, ...]
    predicted: tuple[float, ...]
    about: Mapping[str, Any]

    @property
    def error(self) -> float:
        """The median relative error of the table over the runs."""
        shares = [abs(told / run.nanoseconds - 1) for told, run in zip(self.predicted, self.runs, strict=True)]
        return float(np.median(shares))


def calibrate(name: str = "calibrated", seconds: float = 10.0) -> Calibration:
    """Measure what the counted operations cost on this machine.

    Parameters
    ----------
    name
        Of the table.
    seconds
        How long to measure; every query runs three times at least.

    Raises
    ------
    ValidationError
        If ``seconds`` is not positive, or the generated kernels are not in use.
    """
    if not seconds > 0:
        raise ValidationError(f"seconds={seconds:g}: expected more than 0")
    stream = workload_stream()
    runs = measure(WORKLOADS, stream, seconds)
    counts = np.array([[run.counts[key] for key in COUNTERS] for run in runs], dtype=np.float64)
    costs = fit(counts, np.array([run.nanoseconds for run in runs]))
    measured = dict(zip(COUNTERS, costs.round(3).tolist(), strict=True))
    table = CostTable(name, **measured, **relief(stream, measured["visited"], measured["created"]))
    predicted = counts @ [measured[key] for key in COUNTERS]
    found = Calibration(table, tuple(runs), tuple(predicted.tolist()), {})
    return replace(found, about=_about(found))


def workload_stream(events: int = _EVENTS) -> pa.Table:
    """DS1, the type dictionary-coded, as Arrow sources usually give it."""
    table = ds1(events)
    return table.set_column(0, "type", table["type"].dictionary_encode()).combine_chunks()


def measure(workloads: Mapping[str, str], stream: pa.Table, seconds: float) -> list[TimedRun]:
    """Time `Engine.process` over the stream for each query, in turns until the time is up; the fastest run counts.

    Parameters
    ----------
    workloads
        Patterns over DS1 by name.
    stream
        The events.
    seconds
        How long; but at least three turns.

    Raises
    ------
    ValidationError
        If the generated kernels are not in use, as then it would be the interpreter that is measured.
    """
    schema = Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCDEF"}, time="ts", type="type", time_unit="us")
    queries = {name: parse(f"PATTERN {text}", schema) for name, text in workloads.items()}
    best: dict[str, TimedRun] = {}
    rounds = 0
    for query in queries.values():
        _warm(Engine(query, store="rows"))
    stop = perf_counter() + seconds
    while rounds < _ROUNDS or perf_counter() < stop:
        for name, query in queries.items():
            engine = Engine(query, store="rows")
            _warm(engine)
            start = perf_counter_ns()
            engine.process(stream)
            taken = perf_counter_ns() - start
            if name not in best or taken < best[name].nanoseconds:
                metrics = engine.metrics()
                best[name] = TimedRun(name, {key: metrics[of] for key, of in COUNTERS.items()}, float(taken))
        rounds += 1
    return list(best.values())


def fit(counts: npt.NDArray[np.float64], nanoseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The cost per operation, none negative, with the least squared relative error; every run counts the same.

    The most negative operation is set to 0 and the rest fitted again until none is negative, which is not in all cases
    the least error but needs NumPy only.

    Parameters
    ----------
    counts
        float64[runs, operations].
    nanoseconds
        float64[runs], positive.

    Returns
    -------
    float64[operations]
        Nanoseconds per operation.
    """
    relative = counts / nanoseconds[:, None]
    costs = np.zeros(counts.shape[1])
    used = list(range(counts.shape[1]))
    while used:
        found = np.linalg.lstsq(relative[:, used], np.ones(len(counts)), rcond=None)[0]
        if found.min() >= 0:
            costs[used] = found
            break
        del used[int(found.argmin())]
    return costs


def _warm(engine: Engine) -> None:
    if not engine.compile("60s"):
        raise ValidationError(
            f"cannot calibrate: the generated kernels are not in use ({engine.metrics()['kernels']['reason']}); "
            "wait until they are compiled, and leave FASTCEP_JIT unset"
        )


def machine() -> dict[str, Any]:
    """What this runs on: ``cpu`` and ``cores``."""
    return {"cpu": _processor(), "cores": os.cpu_count()}


def _about(found: Calibration) -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("fastcep", "numpy", "numba", "pyarrow")},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "fitted": list(COUNTERS),
        "measured_apart": [name for name in OPERATIONS if name not in COUNTERS],
        "median_relative_error": round(found.error, 3),
        "runs": [
            {"name": run.name, "milliseconds": round(run.nanoseconds / 1e6, 3), "fitted": round(told / 1e6, 3)}
            | dict(run.counts)
            for run, told in zip(found.runs, found.predicted, strict=True)
        ],
    }


def _processor() -> str:
    """The name of the processor, or of its kind where the system does not tell."""
    facts = Path("/proc/cpuinfo")
    lines: Sequence[str] = facts.read_text().splitlines() if facts.exists() else ()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
