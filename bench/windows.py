"""Measure overlapping shared windows against one window at a time, and write ``results/windows.json``.

The query, the length of a window and so the life of a partial match are the same; what changes is how often a window
opens. A run is a new process in which the sides take turns, a pass each (CPU time, Arrow in to Arrow out, generated
kernels).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

import fastcep as fc
from bench.queries import SAME, SCHEMA, events, store

LENGTH = 8000
PASSES = 5
#: How often a window opens, in events, by how many are open at a time; 0: a window that slides, ``WITHIN n EVENTS``.
EVERY = {"sliding": 0, "1": LENGTH, "10": LENGTH // 10, "100": LENGTH // 100, "1000": LENGTH // 1000}
CONDITIONS = f"{SAME} AND a.V = b.V AND a.V + b.V = c.V AND a.ID = 1 AND c.time - a.time BETWEEN 20ms AND 20001us"


def query(every: int) -> fc.Query:
    """The query, with the windows that open every so many events."""
    window = f"WINDOW OPEN EVERY {every} EVENTS CLOSE AFTER {LENGTH} EVENTS" if every else f"WITHIN {LENGTH} EVENTS"
    return fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {CONDITIONS} {window}", SCHEMA, name="q")


def measure() -> dict[str, dict[str, float]]:
    """Per side the median pass in milliseconds, matches and rows visited."""
    table = events()
    sides = {name: query(every) for name, every in EVERY.items()}
    for side in sides.values():
        assert fc.Engine(side).compile("5min"), "the generated kernels are not in use"
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    facts: dict[str, dict[str, float]] = {}
    for _ in range(PASSES):
        for name, side in sides.items():
            engine = fc.Engine(side)
            start = time.process_time()
            matches = len(engine.process(table).to_arrow())
            seconds[name].append(time.process_time() - start)
            facts[name] = {"matches": matches, "rows_visited": engine.metrics()["rows_visited"]}
    return {name: {"ms": round(statistics.median(values) * 1e3, 1)} | facts[name] for name, values in seconds.items()}


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help="one run, as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure()))
        return
    command = [sys.executable, "-m", "bench.windows", "--measure"]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(given.runs)]
    rows = {}
    for name in EVERY:
        ratio = round(statistics.median(run[name]["ms"] / run["1"]["ms"] for run in runs), 2)
        rows[name] = {**runs[0][name], "ms": statistics.median(run[name]["ms"] for run in runs), "ratio": ratio}
        found = rows[name]["matches"]
        print(f"{name:>8} open at a time {rows[name]['ms']:8.1f} ms   ratio {ratio:5.2f}   {found:,} matches")
    store("windows", {"runs": given.runs, "passes": PASSES, "open": rows})


if __name__ == "__main__":
    main()
