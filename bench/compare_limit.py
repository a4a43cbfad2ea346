"""Measure the limit queries against hand-written C (``limit/limit.c``) in one run and write ``results/limit.json``.

Both sides start with the events in memory (C: rows; fastcep: an Arrow table) and end with all matches in memory
(fastcep: an Arrow table). CPU time, medians of interleaved passes.
"""

from __future__ import annotations

import argparse
import statistics
import time

import pyarrow as pa

import fastcep as fc
from bench.c_limit import CLimit
from bench.queries import COUNTS, QUERIES, SCHEMA, events, run, store


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    table = events()
    program, rows = CLimit(), {}
    for name, text in QUERIES.items():
        query = fc.parse(text, SCHEMA, name=name.lower())
        assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
        assert run(query, table) == COUNTS[name], f"{name}: wrong number of matches"
        ours, limit = [], []
        for _ in range(passes):  # each side the median of three runs in a row: the first meets an idle processor
            ours.append(len(table) / statistics.median(_seconds(query, table) for _ in range(3)) / 1e6)
            run_in_c = program.run(name)
            limit.append(run_in_c.events / run_in_c.seconds / 1e6)
        mine, theirs = statistics.median(ours), statistics.median(limit)
        rows[name] = {"fastcep": round(mine, 2), "limit": round(theirs, 2), "ratio": round(mine / theirs, 3)}
        print(f"{name:4} fastcep {mine:7.2f} M events/s   C limit {theirs:7.2f}   ratio {mine / theirs:.3f}")
    store("limit", {"passes": passes, "million_events_per_cpu_second": rows})


def _seconds(query: fc.Query, table: pa.Table) -> float:
    start = time.process_time()
    run(query, table)
    return time.process_time() - start


if __name__ == "__main__":
    main()
