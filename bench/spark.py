"""Measure `fastcep.spark` on twenty million events against a self-join in Spark SQL and against one engine.

``python -m bench.spark [--history] [--events N] [--limit SECONDS]`` writes ``results/spark.json``, or
``spark_history.json`` for the history, and the tables in docs/spark.md. The stream is DS1 in a Parquet file; all runs
share one session, ``local[*]``.

There are two self-joins: a plain one (``join``), and one that also joins on buckets of time (``buckets``). A run that
takes longer than the limit is cancelled. A run of less than half a minute is repeated until it gets no faster, because
the JVM compiles in the first runs; both the fastest and the first run are reported. Memory is the peak of the driver,
the executors and all their Python workers together, minus the memory before the run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastcep as fc
from bench.queries import QUERIES, RESULTS, SCHEMA, TYPES, store
from bench.section import Section
from fastcep.datasets import ds1_batches

NUMBERED = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
SECTION = Section(RESULTS.parents[1] / "docs" / "spark.md", "<!-- python -m bench.spark -->", "<!-- end -->")
WINDOW = 1_000  # us
REPEATED_BELOW = 30  # seconds
#: A run is faster than another if it takes less than this share of its time.
FASTER = 0.97
#: Number of runs in a row without a faster one that ends the repetition.
PATIENCE = 2
SAME = {"QS": "{0}.V = 10 AND {1}.V = 10", "Q1s": "true"}
LAST = {"QS": "c.V = 10", "Q1s": "a.V + b.V = c.V"}


def write(path: Path, events: int) -> None:
    """Write DS1 with row numbers to a Parquet file."""
    row, writer = 0, None
    for batch in ds1_batches(events, 7):
        numbers = pa.array(range(row, row + batch.num_rows), pa.int64())
        table = pa.Table.from_batches([batch]).append_column("row", numbers)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
        row += batch.num_rows
    assert writer is not None
    writer.close()


def later(first: str, second: str) -> str:
    """Return the SQL condition that the second event comes after the first."""
    return f"({second}.ts > {first}.ts OR {second}.ts = {first}.ts AND {second}.row > {first}.row)"


def join(name: str) -> str:
    """Return the query as a self-join."""
    return f"""
        SELECT a.row AS a, b.row AS b, c.row AS c FROM events a
        JOIN events b ON b.ID = a.ID AND {later("a", "b")} AND b.ts <= a.ts + {WINDOW}
        JOIN events c ON c.ID = a.ID AND {later("b", "c")} AND c.ts <= a.ts + {WINDOW}
        WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C' AND {SAME[name].format("a", "b")} AND {LAST[name]}"""


def buckets(name: str) -> str:
    """Return the self-join with buckets of the window's length: an event joins its own bucket and the next one."""
    return f"""
        WITH e AS (SELECT *, floor(ts / {WINDOW}) AS bucket FROM events),
        x AS (SELECT *, explode(array(bucket, bucket + 1)) AS met FROM e WHERE type = 'A')
        SELECT a.row AS a, b.row AS b, c.row AS c FROM x a
        JOIN e b ON b.ID = a.ID AND b.bucket = a.met AND {later("a", "b")} AND b.ts <= a.ts + {WINDOW}
        JOIN (SELECT *, explode(array(bucket - 1, bucket)) AS met FROM e WHERE type = 'C') c
          ON c.ID = a.ID AND c.met = a.bucket AND {later("b", "c")} AND c.ts <= a.ts + {WINDOW}
        WHERE b.type = 'B' AND {SAME[name].format("a", "b")} AND {LAST[name]}"""


def resident() -> int:
    """Return the resident memory of this process and all its descendants in bytes."""
    parents, sizes = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    family, grown = {os.getpid()}, True
    while grown:
        children = {process for process, parent in parents.items() if parent in family} - family
        family, grown = family | children, bool(children)
    return sum(sizes.get(process, 0) for process in family)


@contextmanager
def measured(figures: dict[str, float]) -> Iterator[None]:
    """Add the seconds of a block and its additional peak memory to ``figures``."""
    before, stop, peak = resident(), threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.5):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        figures["seconds"] = round(time.perf_counter() - start, 2)
        stop.set()
        watcher.join()
        figures["more_mib"] = round(max(0, peak[0] - before) / 2**20)


def limited(session: Any, run: Callable[[], int], limit: float) -> dict[str, Any]:
    """Run a query with a limit in seconds; repeat a short run until it gets no faster."""
    fastest = first = once(session, run, limit)
    not_faster = 0
    while fastest["seconds"] < REPEATED_BELOW and not_faster < PATIENCE:
        repeated = once(session, run, limit)
        not_faster = 0 if repeated["seconds"] < FASTER * fastest["seconds"] else not_faster + 1
        fastest = min(fastest, repeated, key=lambda figures: figures["seconds"])
    return fastest if fastest is first else fastest | {"first": first["seconds"]}


def once(session: Any, run: Callable[[], int], limit: float) -> dict[str, Any]:
    """Run a query once, and cancel it after ``limit`` seconds."""
    figures: dict[str, Any] = {}
    timer = threading.Timer(limit, session.sparkContext.cancelAllJobs)
    timer.start()
    try:
        with measured(figures):
            figures["matches"] = run()
    except Exception:
        if figures["seconds"] < limit:
            raise
        figures["broken_off"] = True
    finally:
        timer.cancel()
    return figures


def detect_and_number(frame: Any, query: fc.Query) -> int:
    """Detect matches in events without sequence numbers, and return their number."""
    import fastcep.spark

    return int(fastcep.spark.detect(frame, query, order_by="row").count())


def one_engine(path: Path, name: str) -> int:
    """Run one engine over the sorted file, and return the number of matches."""
    engine = fc.Engine(fc.parse(QUERIES[name], SCHEMA, name=name))
    return sum(len(engine.process(batch).to_arrow()) for batch in pq.ParquetFile(path).iter_batches(65_536))


def start_session() -> Any:
    """Start a Spark session on all cores of this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "8g")
    for option in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(option, "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


def detections(session: Any, path: Path, limit: float) -> dict[str, Any]:
    """Measure both queries with every method."""
    import fastcep.spark

    frame = session.read.parquet(str(path))
    frame.createOrReplaceTempView("events")
    rows: dict[str, Any] = {}

    def note(name: str, run: Callable[[], int]) -> None:
        rows[name] = limited(session, run, limit)
        print(f"{name:24}", rows[name], flush=True)

    session.range(1_000_000).selectExpr("sum(id)").collect()  # initialises Spark
    for name in ("QS", "Q1s"):
        query = fc.parse(QUERIES[name], NUMBERED, name=name)
        plain = fc.parse(QUERIES[name], SCHEMA, name=name)
        fastcep.spark.detect(frame.limit(100_000), query).count()  # starts workers, compiles kernels
        note(f"{name} detect", lambda q=query: fastcep.spark.detect(frame, q).count())
        note(f"{name} detect, numbering", partial(detect_and_number, frame, plain))
        note(f"{name} one engine", lambda n=name: one_engine(path, n))
        note(f"{name} buckets", lambda n=name: session.sql(buckets(n)).count())
        note(f"{name} join", lambda n=name: session.sql(join(n)).count())
    return rows


def histories(session: Any, path: Path) -> dict[str, Any]:
    """Measure the fit of a model and the statistics that other models are fitted from."""
    import fastcep.spark

    frame = session.read.parquet(str(path))
    query = fc.parse(QUERIES["Q1s"], NUMBERED, name="Q1s")
    opened = "WINDOW OPEN EVERY 1000 EVENTS CLOSE AFTER 1000 EVENTS SELECT last"
    windows = fc.parse(f"PATTERN SEQ(A a, B b) WHERE a.ID = b.ID {opened}", NUMBERED, name="windows")
    rows: dict[str, Any] = {}
    for name, run in (
        ("Q1s fit", lambda: fastcep.spark.fit(query, frame)),
        ("Q1s transition counts", lambda: fastcep.spark.transition_counts(frame, query).collect()),
        ("position counts", lambda: fastcep.spark.position_counts(frame, windows, bins=10).collect()),
    ):
        figures: dict[str, Any] = {}
        with measured(figures):
            run()
        rows[name] = figures
        print(f"{name:24}", figures, flush=True)
    return rows


def table(results: dict[str, Any], arguments: str) -> str:
    """Return a table of the page."""
    rows, events = results["rows"], results["events"]
    environment = results["environment"]
    lines = [
        f"DS1, {events:,} events in a Parquet file, `local[{results['cores']}]` ({environment['machine']}, shared; "
        f"Spark {results['spark']}, {environment['date']}; `python -m bench.spark{arguments}`):",
        "", "| run | seconds (first run) | relative to `detect` | additional memory |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, figures in rows.items():
        detect = rows.get(f"{name.split(' ')[0]} detect", {}).get("seconds")
        ratio = f"{figures['seconds'] / detect:.1f}x" if detect and "fit" not in name and "counts" not in name else ""
        seconds = f"{figures['seconds']:.1f}"
        if figures.get("broken_off"):
            seconds, ratio = f"> {figures['seconds']:.0f}", f"> {ratio}"
        if "first" in figures:
            seconds += f" ({figures['first']:.1f})"
        lines.append(f"| {name} | {seconds} | {ratio} | {figures['more_mib']:,} MiB |")
    return "\n".join(lines)


def page() -> None:
    """Write the tables of the stored results into docs/spark.md."""
    files = [(RESULTS / "spark.json", ""), (RESULTS / "spark_history.json", " --history")]
    tables = [table(json.loads(path.read_text()), arguments) for path, arguments in files if path.exists()]
    SECTION.write("\n\n".join(tables))


def main() -> None:
    """Measure, print, and write the results and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, help="number of events; default: 20 million, with --history 100 million")
    parser.add_argument("--history", action="store_true", help="measure only fits, on a longer stream")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a query is cancelled")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    events = options.events or (100_000_000 if options.history else 20_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ds1.parquet"
        write(path, events)
        session = start_session()
        rows = {} if options.history else detections(session, path, options.limit)
        rows |= histories(session, path)
        session.stop()
    facts = {"events": events, "cores": os.cpu_count(), "spark": version("pyspark"), "rows": rows}
    store("spark_history" if options.history else "spark", facts)
    page()


if __name__ == "__main__":
    main()
