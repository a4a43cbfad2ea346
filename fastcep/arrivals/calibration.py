"""Measure the cost of the counted operations on this machine by timing queries with different mixes of operations.

The model is linear: the time of a run is the sum of its counters, each times a cost in nanoseconds; the costs are a
least-squares fit over all runs. Real costs vary, for example between partial matches, so the relative error is stored
with the costs.

Between processes most costs vary by at most 10 %; the cost of a match varies more (8 to 14 ns in nine processes). The
package's ``measured.json`` is the calibration with the median cost of a match out of three processes.
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

from fastcep.arrivals.shedding_costs import measure_shedding
from fastcep.datasets import ds1
from fastcep.engine.engine import Engine
from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.overload.costs import OPERATIONS, CostTable
from fastcep.query import parse

__all__ = [
    "COUNTERS", "WORKLOADS", "Calibration", "TimedRun", "calibrate", "environment", "fit", "machine", "measure",
    "workload_stream",
]  # fmt: skip

#: Fitted operations, and their counters in `Engine.metrics`.
COUNTERS = {
    "event": "events",
    "relevant": "relevant_events",
    "visited": "rows_visited",
    "created": "rows_created",
    "match": "matches",
}

_EVENTS = 200_000
_MIN_ROUNDS = 3  # the fastest run of each query is used, as slower ones measure disturbances
_SAME = "a.ID = b.ID AND a.ID = c.ID"
_Q1 = f"SEQ(A a, B b, C c) WHERE {_SAME} AND a.V + b.V = c.V"
_SPARSE = f"SEQ(A a, B b, C c) WHERE {_SAME} AND a.V = 10 AND b.V = 10 AND c.V = 10"

#: Queries over DS1 with linearly independent counters. The event types E and F do not occur.
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
    """Fastest run of a query: its name, its counters by operation and its time in nanoseconds."""

    name: str
    counts: Mapping[str, int]
    nanoseconds: float


@dataclass(frozen=True)
class Calibration:
    """Result of `calibrate`.

    Attributes
    ----------
    table
        Cost table.
    runs
        Timed runs.
    predicted
        Time of each run according to the table, in nanoseconds.
    about
        Machine, versions, date, error and runs, to store with the table.
    """

    table: CostTable
    runs: tuple[TimedRun, ...]
    predicted: tuple[float, ...]
    about: Mapping[str, Any]

    @property
    def error(self) -> float:
        """The median relative error of the table over the runs."""
        errors = [abs(time / run.nanoseconds - 1) for time, run in zip(self.predicted, self.runs, strict=True)]
        return float(np.median(errors))


def calibrate(name: str = "calibrated", seconds: float = 10.0) -> Calibration:
    """Measure the cost of the counted operations on this machine.

    Parameters
    ----------
    name
        Name of the table.
    seconds
        Duration of the measurement in seconds; every query runs at least three times.

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
    table = CostTable(name, **measured, **measure_shedding(stream, measured["visited"], measured["created"]))
    predicted = counts @ [measured[key] for key in COUNTERS]
    calibration = Calibration(table, tuple(runs), tuple(predicted.tolist()), {})
    return replace(calibration, about=_about(calibration))


def workload_stream(events: int = _EVENTS) -> pa.Table:
    """Return DS1 with dictionary-encoded types, as Arrow sources usually have them."""
    table = ds1(events)
    return table.set_column(0, "type", table["type"].dictionary_encode()).combine_chunks()


def measure(workloads: Mapping[str, str], stream: pa.Table, seconds: float) -> list[TimedRun]:
    """Time `Engine.process` over the stream for each query, in rounds, and return the fastest run of each.

    Parameters
    ----------
    workloads
        Patterns over DS1 by name.
    stream
        Events.
    seconds
        Duration of the measurement in seconds; there are at least three rounds.

    Raises
    ------
    ValidationError
        If the generated kernels are not in use; the times would be those of the interpreter.
    """
    schema = Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCDEF"}, time="ts", type="type", time_unit="us")
    queries = {name: parse(f"PATTERN {text}", schema) for name, text in workloads.items()}
    best: dict[str, TimedRun] = {}
    rounds = 0
    for query in queries.values():
        _warm(Engine(query, store="rows"))
    stop = perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < stop:
        for name, query in queries.items():
            engine = Engine(query, store="rows")
            _warm(engine)
            start = perf_counter_ns()
            engine.process(stream)
            elapsed = perf_counter_ns() - start
            if name not in best or elapsed < best[name].nanoseconds:
                metrics = engine.metrics()
                counts = {operation: metrics[counter] for operation, counter in COUNTERS.items()}
                best[name] = TimedRun(name, counts, float(elapsed))
        rounds += 1
    return list(best.values())


def fit(counts: npt.NDArray[np.float64], nanoseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Fit non-negative costs per operation that minimise the squared relative error; all runs have the same weight.

    While a cost is negative, the most negative one is fixed at 0 and the others are fitted again. This does not always
    give the minimum, but needs only NumPy.

    Parameters
    ----------
    counts
        Counters of the runs, float64[runs, operations].
    nanoseconds
        Times of the runs, float64[runs], positive.

    Returns
    -------
    float64[operations]
        Nanoseconds per operation.
    """
    relative = counts / nanoseconds[:, None]
    costs = np.zeros(counts.shape[1])
    fitted = list(range(counts.shape[1]))
    while fitted:
        solution = np.linalg.lstsq(relative[:, fitted], np.ones(len(counts)), rcond=None)[0]
        if solution.min() >= 0:
            costs[fitted] = solution
            break
        del fitted[int(solution.argmin())]
    return costs


def _warm(engine: Engine) -> None:
    if not engine.compile("60s"):
        raise ValidationError(
            f"cannot calibrate: the generated kernels are not in use ({engine.metrics()['kernels']['reason']}); "
            "wait until they are compiled, and do not set FASTCEP_JIT"
        )


def machine() -> dict[str, Any]:
    """Describe this machine: ``cpu`` and ``cores``."""
    return {"cpu": _processor(), "cores": os.cpu_count()}


def environment() -> dict[str, Any]:
    """Describe what a measurement depends on: ``machine``, ``versions`` and ``date``."""
    return {
        "machine": machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("fastcep", "numpy", "numba", "pyarrow")},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _about(calibration: Calibration) -> dict[str, Any]:
    return environment() | {
        "fitted": list(COUNTERS),
        "measured_apart": [name for name in OPERATIONS if name not in COUNTERS],
        "median_relative_error": round(calibration.error, 3),
        "runs": [
            {"name": run.name, "milliseconds": round(run.nanoseconds / 1e6, 3), "fitted": round(time / 1e6, 3)}
            | dict(run.counts)
            for run, time in zip(calibration.runs, calibration.predicted, strict=True)
        ],
    }


def _processor() -> str:
    """Return the name of the processor, or its architecture if the system does not report the name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines: Sequence[str] = cpuinfo.read_text().splitlines() if cpuinfo.exists() else ()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
