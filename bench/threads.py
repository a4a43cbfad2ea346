"""Measure ``threads=2`` against one thread on the keyed limit queries and write ``results/threads.json``.

Arrow in to Arrow out, with generated kernels and the engine made before; the sides take turns. Wall time is what
threads are for, and wants two idle processors: ``load`` is that of the machine before and after. CPU time says what
they cost. That of the thread that has most to do is what wall time comes to if nothing else runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, store

#: With the store that one thread chooses; with threads nothing is tried.
NAMES = {"Q1": "factorised", "Q1s": "factorised", "QK": "rows"}
SIDES = (1, 2)


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=25)
    passes = parser.parse_args().passes
    table = events()
    before = os.getloadavg()[0]
    rows = {}
    for name, kind in NAMES.items():
        query = fc.parse(QUERIES[name], SCHEMA, name=name.lower())
        assert fc.Engine(query, store=kind).compile("5min"), "the generated kernels are not in use"
        taken: dict[int, list[tuple[float, float, float]]] = {threads: [] for threads in SIDES}
        for _ in range(passes):
            for threads in SIDES:
                engine = fc.Engine(query, threads=threads, store=kind)
                wall, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
                found = engine.process(table).to_arrow()
                wall, cpu, own = time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - own
                taken[threads].append((wall, cpu, max(own, cpu - own)))
                assert len(found) == COUNTS[name], f"{name}: wrong number of matches"
        rows[name] = figures(taken)
        print(f"{name:4} {told(rows[name])}")
    store("threads", {"passes": passes, "load": [round(before, 2), round(os.getloadavg()[0], 2)], "queries": rows})


def figures(taken: dict[int, list[tuple[float, float, float]]]) -> dict[str, Any]:
    """Median and best of each time in milliseconds, and how many times faster two threads are, by wall and busiest."""
    out: dict[str, Any] = {}
    for threads, pairs in taken.items():
        out[f"threads={threads}"] = {
            kind: {"median": round(statistics.median(values) * 1e3, 1), "best": round(min(values) * 1e3, 1)}
            for kind, values in zip(("wall_ms", "cpu_ms", "busiest_ms"), zip(*pairs, strict=True), strict=True)
        }
    one, two = (out[f"threads={threads}"] for threads in SIDES)
    return out | {
        name: {kind: round(one[times][kind] / two[times][kind], 2) for kind in ("median", "best")}
        for name, times in (("faster", "wall_ms"), ("faster_if_idle", "busiest_ms"))
    }


def told(row: dict[str, Any]) -> str:
    """A line of the table."""
    sides = []
    for threads in SIDES:
        wall, cpu, busiest = (row[f"threads={threads}"][f"{kind}_ms"]["median"] for kind in ("wall", "cpu", "busiest"))
        sides.append(f"threads={threads}: wall {wall:6.1f} ms, CPU {cpu:6.1f} ms, busiest thread {busiest:6.1f} ms")
    gain, idle = row["faster"], row["faster_if_idle"]
    sides.append(f"faster: wall {gain['median']:.2f} (best {gain['best']:.2f})")
    return f"{'   '.join(sides)}, busiest {idle['median']:.2f} (best {idle['best']:.2f})"


if __name__ == "__main__":
    main()
