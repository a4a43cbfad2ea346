"""Measure the limit queries against hand-written C (``limit/limit.c``) in one run and write ``results/limit.json``.

Both sides start with the events in memory (C: rows; fastcep: an Arrow table) and end with all matches in memory
(fastcep: an Arrow table). CPU time, medians of interleaved passes.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, run, store
from fastcep.datasets import write_ds1_csv

HERE = Path(__file__).parent


def main() -> None:
    """Run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=15)
    passes = parser.parse_args().passes
    table = events()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        program, csv = Path(folder, "limit"), Path(folder, "ds1.csv")
        subprocess.run(
            ["cc", "-O3", "-march=native", "-w", "-o", str(program), str(HERE / "limit" / "limit.c")], check=True
        )
        write_ds1_csv(csv, 1_000_000, 7)
        for name, text in QUERIES.items():
            query = fc.parse(text, SCHEMA, name=name.lower())
            assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
            assert run(query, table) == COUNTS[name], f"{name}: wrong number of matches"
            ours, limit = [], []
            for _ in range(passes):  # each side the median of three runs in a row: the first meets an idle processor
                ours.append(len(table) / statistics.median(_seconds(query, table) for _ in range(3)) / 1e6)
                out = subprocess.run([program, csv, name, "3"], capture_output=True, text=True, check=True).stdout
                limit.append(float(re.findall(r"Mev/s_cpu=([\d.]+)", out)[0]))
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
