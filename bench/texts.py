"""Measure conditions on strings against an integer equality and write ``results/texts.json``.

A million events with 1,000 distinct strings and 1,000 distinct integers; each condition holds for one event in a
thousand. Every query reads both columns, so that only the conditions differ. Results are CPU time from Arrow in to
Arrow out, the median of several passes with generated kernels.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.queries import store

EVENTS = 1_000_000
DISTINCT = 1_000
PASSES = 9
CONDITIONS = {
    "integer equality": "a.n = 7",
    "string equality": "a.s = 'ab 7'",
    "LIKE": "a.s LIKE 'ab%'",
    "lower, starts_with": "starts_with(lower(a.s), 'ab')",
    "order": "a.s < 'ac'",
    "CASE": "CASE WHEN a.n > 500 THEN a.n = 1000 ELSE a.n = 7 END",
    "IS NULL": "a.n IS NULL OR a.n = 7",
}


def main() -> None:
    """Measure every condition in turn, pass by pass, print the table, write the results."""
    random = np.random.default_rng(1)
    numbers = random.integers(0, DISTINCT, EVENTS)
    words = pa.array(["ab 7" if number == 7 else f"word {number}" for number in range(DISTINCT)])
    table = pa.table({
        "t": np.arange(EVENTS),
        "n": numbers,
        "s": pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), words).cast(pa.string()),
    })  # fmt: skip
    schema = fc.Schema({"A": {"n": "int64", "s": "string"}}, time="t")
    queries = {
        name: fc.parse(f"PATTERN SEQ(A a) WHERE {condition} WITHIN 1ms RETURN a.n, a.s", schema)
        for name, condition in CONDITIONS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(PASSES):
        for name, query in queries.items():
            engine = fc.Engine(query)
            assert engine.compile("5min"), "the generated kernels are not in use"
            start = time.process_time()
            matches = sum(len(engine.process(table.slice(place, 50_000))) for place in range(0, EVENTS, 50_000))
            seconds[name].append(time.process_time() - start)
            assert matches == np.count_nonzero(numbers == 7), (name, matches)
    base = statistics.median(seconds["integer equality"])
    rows = {}
    for name, passes in seconds.items():
        median = statistics.median(passes)
        nanoseconds = median / EVENTS * 1e9
        rows[name] = {"nanoseconds_per_event": round(nanoseconds, 1), "times_integer": round(median / base, 2)}
        print(f"{name:20} {nanoseconds:6.1f} ns/event   {median / base:5.2f} x integer equality")
    store("texts", {"passes": PASSES, "conditions": rows})


if __name__ == "__main__":
    main()
