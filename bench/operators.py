"""Measure the throughput of every operator on DS1 and write ``results/operators.json``.

Results are CPU time from Arrow in to Arrow out, the median of several passes with generated kernels.
"""

from __future__ import annotations

import statistics
import time

import fastcep as fc
from bench.queries import OPERATORS, SCHEMA, events, run_to_end, store

PASSES = 7


def main() -> None:
    """Measure every query, print the table, write the results."""
    table = events()
    rows = {}
    for name, text in OPERATORS.items():
        query = fc.parse(f"PATTERN {text} WITHIN 1ms", SCHEMA, name="query")
        assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
        seconds = []
        for _ in range(PASSES):
            start = time.process_time()
            matches = run_to_end(query, table)
            seconds.append(time.process_time() - start)
        speed = len(table) / statistics.median(seconds) / 1e6
        rows[name] = {"matches": matches, "million_events_per_cpu_second": round(speed, 2)}
        print(f"{name:14} {speed:6.2f} M events/s   {matches:9,} matches")
    store("operators", {"passes": PASSES, "queries": rows})


if __name__ == "__main__":
    main()
