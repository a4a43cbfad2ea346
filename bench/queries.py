"""The four limit queries on DS1 (see ``limit/limit.c``), and functions to run them and to store results."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.datasets import ds1

RESULTS = Path(__file__).parent / "results"
TYPES = {name: {"ID": "int64", "V": "int64"} for name in "ABCD"}
SCHEMA = fc.Schema(TYPES, time="ts", type="type", time_unit="us")
SAME = "a.ID = b.ID AND a.ID = c.ID"
QUERIES = {
    "Q1": f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN 8ms",
    "Q1s": f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN 1ms",
    "QS": f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V = 10 AND b.V = 10 AND c.V = 10 WITHIN 1ms",
    "QK": "PATTERN SEQ(A a, B+ k[], C c) WHERE a.ID = k[i].ID AND a.ID = c.ID AND k[i].V = a.V WITHIN 1ms",
}
COUNTS = {"Q1": 2_244_896, "Q1s": 34_837, "QS": 751, "QK": 83_737}
#: One query for each operator, all within 1 ms (about a hundred events); NEG is Q4 of the hybrid paper.
OPERATORS = {
    "SEQ": "SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V",
    "AND": f"AND(A a, B b, C c) WHERE {SAME} AND a.V = b.V AND b.V = c.V",
    "OR": "OR(SEQ(A a, B b), SEQ(C c, D d)) WHERE a.ID = b.ID AND c.ID = d.ID AND a.V = b.V AND c.V = d.V",
    "ANY": f"ANY(2, A a, B b, C c) WHERE {SAME} AND b.ID = c.ID AND a.V = b.V AND b.V = c.V AND a.V = c.V",
    "group": "SEQ((SEQ(A a, B b))+ g[], C c) WHERE g[i].a.ID = g[i].b.ID AND g[i].a.V = g[i].b.V "
    "AND g[i+1].a.ID = g[i].a.ID AND g[last].b.ID = c.ID",
    "NEG": "SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID",
    "NEG, residual": "SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND b.V < c.V",
    "NEG, leading": "SEQ(NEG C c, A a, B b) WHERE a.ID = b.ID AND a.ID = c.ID",
    "NEG, trailing": "SEQ(A a, B b, NEG C c) WHERE a.ID = b.ID AND a.ID = c.ID",
    "PERIODIC": "PERIODIC(A a, 250us, C c) WHERE a.ID = c.ID AND a.V = 10",
}


def events(count: int = 1_000_000) -> pa.Table:
    """Generate DS1 with seed 7; the type column is dictionary-encoded, as in most Arrow sources."""
    table = ds1(events=count, seed=7)
    return table.set_column(0, "type", table["type"].dictionary_encode()).combine_chunks()


def run(query: fc.Query, table: pa.Table, batch_rows: int | None = None) -> int:
    """Run a query from Arrow to Arrow and return the number of matches."""
    engine = fc.Engine(query)
    if batch_rows is None:
        return len(engine.process(table).to_arrow())
    return sum(len(engine.process(batch).to_arrow()) for batch in table.to_batches(max_chunksize=batch_rows))


def run_to_end(query: fc.Query, table: pa.Table) -> int:
    """Run a query from Arrow to Arrow, flush at the end of the stream, and return the number of matches."""
    engine = fc.Engine(query)
    return len(engine.process(table).to_arrow()) + len(engine.flush().to_arrow())


def environment() -> dict[str, Any]:
    """Return the machine, versions, date and commit of a measurement."""
    cpu = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit.stdout.strip() or "unknown",
        "machine": cpu,
        "python": platform.python_version(),
        "fastcep": fc.__version__,
        **{name: version(name) for name in ("numpy", "pyarrow")},
    }


def store(name: str, figures: dict[str, Any]) -> None:
    """Write results and their environment to ``results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"environment": environment(), **figures}, indent=2) + "\n")


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
