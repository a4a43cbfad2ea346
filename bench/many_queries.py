"""Measure 100 queries with common event filters in one engine against one, and write ``results/many_queries.json``.

A run is a new process in which both sides take turns, a pass each (CPU time, Arrow in to Arrow out, generated kernels,
the engine made before). A run's ratio is that of the medians of its passes; the result is the median of the runs.
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

QUERIES = 100
PASSES = 7
#: What the queries ask of single events, by name; ``{x}`` is the variable and ``{n}`` changes from query to query.
FILTERS = {
    "a hundredth of the events": "{x}.V = 10 AND {x}.ID = 3",
    "a hundredth, from ten filters": "{x}.V = 10 AND {x}.ID = {n}",
    "a tenth of the events": "{x}.V = 10",
}


def queries(filters: str) -> list[fc.Query]:
    """Queries of different windows and with different conditions on their events together."""
    built = []
    for number in range(QUERIES):
        each = " AND ".join(filters.format(x=x, n=1 + number % 10) for x in "abc")
        joint = f"{SAME} AND c.time - a.time > {100 + number}us"
        text = f"PATTERN SEQ(A a, B b, C c) WHERE {each} AND {joint} WITHIN {900 + 2 * number}us"
        built.append(fc.parse(text, SCHEMA, name=f"q{number}"))
    return built


def measure(name: str) -> dict[str, float]:
    """The median pass of each side, in milliseconds, and how many matches there are."""
    table = events()
    every = queries(FILTERS[name])
    sides = {"one": every[:1], "all": every}
    for side in sides.values():
        assert fc.Engine(side).compile("5min"), "the generated kernels are not in use"
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    matches = 0
    for _ in range(PASSES):
        for side, asked in sides.items():
            engine = fc.Engine(asked)
            start = time.process_time()
            matches = len(engine.process(table).to_arrow())
            seconds[side].append(time.process_time() - start)
    figures = {f"{side}_ms": round(statistics.median(values) * 1e3, 1) for side, values in seconds.items()}
    return figures | {"matches": matches}


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", choices=FILTERS, help="one run of these filters, as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    rows = {}
    for name in FILTERS:
        command = [sys.executable, "-m", "bench.many_queries", "--measure", name]
        outputs = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(given.runs)]
        runs = [json.loads(output) for output in outputs]
        ratios = sorted(round(run["all_ms"] / run["one_ms"], 2) for run in runs)
        one, many = (statistics.median(run[side] for run in runs) for side in ("one_ms", "all_ms"))
        rows[name] = {"one_ms": one, "all_ms": many, "matches": runs[0]["matches"]}
        rows[name] |= {"ratio": statistics.median(ratios), "ratios": ratios}
        print(f"{name:30} one {one:7.1f} ms   {QUERIES} {many:7.1f} ms   ratio {rows[name]['ratio']:6.2f}")
    store("many_queries", {"queries": QUERIES, "runs": given.runs, "passes": PASSES, "filters": rows})


if __name__ == "__main__":
    main()
