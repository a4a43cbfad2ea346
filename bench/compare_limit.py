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
from bench.queries import COUNTS, QUERIES, SCHEMA, events, store

#: The store that ``auto`` chooses is the figure, as of an engine that runs on; ``auto`` itself, with the trial, is told
#: beside it.
STORES = ("auto", "rows", "factorised")


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    table = events()
    program, rows = CLimit(), {}
    for name, text in QUERIES.items():
        query = fc.parse(text, SCHEMA, name=name)
        ours: dict[str, list[float]] = {kind: [] for kind in STORES}
        limit, chosen = [], ""
        for _ in range(passes):  # each side the median of three runs in a row: the first meets an idle processor
            for kind, speeds in ours.items():
                runs = [_run(query, kind, table) for _ in range(3)]
                chosen = runs[0][1] if kind == "auto" else chosen
                seconds = [seconds for seconds, _ in runs]
                speeds.append(len(table) / statistics.median(seconds) / 1e6)
            run_in_c = program.run(name)
            limit.append(run_in_c.events / run_in_c.seconds / 1e6)
        theirs = statistics.median(limit)
        found = {kind: statistics.median(speeds) for kind, speeds in ours.items()}
        speeds_by_store = {kind: round(speed, 2) for kind, speed in found.items()}
        rows[name] = {"fastcep": speeds_by_store[chosen], "limit": round(theirs, 2)}
        rows[name] |= {"ratio": round(found[chosen] / theirs, 3), "chosen": chosen, "stores": speeds_by_store}
        told = "   ".join(f"{kind} {speed:6.2f} ({speed / theirs:.3f})" for kind, speed in found.items())
        print(f"{name:4} {told}   C limit {theirs:7.2f} M events/s (ratio)", flush=True)
    store("limit", {"passes": passes, "million_events_per_cpu_second": rows})


def _run(query: fc.Query, kind: str, table: pa.Table) -> tuple[float, str]:
    """CPU time from Arrow to Arrow, and the store; as for the C program what is made before is not counted."""
    engine = fc.Engine(query, store=kind)
    assert engine.compile("5min"), "the generated kernels are not in use"
    start = time.process_time()
    count = len(engine.process(table).to_arrow())
    seconds = time.process_time() - start
    assert count == COUNTS[query.name], f"{query.name}: wrong number of matches"
    return seconds, engine.metrics()["queries"][query.name]["store"]


if __name__ == "__main__":
    main()
