"""Measure `fastcep.spark.write_matches`: events per second, bytes of state, and the time of a micro-batch.

Some of it is also measured with the streaming `fastcep.spark.detect` and Spark's file sink.

``python -m bench.spark_streaming [--events N] [--batches N]`` writes ``results/spark_streaming.json`` and the tables in
docs/spark_streaming.md. The stream is in Parquet files, one per micro-batch, and read by a session ``local[*]``. QS
finds three events of one key with the value 10; its window is as long as an average key needs for a match, so the state
grows with the number of keys. The start of a query and its first batches, in which the JVM compiles and workers start,
do not count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
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
#: Keys of `detect`, and events of its small batch.
DETECT_KEYS = (100, 100_000)
DETECT_SMALL = 1
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


def write(stream: Any, query: fc.Query, folder: Path) -> Any:
    """Start `write_matches` on all files that there are."""
    import fastcep.spark

    return fastcep.spark.write_matches(stream, query, folder / "out", folder / "state", trigger={"availableNow": True})


def detect(stream: Any, query: fc.Query, folder: Path) -> Any:
    """Start `detect` with a file sink on all files that there are."""
    import fastcep.spark

    session = stream.sparkSession
    session.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count()))
    writer = fastcep.spark.detect(stream, query).writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True).start()


def times_of(running: Any) -> list[float]:
    """Return the seconds of the micro-batches with events."""
    entries = [entry for entry in running.recentProgress if entry["numInputRows"]]
    return [entry["durationMs"]["triggerExecution"] / 1_000 for entry in entries]


def measure(
    session: Any, query: fc.Query, keys: int, events: int, batches: int, start: Callable[[Any, fc.Query, Path], Any]
) -> dict[str, Any]:
    """Run a streaming query over files; return figures of the batches that count."""
    import fastcep.spark

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        used = dict[str, float]()
        for number in range(WARM + batches):
            write_batch(folder / "in" / f"{number:06}.parquet", number, events, keys)
        schema = session.read.parquet(str(folder / "in")).schema
        stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        running = start(stream, query, folder)
        while len(times_of(running)) < WARM and running.isActive:
            time.sleep(0.01)
        with measured(used):
            running.awaitTermination()
        times = times_of(running)[WARM:]
        assert len(times) == batches
        cpu = used["cpu"]
        matches = sum(pq.ParquetFile(path).metadata.num_rows for path in (folder / "out").rglob("*.parquet"))
        figures: dict[str, Any] = {
            "events": events, "keys": keys, "seconds": round(statistics.median(times), 3),
            "slowest": round(max(times), 3), "rows_per_second": round(events / statistics.median(times)),
            "cpu_seconds": round(cpu / batches, 2), "rows_per_cpu_second": round(events * batches / cpu),
            "matches": matches,
        }  # fmt: skip
        progress = fastcep.spark.stream_progress(folder / "state")
        if progress is not None:  # fastcep stores the state, not Spark
            names = ("state_bytes", "partial_matches", "measure_ms", "detect_ms")
            figures |= {name: getattr(progress, name) for name in names}
        return figures


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
    lines += [
        "", "`detect` with QS and Spark's file sink, in the same session:", "",
        "| keys | events in a micro-batch | events per second | per second of CPU time | median time | longest time | "
        "CPU time |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for figures in results["detect"]:
        speeds = [figures["rows_per_second"], figures["rows_per_cpu_second"]]
        texts = [f"{speed:,}" if figures["events"] > DETECT_SMALL else "" for speed in speeds]
        lines.append(
            f"| {figures['keys']:,} | {figures['events']:,} | {' | '.join(texts)} | {figures['seconds']:.2f} s | "
            f"{figures['slowest']:.2f} s | {figures['cpu_seconds']:.2f} s |"
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
    results["keys"], results["small"], results["detect"], loads = {}, {}, [], [os.getloadavg()[1]]
    started = time.monotonic()
    for keys in KEYS:
        for name, every_value in (("QS", False), ("QS, any value", True)):
            query = query_of(keys, every_value=every_value)
            figures = measure(session, query, keys, options.events, options.batches, write)
            results["keys"][f"{name}:{keys}"] = figures
            print(f"{name:14} {keys:7,} keys", figures, flush=True)
            loads.append(os.getloadavg()[1])
    for events in SMALL:
        figures = measure(session, query_of(100), 100, events, 3 * options.batches, write)
        results["small"][str(events)] = figures
        print(f"{events:7,} events", figures, flush=True)
    for keys, events, batches in (
        *((keys, options.events, options.batches) for keys in DETECT_KEYS),
        (DETECT_KEYS[0], DETECT_SMALL, 3 * options.batches),
    ):
        figures = measure(session, query_of(keys), keys, events, batches, detect)
        results["detect"].append(figures)
        print(f"detect, {keys:,} keys, {events:,} events", figures, flush=True)
        loads.append(os.getloadavg()[1])
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    session.stop()
    results["load"] = [min(loads), max(loads)]
    store("spark_streaming", results)
    SECTION.write(table({**results, "environment": environment()}))


if __name__ == "__main__":
    main()
