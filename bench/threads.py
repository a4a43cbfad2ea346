"""Measure ``threads=2`` against one thread on the keyed limit queries and write ``results/threads.json``.

Arrow in to Arrow out, with generated kernels and the engine made before; the sides take turns. Wall time is what
threads are for; CPU time says what they cost. Both want two idle processors: ``load`` is that of the
machine before and after.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, store

NAMES = ("Q1", "Q1s", "QK")
SIDES = (1, 2)


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=25)
    passes = parser.parse_args().passes
    table = events()
    before = os.getloadavg()[0]
    rows = {}
    for name in NAMES:
        query = fc.parse(QUERIES[name], SCHEMA, name=name.lower())
        assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
        taken: dict[int, list[tuple[float, float]]] = {threads: [] for threads in SIDES}
        for _ in range(passes):
            for threads in SIDES:
                engine = fc.Engine(query, threads=threads)
                wall, cpu = time.perf_counter(), time.process_time()
                found = engine.process(table).to_arrow()
                taken[threads].append((time.perf_counter() - wall, time.process_time() - cpu))
                assert len(found) == COUNTS[name], f"{name}: wrong number of matches"
        rows[name] = figures(taken)
        print(f"{name:4} {told(rows[name])}")
    store("threads", {"passes": passes, "load": [round(before, 2), round(os.getloadavg()[0], 2)], "queries": rows})


def figures(taken: dict[int, list[tuple[float, float]]]) -> dict[str, Any]:
    """Median and best of wall and CPU time in milliseconds, and how many times faster two threads are."""
    out: dict[str, Any] = {}
    for threads, pairs in taken.items():
        out[f"threads={threads}"] = {
            kind: {"median": round(statistics.median(values) * 1e3, 1), "best": round(min(values) * 1e3, 1)}
            for kind, values in zip(("wall_ms", "cpu_ms"), zip(*pairs, strict=True), strict=True)
        }
    one, two = (out[f"threads={threads}"]["wall_ms"] for threads in SIDES)
    return out | {"faster": {kind: round(one[kind] / two[kind], 2) for kind in ("median", "best")}}


def told(row: dict[str, Any]) -> str:
    """A line of the table."""
    sides = (
        f"threads={threads}: wall {row[f'threads={threads}']['wall_ms']['median']:6.1f} ms, "
        f"CPU {row[f'threads={threads}']['cpu_ms']['median']:6.1f} ms"
        for threads in SIDES
    )
    return f"{'   '.join(sides)}   {row['faster']['median']:.2f} times faster (best {row['faster']['best']:.2f})"


if __name__ == "__main__":
    main()
