"""Measure 100 queries with common event filters in one engine against one, and write ``results/many_queries.json``.

A run is a new process in which both sides take turns, a pass each (CPU time, Arrow in to Arrow out, generated kernels,
the engine made before). A run's ratio is that of the medians of its passes; the result is the median of the runs.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import fastcep as fc
from bench.queries import SAME, SCHEMA, store
from bench.turns import Side, engine_side, median_ms, runs_of

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


def sides(filters: str) -> dict[str, Side]:
    """One of the queries with these filters, and all."""
    every = queries(filters)
    return {"one": engine_side(every[:1]), "all": engine_side(every)}


def main() -> None:
    """Run, print the table, write the results."""
    cases = {name: partial(sides, filters) for name, filters in FILTERS.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, runs in runs_of("bench.many_queries", __doc__.splitlines()[0], cases, PASSES):
        ratios = sorted(round(run["all"]["ms"] / run["one"]["ms"], 2) for run in runs)
        one, many = median_ms(runs, "one"), median_ms(runs, "all")
        rows[name] = {"one_ms": one, "all_ms": many, "matches": runs[0]["all"]["matches"]}
        rows[name] |= {"ratio": statistics.median(ratios), "ratios": ratios}
        print(f"{name:30} one {one:7.1f} ms   {QUERIES} {many:7.1f} ms   ratio {rows[name]['ratio']:6.2f}")
    store("many_queries", {"queries": QUERIES, "runs": len(runs), "passes": PASSES, "filters": rows})


if __name__ == "__main__":
    main()
