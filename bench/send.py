"""Measure ``send`` and batches of every size on Q1s, and write ``results/send.json``.

Latency: wall time of each of 250,000 calls of ``send``, with the values ready and generated kernels. The cost of
reading the clock, measured around an empty statement, is subtracted and stated. Objects that exist before the
measurement are frozen, so that the garbage collector traverses only those of the calls.

Throughput: CPU time of ``process`` over DS1 in batches that are built beforehand, for each batch size, type of input
and use of the matches: counted, or converted to an Arrow table per batch. The sizes alternate pass by pass. A result is
the median of the passes; its ratio is to the fastest size with the same input and use.
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
#: Largest number of batches in a pass, which limits the time for small batches.
MAX_BATCHES = 20_000
INPUTS = ("record batch", "dict")
#: Kinds of calls: the first ones, during the store trial, are separate from all others.
CALLS = ("all", "nothing found", "found", "tried")
USES = ("counted", "Arrow")


def engine() -> fc.Engine:
    """Return an engine for Q1s that runs generated kernels."""
    new = fc.Engine(fc.parse(QUERIES["Q1s"], SCHEMA))
    assert new.compile("5min"), "the generated kernels are not in use"
    return new


# ------------------------------------------------------------------------ latency


def clock_cost(calls: int = 200_000) -> float:
    """Return the median nanoseconds between two readings of the clock."""
    clock = time.perf_counter_ns
    return statistics.median([-clock() + clock() for _ in range(calls)])


def latencies(table: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the nanoseconds of each call, and whether it returned a match."""
    types, ids, values, times = (table[name].to_pylist() for name in ("type", "ID", "V", "ts"))
    nanoseconds, has_match = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
    receiver, clock = engine(), time.perf_counter_ns
    gc.collect()
    gc.freeze()
    for row in range(len(table)):
        kind, key, value, timestamp = types[row], ids[row], values[row], times[row]
        start = clock()
        matches = receiver.send(kind, ID=key, V=value, ts=timestamp)
        nanoseconds[row] = clock() - start
        has_match[row] = len(matches) > 0
    gc.unfreeze()
    return nanoseconds, has_match


def latency(table: pa.Table, runs: int) -> dict[str, Any]:
    """Return quantiles of each kind of calls, as medians of the runs."""
    rows: dict[str, list[list[float]]] = {name: [] for name in CALLS}
    costs = []
    for _ in range(runs):
        cost = clock_cost()
        nanoseconds, has_match = latencies(table)
        costs.append(cost)
        trial, nanoseconds, has_match = nanoseconds[:TRIED], nanoseconds[TRIED:], has_match[TRIED:]
        kinds = (nanoseconds, nanoseconds[~has_match], nanoseconds[has_match], trial)
        for name, calls in zip(CALLS, kinds, strict=True):
            rows[name].append([float(np.quantile(calls, q)) - cost for q in (0.5, 0.99, 0.999)])
    results: dict[str, Any] = {"clock_ns": statistics.median(costs), "finding": round(float(has_match.mean()), 4)}
    for name, quantiles in rows.items():
        medians = [round(statistics.median(column)) for column in zip(*quantiles, strict=True)]
        results[name] = dict(zip(("median_ns", "p99_ns", "p99.9_ns"), medians, strict=True))
        results[name]["medians_ns"] = [round(row[0]) for row in quantiles]
    return results


# --------------------------------------------------------------------- throughput


def batches(table: pa.Table, size: int | None, form: str) -> list[Any]:
    """Return the events in batches of one size."""
    length = len(table) if size is None else size
    record_batches = table.slice(0, length * MAX_BATCHES).to_batches(max_chunksize=length)
    if form == "record batch":
        return list(record_batches)
    return [
        {name: batch.column(name) if name == "type" else batch.column(name).to_numpy() for name in batch.schema.names}
        for batch in record_batches
    ]


def seconds(data: Sequence[Any], use: str) -> float:
    """Return the CPU time of a new engine for all batches."""
    new = engine()
    start = time.process_time()
    if use == "counted":
        for batch in data:
            len(new.process(batch))
    else:
        for batch in data:
            new.process(batch).to_arrow()
    return time.process_time() - start


def throughput(table: pa.Table, passes: int) -> list[dict[str, Any]]:
    """Return nanoseconds per event, and the ratio to the fastest size, for each input, use and batch size."""
    rows = []
    for form in INPUTS:
        data = {size: batches(table, size, form) for size in SIZES}
        counts = {size: min(len(table), (size or len(table)) * MAX_BATCHES) for size in SIZES}
        gc.collect()
        gc.freeze()
        for use in USES:
            times: dict[int | None, list[float]] = {size: [] for size in SIZES}
            for _ in range(passes):
                for size in SIZES:
                    times[size].append(seconds(data[size], use) / counts[size] * 1e9)
            medians = {size: statistics.median(values) for size, values in times.items()}
            best = min(medians.values())
            for size, ns in medians.items():
                rows.append(
                    {"input": form, "matches": use, "batch": size or len(table), "ns_per_event": round(ns, 1)}
                    | {"us_per_batch": round(ns * (size or len(table)) / 1e3, 2), "ratio": round(best / ns, 3)}
                )
        gc.unfreeze()
    return rows


def main() -> None:
    """Measure, print the tables, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    table = events()
    sent = latency(table.slice(0, SENT), options.runs)
    print(f"send: clock {sent['clock_ns']} ns subtracted, {sent['finding']:.1%} of the calls return matches")
    for name in CALLS:
        row = sent[name]
        print(f"  {name:14} median {row['median_ns']:6} ns   p99 {row['p99_ns']:6}   p99.9 {row['p99.9_ns']:6}")
    rows = throughput(table, options.passes)
    for row in rows:
        print(
            f"{row['input']:13} {row['matches']:8} {row['batch']:9,} events  {row['ns_per_event']:9.1f} ns per event  "
            f"{row['us_per_batch']:10.1f} us per batch  ratio {row['ratio']:.3f}"
        )
    store("send", {"query": "Q1s", "events_sent": SENT, "send": sent, "batches": rows})


if __name__ == "__main__":
    main()
