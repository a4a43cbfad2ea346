"""Measure 100 queries with common event filters in one engine against one, and write ``results/many_queries.json``.

A run is a new process in which both engines alternate pass by pass (CPU time, Arrow in to Arrow out, generated kernels
ready). The ratio of a run is that of the medians of its passes; the result is the median of the runs.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import fastcep as fc
from bench.interleaved import Side, engine_side, median_ms, runs_of
from bench.queries import SAME, SCHEMA, store

QUERIES = 100
PASSES = 7
#: Event-local conditions of the queries, by name; ``{x}`` is the variable, and ``{n}`` differs between queries.
FILTERS = {
    "a hundredth of the events": "{x}.V = 10 AND {x}.ID = 3",
    "a hundredth, from ten filters": "{x}.V = 10 AND {x}.ID = {n}",
    "a tenth of the events": "{x}.V = 10",
}


def queries(filters: str) -> list[fc.Query]:
    """Return queries with these event filters and different windows and join conditions."""
    parsed = []
    for number in range(QUERIES):
        local = " AND ".join(filters.format(x=x, n=1 + number % 10) for x in "abc")
        join = f"{SAME} AND c.time - a.time > {100 + number}us"
        text = f"PATTERN SEQ(A a, B b, C c) WHERE {local} AND {join} WITHIN {900 + 2 * number}us"
        parsed.append(fc.parse(text, SCHEMA, name=f"q{number}"))
    return parsed


def sides(filters: str) -> dict[str, Side]:
    """Return an engine with one of the queries with these filters, and one with all of them."""
    all_queries = queries(filters)
    return {"one": engine_side(all_queries[:1]), "all": engine_side(all_queries)}


def main() -> None:
    """Measure, print the table, write the results."""
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
