"""Measure overlapping shared windows against one window at a time, and write ``results/windows.json``.

The query, the length of a window and so the lifetime of a partial match are the same; only the interval between windows
differs. A run is a new process in which the engines alternate pass by pass (CPU time, Arrow in to Arrow out, generated
kernels).
"""

from __future__ import annotations

import statistics

import fastcep as fc
from bench.interleaved import Side, engine_side, median_ms, runs_of
from bench.queries import SAME, SCHEMA, store

LENGTH = 8000
PASSES = 5
#: Events between the starts of two windows, by the number of open windows; 0: a sliding window, ``WITHIN n EVENTS``.
EVERY = {"sliding": 0, "1": LENGTH, "10": LENGTH // 10, "100": LENGTH // 100, "1000": LENGTH // 1000}
CONDITIONS = f"{SAME} AND a.V = b.V AND a.V + b.V = c.V AND a.ID = 1 AND c.time - a.time BETWEEN 20ms AND 20001us"


def query(every: int) -> fc.Query:
    """Return the query with a window that opens every ``every`` events; 0: a sliding window."""
    window = f"WINDOW OPEN EVERY {every} EVENTS CLOSE AFTER {LENGTH} EVENTS" if every else f"WITHIN {LENGTH} EVENTS"
    return fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {CONDITIONS} {window}", SCHEMA, name="q")


def sides() -> dict[str, Side]:
    """Return an engine for each number of open windows."""
    return {name: engine_side(query(every)) for name, every in EVERY.items()}


def main() -> None:
    """Measure, print the table, write the results."""
    ((_, runs),) = runs_of("bench.windows", __doc__.splitlines()[0], {"windows": sides}, PASSES)
    rows = {}
    for name in EVERY:
        ratio = round(statistics.median(run[name]["ms"] / run["1"]["ms"] for run in runs), 2)
        facts = {fact: runs[0][name][fact] for fact in ("matches", "rows_visited")}
        rows[name] = {"ms": median_ms(runs, name), **facts, "ratio": ratio}
        matches = rows[name]["matches"]
        print(f"{name:>8} open at a time {rows[name]['ms']:8.1f} ms   ratio {ratio:5.2f}   {matches:,} matches")
    store("windows", {"runs": len(runs), "passes": PASSES, "open": rows})


if __name__ == "__main__":
    main()
