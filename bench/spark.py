"""Spark: what `fastcep.spark` takes for twenty million events, beside Spark SQL's self-join and one engine.

``python -m bench.spark [--history] [--events N] [--limit SECONDS]`` writes ``results/spark.json``, or, for the
history, ``spark_history.json``, and the tables in docs/spark.md. The stream is DS1 in a Parquet file; all runs are in
one session, ``local[*]``. A self-join is written as somebody would who knows SQL (``join``), and once more with the
time cut into buckets that are joined, too (``buckets``). A run that takes longer than the limit is broken off; what
takes less than half a minute is run until it gets no faster, as the JVM compiles in the first runs, and the fastest
is told, beside the first. Memory is the peak of what the driver, the executors and all their Python workers hold
together, beside that before the run.
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
from fastcep.datasets import ds1_batches

NUMBERED = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
PAGE = RESULTS.parents[1] / "docs" / "spark.md"
BEGIN, END = "<!-- python -m bench.spark -->", "<!-- end -->"
WINDOW = 1_000  # us
AGAIN = 30  # seconds
#: A run is faster than another if it takes so much of its time; what is not so often is as fast as it gets.
FASTER, SLOWER = 0.97, 2
SAME = {"QS": "{0}.V = 10 AND {1}.V = 10", "Q1s": "true"}
LAST = {"QS": "c.V = 10", "Q1s": "a.V + b.V = c.V"}


def write(path: Path, events: int) -> None:
    """DS1 with the numbers of its rows."""
    row, writer = 0, None
    for batch in ds1_batches(events, 7):
        numbers = pa.array(range(row, row + batch.num_rows), pa.int64())
        table = pa.Table.from_batches([batch]).append_column("row", numbers)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
        row += batch.num_rows
    assert writer is not None
    writer.close()


def later(one: str, other: str) -> str:
    """SQL: the other event comes after the one."""
    return f"({other}.ts > {one}.ts OR {other}.ts = {one}.ts AND {other}.row > {one}.row)"


def join(name: str) -> str:
    """The query as a self-join."""
    return f"""
        SELECT a.row AS a, b.row AS b, c.row AS c FROM events a
        JOIN events b ON b.ID = a.ID AND {later("a", "b")} AND b.ts <= a.ts + {WINDOW}
        JOIN events c ON c.ID = a.ID AND {later("b", "c")} AND c.ts <= a.ts + {WINDOW}
        WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C' AND {SAME[name].format("a", "b")} AND {LAST[name]}"""


def buckets(name: str) -> str:
    """The same with buckets of the window's length: an event meets those of its own bucket and of the next one."""
    return f"""
        WITH e AS (SELECT *, floor(ts / {WINDOW}) AS bucket FROM events),
        x AS (SELECT *, explode(array(bucket, bucket + 1)) AS met FROM e WHERE type = 'A')
        SELECT a.row AS a, b.row AS b, c.row AS c FROM x a
        JOIN e b ON b.ID = a.ID AND b.bucket = a.met AND {later("a", "b")} AND b.ts <= a.ts + {WINDOW}
        JOIN (SELECT *, explode(array(bucket - 1, bucket)) AS met FROM e WHERE type = 'C') c
          ON c.ID = a.ID AND c.met = a.bucket AND {later("b", "c")} AND c.ts <= a.ts + {WINDOW}
        WHERE b.type = 'B' AND {SAME[name].format("a", "b")} AND {LAST[name]}"""


def resident() -> int:
    """Bytes that this process and all processes below it hold."""
    parents, sizes = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    mine, grown = {os.getpid()}, True
    while grown:
        more = {one for one, parent in parents.items() if parent in mine} - mine
        mine, grown = mine | more, bool(more)
    return sum(sizes.get(one, 0) for one in mine)


@contextmanager
def peak(found: dict[str, float]) -> Iterator[None]:
    """Note seconds and the peak of memory."""
    before, stop, most = resident(), threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.5):
            most[0] = max(most[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        found["seconds"] = round(time.perf_counter() - start, 2)
        stop.set()
        watcher.join()
        found["more_mib"] = round(max(0, most[0] - before) / 2**20)


def limited(session: Any, run: Callable[[], int], limit: float) -> dict[str, Any]:
    """Run a query, more often if it is short, until it gets no faster, and break it off after so many seconds."""
    found = first = once(session, run, limit)
    slower = 0
    while found["seconds"] < AGAIN and slower < SLOWER:
        again = once(session, run, limit)
        slower = 0 if again["seconds"] < FASTER * found["seconds"] else slower + 1
        found = min(found, again, key=lambda one: one["seconds"])
    return found if found is first else found | {"first": first["seconds"]}


def once(session: Any, run: Callable[[], int], limit: float) -> dict[str, Any]:
    """Run a query, and break it off after so many seconds."""
    found: dict[str, Any] = {}
    timer = threading.Timer(limit, session.sparkContext.cancelAllJobs)
    timer.start()
    try:
        with peak(found):
            found["matches"] = run()
    except Exception:
        if found["seconds"] < limit:
            raise
        found["broken_off"] = True
    finally:
        timer.cancel()
    return found


def numbering(frame: Any, query: fc.Query) -> int:
    """Detect in events without numbers."""
    import fastcep.spark

    return int(fastcep.spark.detect(frame, query, order_by="row").count())


def one_engine(path: Path, name: str) -> int:
    """One engine, from the file that is sorted already to its matches."""
    engine = fc.Engine(fc.parse(QUERIES[name], SCHEMA, name=name))
    return sum(len(engine.process(batch).to_arrow()) for batch in pq.ParquetFile(path).iter_batches(65_536))


def session_of() -> Any:
    """A session of this machine's cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "8g")
    for option in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(option, "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


def detections(session: Any, path: Path, limit: float) -> dict[str, Any]:
    """Both queries in all ways."""
    import fastcep.spark

    frame = session.read.parquet(str(path))
    frame.createOrReplaceTempView("events")
    rows: dict[str, Any] = {}

    def note(name: str, run: Callable[[], int]) -> None:
        rows[name] = limited(session, run, limit)
        print(f"{name:24}", rows[name], flush=True)

    session.range(1_000_000).selectExpr("sum(id)").collect()  # what Spark does once
    for name in ("QS", "Q1s"):
        query = fc.parse(QUERIES[name], NUMBERED, name=name)
        plain = fc.parse(QUERIES[name], SCHEMA, name=name)
        fastcep.spark.detect(frame.limit(100_000), query).count()  # workers that have begun, kernels that are compiled
        note(f"{name} detect", lambda q=query: fastcep.spark.detect(frame, q).count())
        note(f"{name} detect, numbering", partial(numbering, frame, plain))
        note(f"{name} one engine", lambda n=name: one_engine(path, n))
        note(f"{name} buckets", lambda n=name: session.sql(buckets(n)).count())
        note(f"{name} join", lambda n=name: session.sql(join(n)).count())
    return rows


def histories(session: Any, path: Path) -> dict[str, Any]:
    """What models are fitted from, and a model."""
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
        found: dict[str, Any] = {}
        with peak(found):
            run()
        rows[name] = found
        print(f"{name:24}", found, flush=True)
    return rows


def table(results: dict[str, Any], arguments: str) -> str:
    """A table of the page."""
    rows, events = results["rows"], results["events"]
    environment = results["environment"]
    lines = [
        f"DS1, {events:,} events in a Parquet file, `local[{results['cores']}]` ({environment['machine']}, shared; "
        f"Spark {results['spark']}, commit {environment['commit']}, {environment['date']}; "
        f"`python -m bench.spark{arguments}`):",
        "", "| | seconds (the first time) | beside `detect` | memory, more |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, found in rows.items():
        own = rows.get(f"{name.split(' ')[0]} detect", {}).get("seconds")
        ratio = f"{found['seconds'] / own:.1f}x" if own and "fit" not in name and "counts" not in name else ""
        broken = found.get("broken_off")
        seconds, ratio = (f"> {found['seconds']:.0f}", f"> {ratio}") if broken else (f"{found['seconds']:.1f}", ratio)
        if "first" in found:
            seconds += f" ({found['first']:.1f})"
        lines.append(f"| {name} | {seconds} | {ratio} | {found['more_mib']:,} MiB |")
    return "\n".join(lines)


def page() -> None:
    """Write the tables of what is stored."""
    stored = [(RESULTS / "spark.json", ""), (RESULTS / "spark_history.json", " --history")]
    tables = [table(json.loads(path.read_text()), arguments) for path, arguments in stored if path.exists()]
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    text = "\n\n".join(tables)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, help="of the stream; default: 20 million, of a history 100 million")
    parser.add_argument("--history", action="store_true", help="only what learns, from a longer stream")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a query is broken off")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    events = options.events or (100_000_000 if options.history else 20_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ds1.parquet"
        write(path, events)
        session = session_of()
        rows = {} if options.history else detections(session, path, options.limit)
        rows |= histories(session, path)
        session.stop()
    facts = {"events": events, "cores": os.cpu_count(), "spark": version("pyspark"), "rows": rows}
    store("spark_history" if options.history else "spark", facts)
    page()


if __name__ == "__main__":
    main()
