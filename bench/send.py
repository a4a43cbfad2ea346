"""Measure ``send`` and batches of every size on Q1s, and write ``results/send.json``.

Latency: the time on the clock around each of 250,000 calls of ``send``, with the values at hand and generated kernels.
The clock's own cost, the median of calls of it around nothing, is taken off, and stated. What was loaded before is
frozen, so that Python's collector has only the calls' own garbage to look through.

Throughput: CPU time of ``process`` over DS1 in batches that were made before, per batch size and input, each way of
taking the matches: counted, or made an Arrow table per batch. The sizes take turns, pass by pass; a figure is the
median of the passes, a ratio that to the best size of the same input and way.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.queries import QUERIES, SCHEMA, events, store
from fastcep.engine.store_trial import TRIED

SENT = 250_000
SIZES = (1, 16, 64, 256, 1024, 4096, 65536, None)
#: At most so many batches in a pass, so that small ones do not take forever.
BATCHES = 20_000
INPUTS = ("record batch", "dict")
CALLS = ("all", "nothing found", "found", "tried")
WAYS = ("counted", "Arrow")


def engine() -> fc.Engine:
    """An engine for Q1s that runs generated code."""
    made = fc.Engine(fc.parse(QUERIES["Q1s"], SCHEMA))
    assert made.compile("5min"), "the generated kernels are not in use"
    return made


# ------------------------------------------------------------------------ latency


def clock_cost(calls: int = 200_000) -> float:
    """Median nanoseconds between two readings of the clock."""
    clock = time.perf_counter_ns
    return statistics.median([-clock() + clock() for _ in range(calls)])


def latencies(table: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Nanoseconds of each call, and whether it found something."""
    types, ids, values, times = (table[name].to_pylist() for name in ("type", "ID", "V", "ts"))
    took, found = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
    live, clock = engine(), time.perf_counter_ns
    gc.collect()
    gc.freeze()
    for row in range(len(table)):
        kind, key, value, at = types[row], ids[row], values[row], times[row]
        start = clock()
        matches = live.send(kind, ID=key, V=value, ts=at)
        took[row] = clock() - start
        found[row] = len(matches) > 0
    gc.unfreeze()
    return took, found


def latency(table: pa.Table, runs: int) -> dict[str, Any]:
    """Quantiles of all calls, and of kinds of them: medians of the runs. Calls in which stores are tried are apart."""
    rows: dict[str, list[list[float]]] = {name: [] for name in CALLS}
    costs = []
    for _ in range(runs):
        cost = clock_cost()
        took, found = latencies(table)
        costs.append(cost)
        tried, took, found = took[:TRIED], took[TRIED:], found[TRIED:]
        for name, chosen in zip(CALLS, (took, took[~found], took[found], tried), strict=True):
            rows[name].append([float(np.quantile(chosen, q)) - cost for q in (0.5, 0.99, 0.999)])
    out: dict[str, Any] = {"clock_ns": statistics.median(costs), "finding": round(float(found.mean()), 4)}
    for name, of in rows.items():
        medians = [round(statistics.median(column)) for column in zip(*of, strict=True)]
        out[name] = dict(zip(("median_ns", "p99_ns", "p99.9_ns"), medians, strict=True))
        out[name]["medians_ns"] = [round(row[0]) for row in of]
    return out


# --------------------------------------------------------------------- throughput


def batches(table: pa.Table, size: int | None, form: str) -> list[Any]:
    """The events in batches of one size."""
    length = len(table) if size is None else size
    cut = table.slice(0, length * BATCHES).to_batches(max_chunksize=length)
    if form == "record batch":
        return list(cut)
    return [
        {name: batch.column(name) if name == "type" else batch.column(name).to_numpy() for name in batch.schema.names}
        for batch in cut
    ]


def seconds(data: Sequence[Any], way: str) -> float:
    """CPU time of all batches through a new engine."""
    live = engine()
    start = time.process_time()
    if way == "counted":
        for batch in data:
            len(live.process(batch))
    else:
        for batch in data:
            live.process(batch).to_arrow()
    return time.process_time() - start


def throughput(table: pa.Table, passes: int) -> list[dict[str, Any]]:
    """Per input, way and batch size, nanoseconds per event and the ratio to the best size."""
    rows = []
    for form in INPUTS:
        cut = {size: batches(table, size, form) for size in SIZES}
        counts = {size: min(len(table), (size or len(table)) * BATCHES) for size in SIZES}
        gc.collect()
        gc.freeze()
        for way in WAYS:
            took: dict[int | None, list[float]] = {size: [] for size in SIZES}
            for _ in range(passes):
                for size in SIZES:
                    took[size].append(seconds(cut[size], way) / counts[size] * 1e9)
            each = {size: statistics.median(of) for size, of in took.items()}
            best = min(each.values())
            for size, ns in each.items():
                rows.append(
                    {"input": form, "matches": way, "batch": size or len(table), "ns_per_event": round(ns, 1)}
                    | {"us_per_batch": round(ns * (size or len(table)) / 1e3, 2), "ratio": round(best / ns, 3)}
                )
        gc.unfreeze()
    return rows


def main() -> None:
    """Run, print the tables, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    table = events()
    sent = latency(table.slice(0, SENT), given.runs)
    print(f"send: clock {sent['clock_ns']} ns taken off, {sent['finding']:.1%} of the calls find something")
    for name in CALLS:
        row = sent[name]
        print(f"  {name:14} median {row['median_ns']:6} ns   p99 {row['p99_ns']:6}   p99.9 {row['p99.9_ns']:6}")
    rows = throughput(table, given.passes)
    for row in rows:
        print(
            f"{row['input']:13} {row['matches']:8} {row['batch']:9,} events  {row['ns_per_event']:9.1f} ns an event  "
            f"{row['us_per_batch']:10.1f} us a batch  ratio {row['ratio']:.3f}"
        )
    store("send", {"query": "Q1s", "events_sent": SENT, "send": sent, "batches": rows})


if __name__ == "__main__":
    main()
