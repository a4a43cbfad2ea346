"""Measure `fastcep.spark.write_matches`: events per second, bytes of state, and the time of a micro-batch.

``python -m bench.spark_streaming [--events N] [--batches N]`` writes ``results/spark_streaming.json`` and the tables in
docs/spark_streaming.md. The stream is in Parquet files, one per micro-batch, and read by a session ``local[*]``. QS
finds three events of one key with the value 10; its window is as long as an average key needs for a match, so the state
grows with the number of keys. The first batches, in which the JVM compiles and workers start, do not count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastcep as fc
from bench.queries import RESULTS, TYPES, environment, store
from bench.section import Section
from bench.spark import NUMBERED, measured, start_session

PAGE = RESULTS.parents[1] / "docs" / "spark_streaming.md"
SECTION = Section(PAGE, "<!-- python -m bench.spark_streaming -->", "<!-- end -->")
KEYS = (1, 100, 10_000, 100_000)
#: Events of a small batch, to measure the time that a batch takes at least.
SMALL = (1, 10_000, 100_000)
WARM = 2  # batches that do not count
#: Events of the stream per event of QS: four types, ten values.
SELECTED = 40


def query_of(keys: int, *, every_value: bool = False) -> fc.Query:
    """Return QS with a window of `SELECTED` events per key; ``every_value``: without the conditions on the value."""
    values = "" if every_value else " AND a.V = 10 AND b.V = 10 AND c.V = 10"
    window = keys * (4 if every_value else SELECTED)
    pattern = f"PATTERN SEQ(A a, B b, C c) WHERE [ID]{values} WITHIN {window}us"
    return fc.parse(pattern, NUMBERED, name="QS")


def write_batch(path: Path, number: int, events: int, keys: int) -> None:
    """Write a micro-batch: an event per microsecond."""
    random = np.random.default_rng(number)
    first = number * events
    kinds = pa.DictionaryArray.from_arrays(random.integers(0, 4, events).astype(np.int8), list(TYPES))
    columns = {
        "type": kinds.cast(pa.string()), "ID": random.integers(0, keys, events), "V": random.integers(1, 11, events),
        "ts": np.arange(first, first + events), "row": np.arange(first, first + events),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path, compression="zstd")
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def measure(session: Any, query: fc.Query, keys: int, events: int, batches: int) -> dict[str, Any]:
    """Run a streaming query over files; return figures of the batches that count."""
    import fastcep.spark

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        times, used = [], dict[str, float]()
        for first, count in ((0, WARM), (WARM, batches)):
            for number in range(first, first + count):
                write_batch(folder / "in" / f"{number:06}.parquet", number, events, keys)
            schema = session.read.parquet(str(folder / "in")).schema
            stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
            with measured(used):
                running = fastcep.spark.write_matches(
                    stream, query, folder / "out", folder / "state", trigger={"availableNow": True}
                )
                running.awaitTermination()
            times = [entry["durationMs"]["triggerExecution"] / 1_000 for entry in running.recentProgress][:count]
        cpu = used["cpu"]
        progress = fastcep.spark.stream_progress(folder / "state")
        assert progress is not None
        matches = sum(pq.ParquetFile(path).metadata.num_rows for path in (folder / "out").glob("*/*.parquet"))
        return {
            "events": events, "seconds": round(statistics.median(times), 3), "slowest": round(max(times), 3),
            "rows_per_second": round(events / statistics.median(times)), "cpu_seconds": round(cpu / batches, 2),
            "rows_per_cpu_second": round(events * batches / cpu), "state_bytes": progress.state_bytes,
            "partial_matches": progress.partial_matches, "matches": matches, "measure_ms": progress.measure_ms,
            "detect_ms": progress.detect_ms,
        }  # fmt: skip


def table(results: dict[str, Any]) -> str:
    """Return the tables of the page."""
    facts, load = results["environment"], ""
    if "load" in results:
        load = "; load average {:.0f} to {:.0f}".format(*results["load"])
    lines = [
        f"Micro-batches of {results['events']:,} events, `local[{results['cores']}]` ({facts['machine']}, "
        f"shared; Spark {results['spark']}, {facts['date']}{load}; "
        "`python -m bench.spark_streaming`):",
        "", "| query | keys | events per second | per second of CPU time | partial matches | bytes of state |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, figures in results["keys"].items():
        query, keys = name.split(":")
        lines.append(
            f"| {query} | {int(keys):,} | {figures['rows_per_second']:,} | "
            f"{figures['rows_per_cpu_second']:,} | {figures['partial_matches']:,} | {figures['state_bytes']:,} |"
        )
    lines += ["", "| events in a micro-batch | median time | longest time | CPU time |", "|---|---|---|---|"]
    for figures in results["small"].values():
        lines.append(
            f"| {figures['events']:,} | {figures['seconds']:.2f} s | {figures['slowest']:.2f} s | "
            f"{figures['cpu_seconds']:.2f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the results and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000, help="events of a micro-batch")
    parser.add_argument("--batches", type=int, default=5, help="micro-batches that count")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    session = start_session()
    results: dict[str, Any] = {"events": options.events, "cores": os.cpu_count(), "spark": version("pyspark")}
    results["keys"], results["small"], loads = {}, {}, [os.getloadavg()[1]]
    started = time.monotonic()
    for keys in KEYS:
        for name, every_value in (("QS", False), ("QS, any value", True)):
            query = query_of(keys, every_value=every_value)
            figures = measure(session, query, keys, options.events, options.batches)
            results["keys"][f"{name}:{keys}"] = figures
            print(f"{name:14} {keys:7,} keys", figures, flush=True)
            loads.append(os.getloadavg()[1])
    for events in SMALL:
        figures = measure(session, query_of(100), 100, events, 3 * options.batches)
        results["small"][str(events)] = figures
        print(f"{events:7,} events", figures, flush=True)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    session.stop()
    results["load"] = [min(loads), max(loads)]
    store("spark_streaming", results)
    SECTION.write(table({**results, "environment": environment()}))


if __name__ == "__main__":
    main()
