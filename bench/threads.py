"""Measure ``threads=2`` against one thread on the keyed limit queries and write ``results/threads.json``.

The path is from Arrow in to Arrow out, with generated kernels ready; one and two threads alternate pass by pass.
Threads reduce the wall time, but only on two idle processors: ``load`` is the load of the machine before and after. The
CPU time is their total cost. The CPU time of the busiest thread is the wall time on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, store

#: Queries, each with the store that one thread chooses; with several threads there is no store trial.
STORES = {"Q1": "factorised", "Q1s": "factorised", "QK": "rows"}
THREADS = (1, 2)


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=25)
    passes = parser.parse_args().passes
    table = events()
    before = os.getloadavg()[0]
    rows = {}
    for name, kind in STORES.items():
        query = fc.parse(QUERIES[name], SCHEMA, name=name.lower())
        assert fc.Engine(query, store=kind).compile("5min"), "the generated kernels are not in use"
        times: dict[int, list[tuple[float, float, float]]] = {threads: [] for threads in THREADS}
        for _ in range(passes):
            for threads in THREADS:
                engine = fc.Engine(query, threads=threads, store=kind)
                wall, cpu, caller = time.perf_counter(), time.process_time(), time.thread_time()
                matches = engine.process(table).to_arrow()
                wall, cpu, caller = time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - caller
                times[threads].append((wall, cpu, max(caller, cpu - caller)))
                assert len(matches) == COUNTS[name], f"{name}: wrong number of matches"
        rows[name] = summarise(times)
        print(f"{name:4} {table_line(rows[name])}")
    store("threads", {"passes": passes, "load": [round(before, 2), round(os.getloadavg()[0], 2)], "queries": rows})


def summarise(times: dict[int, list[tuple[float, float, float]]]) -> dict[str, Any]:
    """Return the median and best times in milliseconds, and the speed-up by wall time and by the busiest thread."""
    summary: dict[str, Any] = {}
    for threads, passes in times.items():
        summary[f"threads={threads}"] = {
            kind: {"median": round(statistics.median(values) * 1e3, 1), "best": round(min(values) * 1e3, 1)}
            for kind, values in zip(("wall_ms", "cpu_ms", "busiest_ms"), zip(*passes, strict=True), strict=True)
        }
    one, two = (summary[f"threads={threads}"] for threads in THREADS)
    return summary | {
        name: {kind: round(one[time_key][kind] / two[time_key][kind], 2) for kind in ("median", "best")}
        for name, time_key in (("faster", "wall_ms"), ("faster_if_idle", "busiest_ms"))
    }


def table_line(row: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    columns = []
    for threads in THREADS:
        wall, cpu, busiest = (row[f"threads={threads}"][f"{kind}_ms"]["median"] for kind in ("wall", "cpu", "busiest"))
        columns.append(f"threads={threads}: wall {wall:6.1f} ms, CPU {cpu:6.1f} ms, busiest thread {busiest:6.1f} ms")
    gain, idle = row["faster"], row["faster_if_idle"]
    columns.append(f"faster: wall {gain['median']:.2f} (best {gain['best']:.2f})")
    return f"{'   '.join(columns)}, busiest {idle['median']:.2f} (best {idle['best']:.2f})"


if __name__ == "__main__":
    main()
