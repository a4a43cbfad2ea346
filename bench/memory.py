"""Measure the resident memory of the engine on a long generated stream and write ``results/memory.json``.

From event 5 M to 20 M it must grow by less than 2 %.
"""

from __future__ import annotations

import os
from pathlib import Path

import fastcep as fc
from bench.queries import QUERIES, SCHEMA, store
from fastcep.datasets import ds1_batches

FROM, TO, CHUNK = 5_000_000, 20_000_000, 100_000


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run every limit query over the stream, print and write the growth."""
    rows = {}
    for name, text in QUERIES.items():
        engine = fc.Engine(fc.parse(text, SCHEMA))
        seen, sizes = 0, {}
        for batch in ds1_batches(TO, 7, CHUNK):
            engine.process(batch)
            seen += batch.num_rows
            if seen in (FROM, TO):
                sizes[seen] = resident()
        growth = sizes[TO] / sizes[FROM] - 1
        state = engine.metrics()["memory_bytes"]
        rows[name] = {"resident_5M": sizes[FROM], "resident_20M": sizes[TO], "growth": round(growth, 4), "state": state}
        print(f"{name:4} {sizes[FROM] / 2**20:7.1f} MiB at 5 M, {sizes[TO] / 2**20:7.1f} MiB at 20 M: {growth:+.2%}")
    store("memory", {"chunk": CHUNK, "queries": rows})


if __name__ == "__main__":
    main()
