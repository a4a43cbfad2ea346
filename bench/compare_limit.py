"""Measure the limit queries against hand-written C (``limit/limit.c``) in one run and write ``results/limit.json``.

Both programs start with the events in memory (C: rows; fastcep: an Arrow table) and end with all matches in memory
(fastcep: an Arrow table). Results are CPU time, medians of interleaved passes.
"""

from __future__ import annotations

import argparse
import statistics
import time

import pyarrow as pa

import fastcep as fc
from bench.c_limit import CLimit
from bench.queries import COUNTS, QUERIES, SCHEMA, events, store

#: The result is that of the store that ``auto`` chooses, as in a long run; that of ``auto`` includes the store trial.
STORES = ("auto", "rows", "factorised")


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    table = events()
    program, rows = CLimit(), {}
    for name, text in QUERIES.items():
        query = fc.parse(text, SCHEMA, name=name)
        fastcep_speeds: dict[str, list[float]] = {kind: [] for kind in STORES}
        c_speeds, chosen = [], ""
        for _ in range(
            passes
        ):  # each time the median of three runs in a row: the first one starts on an idle processor
            for kind, speeds in fastcep_speeds.items():
                runs = [_run(query, kind, table) for _ in range(3)]
                chosen = runs[0][1] if kind == "auto" else chosen
                seconds = [seconds for seconds, _ in runs]
                speeds.append(len(table) / statistics.median(seconds) / 1e6)
            run_in_c = program.run(name)
            c_speeds.append(run_in_c.events / run_in_c.seconds / 1e6)
        limit = statistics.median(c_speeds)
        medians = {kind: statistics.median(speeds) for kind, speeds in fastcep_speeds.items()}
        by_store = {kind: round(speed, 2) for kind, speed in medians.items()}
        rows[name] = {"fastcep": by_store[chosen], "limit": round(limit, 2)}
        rows[name] |= {"ratio": round(medians[chosen] / limit, 3), "chosen": chosen, "stores": by_store}
        line = "   ".join(f"{kind} {speed:6.2f} ({speed / limit:.3f})" for kind, speed in medians.items())
        print(f"{name:4} {line}   C limit {limit:7.2f} M events/s (ratio)", flush=True)
    store("limit", {"passes": passes, "million_events_per_cpu_second": rows})


def _run(query: fc.Query, kind: str, table: pa.Table) -> tuple[float, str]:
    """Return the CPU time from Arrow to Arrow, and the store; as for the C program, the preparation is not counted."""
    engine = fc.Engine(query, store=kind)
    assert engine.compile("5min"), "the generated kernels are not in use"
    start = time.process_time()
    count = len(engine.process(table).to_arrow())
    seconds = time.process_time() - start
    assert count == COUNTS[query.name], f"{query.name}: wrong number of matches"
    return seconds, engine.metrics()["queries"][query.name]["store"]


if __name__ == "__main__":
    main()
