"""Measure `fastcep.spark` on twenty million events against a self-join in Spark SQL and against one engine.

``python -m bench.spark [--history] [--events N] [--limit SECONDS]`` writes ``results/spark.json``, or
``spark_history.json`` for the history, and the tables in docs/spark.md. The stream is DS1 in a Parquet file; all runs
share one session, ``local[*]``.

There are two self-joins: a plain one (``join``), and one that also joins on buckets of time (``buckets``). QN, whose
events follow each other directly within a key, is also written with window functions (``lag``). A run that takes longer
than the limit is cancelled. A run of less than half a minute is repeated until it needs no less CPU time, because the
JVM compiles in the first runs; both the cheapest and the first run are reported. CPU time and memory are those of the
driver, the executors and all their Python workers together; memory is the peak minus the memory before the run.
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
from collections.abc import Callable, Iterator, Sequence
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
INTRODUCTION = """\
The tables below compare `detect` with other ways to find the matches of three queries:

* *files in order*: `detect` on Parquet files in the order of time;
* *filtered files*: `detect` on these files behind a filter that all rows pass;
* *any DataFrame*: `detect` on the same file with a computed column, so it is surveyed, sent and sorted;
* *with a survey*: the same with `survey=`, without the time of the survey;
* *to Python*: Spark reads the columns and passes the relevant events to tasks that only count them. Nothing that gets
  its events from Spark can be faster;
* *numbering*: as *any DataFrame*, on events without sequence numbers;
* *one engine*: a single engine over the sorted file;
* *join*: a self-join in Spark SQL;
* *buckets*: a self-join over time buckets of the window's length;
* *window functions*: `lag` over the events of each key; only for QN, whose events follow each other directly.

The session has `spark.sql.execution.arrow.maxBytesPerBatch=2147483647b` (see above).

The speed is the CPU time of one engine divided by that of the run, so 1 is as fast as one engine on the same cores.
Runs of less than half a minute are repeated until they need no less CPU time. The tables show the cheapest run and, in
brackets, the first one. Memory is the peak during the run minus the memory before it."""
WINDOW = 1_000  # us
REPEATED_BELOW = 30  # seconds
#: A run is cheaper than another if it takes less than this share of its CPU time.
CHEAPER = 0.97
#: A query that window functions can answer as well.
NEXT = "PATTERN SEQ(A a, NEXT B b, NEXT C c) WITHIN 1ms PARTITION BY ID"
#: Number of runs in a row without a cheaper one that ends the repetition.
PATIENCE = 2
TEXTS = QUERIES | {"QN": NEXT}
SAME = {"QS": "{0}.V = 10 AND {1}.V = 10", "Q1s": "true"}
#: The columns that a query reads, and the condition of its relevant events.
COLUMNS = dict.fromkeys(("QS", "Q1s"), ("ts", "row", "type", "ID", "V")) | {"QN": ("ts", "row", "type", "ID")}
RELEVANT = {"QS": "type IN ('A', 'B', 'C') AND V = 10", "Q1s": "type IN ('A', 'B', 'C')", "QN": "true"}
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


def lags() -> str:
    """Return QN with window functions."""
    return f"""
        SELECT first, second, row FROM (
          SELECT row, ts, type, lag(row, 2) OVER w AS first, lag(row) OVER w AS second, lag(type, 2) OVER w AS type_a,
                 lag(type) OVER w AS type_b, lag(ts, 2) OVER w AS begin
          FROM events WINDOW w AS (PARTITION BY ID ORDER BY ts, row))
        WHERE type_a = 'A' AND type_b = 'B' AND type = 'C' AND ts <= begin + {WINDOW}"""


def usage() -> tuple[int, dict[int, float]]:
    """Return the resident memory of this process and its descendants in bytes, and the CPU time of each in seconds."""
    parents, sizes, ticks = {}, {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                ticks[int(folder.name)] = int(fields[11]) + int(fields[12])
                sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    family, grown = {os.getpid()}, True
    while grown:
        children = {process for process, parent in parents.items() if parent in family} - family
        family, grown = family | children, bool(children)
    seconds = {process: ticks.get(process, 0) / os.sysconf("SC_CLK_TCK") for process in family}
    return sum(sizes.get(process, 0) for process in family), seconds


@contextmanager
def measured(figures: dict[str, float]) -> Iterator[None]:
    """Add the seconds of a block, its CPU time and its additional peak memory to ``figures``.

    A process that ends during the block counts up to when it was last seen; Spark ends idle workers.
    """
    (before, cpu), stop, peak = usage(), threading.Event(), [0]
    last = dict(cpu)

    def note() -> None:
        memory, seconds = usage()
        peak[0] = max(peak[0], memory)
        last.update(seconds)

    def watch() -> None:
        while not stop.wait(0.2):
            note()

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        figures["seconds"] = round(time.perf_counter() - start, 2)
        stop.set()
        watcher.join()
        note()
        figures["cpu"] = round(sum(seconds - cpu.get(process, 0.0) for process, seconds in last.items()), 2)
        figures["more_mib"] = round(max(0, peak[0] - before) / 2**20)


def limited(session: Any, run: Callable[[], int], limit: float) -> dict[str, Any]:
    """Run a query with a limit in seconds; repeat a short run until it needs no less CPU time."""
    cheapest = first = once(session, run, limit)
    not_cheaper = 0
    while cheapest["seconds"] < REPEATED_BELOW and not_cheaper < PATIENCE:
        repeated = once(session, run, limit)
        not_cheaper = 0 if repeated["cpu"] < CHEAPER * cheapest["cpu"] else not_cheaper + 1
        cheapest = min(cheapest, repeated, key=lambda figures: figures["cpu"])
    return cheapest if cheapest is first else cheapest | {"first": first["cpu"]}


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


def pass_to_python(frame: Any, columns: Sequence[str], where: str) -> int:
    """Pass the relevant events to Python, and count them there."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"events": [sum(batch.num_rows for batch in batches)]})

    counts = frame.where(where).select(*columns).mapInArrow(count, "events bigint")
    return int(sum(row[0] for row in counts.collect()))


def detect_and_number(frame: Any, query: fc.Query) -> int:
    """Detect matches in events without sequence numbers, and return their number."""
    import fastcep.spark

    return int(fastcep.spark.detect(frame, query, order_by="row").count())


def one_engine(path: Path, name: str) -> int:
    """Run one engine over the sorted file, and return the number of matches."""
    engine = fc.Engine(fc.parse(TEXTS[name], SCHEMA, name=name))
    return sum(len(engine.process(batch).to_arrow()) for batch in pq.ParquetFile(path).iter_batches(65_536))


def start_session() -> Any:
    """Start a Spark session on all cores of this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from fastcep.spark.session import UNCHECKED_BATCHES

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "8g")
    builder = builder.config(*UNCHECKED_BATCHES)
    for option in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(option, "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


def detections(session: Any, path: Path, limit: float) -> dict[str, Any]:
    """Measure both queries with every method."""
    import fastcep.spark

    frame = session.read.parquet(str(path))
    frame.createOrReplaceTempView("events")
    rows: dict[str, Any] = {}
    differences: list[str] = []

    def note(name: str, run: Callable[[], int]) -> None:
        rows[name] = limited(session, run, limit)
        print(f"{name:24}", rows[name], flush=True)
        query, _, method = name.partition(" ")
        expected = rows.get(f"{query} files in order", {}).get("matches")
        if method != "to Python" and expected is not None and rows[name].get("matches", expected) != expected:
            differences.append(f"{name} found {rows[name]['matches']} matches, files in order {expected}")

    session.range(1_000_000).selectExpr("sum(id)").collect()  # initialises Spark
    filtered = frame.where("V >= 0")  # all rows
    anywhere = frame.selectExpr("type", "ID", "V + 0 AS V", "ts", "row")  # tasks cannot read a computed column
    for name in ("QS", "Q1s", "QN"):
        query = fc.parse(TEXTS[name], NUMBERED, name=name)
        plain = fc.parse(TEXTS[name], SCHEMA, name=name)
        fastcep.spark.detect(anywhere.limit(100_000), query).count()  # starts workers, compiles kernels
        survey = fastcep.spark.survey(anywhere, query)
        note(f"{name} files in order", lambda q=query: fastcep.spark.detect(frame, q).count())
        note(f"{name} filtered files", lambda q=query: fastcep.spark.detect(filtered, q).count())
        note(f"{name} any DataFrame", lambda q=query: fastcep.spark.detect(anywhere, q).count())
        note(f"{name} with a survey", lambda q=query, s=survey: fastcep.spark.detect(anywhere, q, survey=s).count())
        note(f"{name} to Python", partial(pass_to_python, anywhere, COLUMNS[name], RELEVANT[name]))
        note(f"{name} numbering", partial(detect_and_number, anywhere, plain))
        note(f"{name} one engine", lambda n=name: one_engine(path, n))
        if name == "QN":
            note(f"{name} window functions", lambda: session.sql(lags()).count())
        else:
            note(f"{name} buckets", lambda n=name: session.sql(buckets(n)).count())
            note(f"{name} join", lambda n=name: session.sql(join(n)).count())
    both = [fc.parse(TEXTS[name], NUMBERED, name=name) for name in ("QS", "Q1s")]
    note("QS+Q1s in one pass", lambda: fastcep.spark.detect(anywhere, both).count())
    if differences:
        raise AssertionError("; ".join(differences))
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
        "", "| run | CPU seconds (first run) | seconds | speed of one engine | additional memory |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, figures in rows.items():
        engine = rows.get(f"{name.split(' ')[0]} one engine", {}).get("cpu")
        is_detection = engine and "fit" not in name and "counts" not in name
        ratio = f"{engine / figures['cpu']:.2f}" if is_detection else ""
        cpu, seconds = (f"{figures[unit]:.1f}" if unit in figures else "" for unit in ("cpu", "seconds"))
        if figures.get("broken_off"):
            cpu, seconds, ratio = f"> {cpu}", f"> {seconds}", f"< {ratio}"
        if name.endswith("to Python"):
            ratio = f"< {ratio}"
        if "first" in figures:
            cpu += f" ({figures['first']:.1f})"
        lines.append(f"| {name} | {cpu} | {seconds} | {ratio} | {figures['more_mib']:,} MiB |")
    return "\n".join(lines)


def page() -> None:
    """Write the tables of the stored results into docs/spark.md."""
    files = [(RESULTS / "spark.json", ""), (RESULTS / "spark_history.json", " --history")]
    tables = [table(json.loads(path.read_text()), arguments) for path, arguments in files if path.exists()]
    SECTION.write("\n\n".join([INTRODUCTION, *tables]))


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
