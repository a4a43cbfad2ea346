"""Measure QS from files of each format to Arrow matches, and ``fastcep run``; write ``results/io.json``.

The first part runs in one process, with the engine and its kernels ready: the formats alternate pass by pass, from
opening the file to the last match. The second part runs the command on short and long CSV files. The time that does not
grow with the file is the start (interpreter, imports, query, kernels); the growth gives the speed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastcep as fc
from bench.queries import COUNTS, QUERIES, store
from fastcep.datasets import ds1, write_ds1_csv
from fastcep.io import open_source

EVENTS, LONG = 1_000_000, 5_000_000
FORMATS = ("csv", "csv.gz", "parquet", "arrow", "jsonl")
NUMBERED = (
    "STREAM TIME 3 UNIT us TYPE 0 NO HEADER\n"
    + "".join(f"EVENT {name} (ID int64 FROM 1, V int64 FROM 2)\n" for name in "ABCD")
    + f"QUERY qs {QUERIES['QS']}\n"
)
NAMED = (
    "STREAM TIME 'ts' UNIT us TYPE 'type'\n"
    + "".join(f"EVENT {name} (ID int64, V int64)\n" for name in "ABCD")
    + f"QUERY qs {QUERIES['QS']}\n"
)


def document(form: str) -> fc.Document:
    """Return QS for a file of this format, with generated kernels ready."""
    parsed = fc.parse_document(NUMBERED if "csv" in form else NAMED)
    assert fc.Engine(parsed.queries).compile("5min"), "the generated kernels are not in use"
    return parsed


def match(engine: fc.Engine, schema: fc.Schema, path: Path) -> int:
    """Match a file, from opening it to the last match in Arrow, and return the number of matches."""
    with open_source(path, schema) as source:
        return sum(len(engine.process(batch, origin=source.origin, rows=source.rows).to_arrow()) for batch in source)


def write(folder: Path) -> dict[str, Path]:
    """Write the events in each format."""
    paths = {name: folder / f"ds1.{name}" for name in FORMATS}
    write_ds1_csv(paths["csv"], EVENTS, 7)
    with pa.CompressedOutputStream(str(paths["csv.gz"]), "gzip") as target:
        target.write(paths["csv"].read_bytes())
    table = ds1(events=EVENTS, seed=7)
    pq.write_table(table, paths["parquet"])
    with pa.OSFile(str(paths["arrow"]), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=65_536)
    columns = [column.to_pylist() for column in table.columns]
    with paths["jsonl"].open("w") as lines:
        for type_name, key, value, timestamp in zip(*columns, strict=True):
            lines.write(f'{{"type": "{type_name}", "ID": {key}, "V": {value}, "ts": {timestamp}}}\n')
    return paths


def formats(folder: Path, passes: int) -> dict[str, Any]:
    """Return million events per second of CPU time and of wall time, for each format."""
    paths, documents = write(folder), {name: document(name) for name in FORMATS}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMATS}
    for _ in range(passes):
        for name, path in paths.items():
            engine = fc.Engine(documents[name].queries)
            start = time.process_time(), time.perf_counter()
            matches = match(engine, documents[name].schema, path)
            seconds[name].append((time.process_time() - start[0], time.perf_counter() - start[1]))
            assert matches == COUNTS["QS"], f"{name}: wrong number of matches"
    speeds = {}
    for name, path in paths.items():
        cpu, wall = (EVENTS / statistics.median(column) / 1e6 for column in zip(*seconds[name], strict=True))
        speeds[name] = {
            "million_events_per_cpu_second": round(cpu, 2), "million_events_per_second": round(wall, 2),
            "bytes_per_event": round(path.stat().st_size / EVENTS, 1),
        }  # fmt: skip
        print(f"{name:8} {cpu:6.2f} M events/s of CPU time, {wall:6.2f} of wall time")
    return speeds


def command(folder: Path, passes: int) -> dict[str, Any]:
    """Return the CPU seconds of ``fastcep run`` on CSV files, from process start to exit."""
    query, long = folder / "qs.cep", folder / "long.csv"
    query.write_text(NUMBERED)
    write_ds1_csv(long, LONG, 7)
    empty = folder / "empty.csv"
    empty.write_text("")
    seconds: dict[int, list[float]] = {}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(passes):
        for count, path in ((0, empty), (EVENTS, folder / "ds1.csv"), (LONG, long)):
            run = [sys.executable, "-m", "fastcep", "run", str(query), "--input", str(path), "--json"]
            start = _cpu_seconds_of_children()
            subprocess.run(run, env=environ, capture_output=True, check=True)
            seconds.setdefault(count, []).append(_cpu_seconds_of_children() - start)
    medians = {count: statistics.median(values) for count, values in seconds.items()}
    speed = (LONG - EVENTS) / (medians[LONG] - medians[EVENTS]) / 1e6
    print(f"fastcep run: {medians[0]:.2f} s without an event; {speed:.2f} M events/s of CPU time after the start")
    return {
        "cpu_seconds_by_events": {str(count): round(value, 3) for count, value in medians.items()},
        "million_events_per_cpu_second_beyond_the_start": round(speed, 2),
    }


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=7)
    passes = parser.parse_args().passes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = {"passes": passes, "query": "QS", "formats": formats(folder, passes)}
        store("io", figures | {"fastcep_run": command(folder, passes)})


if __name__ == "__main__":
    main()
