"""Streams in files, one per micro-batch, and the rows that one engine finds in them."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

import fastcep as fc
import fastcep.spark
from fastcep import datasets

LETTERS = fc.Schema(
    {name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us", sequence="row"
)
QUERIES = {
    "kleene": "PATTERN SEQ(A a, B+ k[], C c) WHERE [ID] AND k[i].V = a.V WITHIN 500us RETURN c.V AS last_v",
    "trailing": "PATTERN SEQ(A a, B b, NEG C c) WHERE [ID] AND a.V = b.V WITHIN 500us",
    "windowed": "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V = b.V WINDOW EVERY 150 EVENTS CLOSE AFTER 1ms "
    "SELECT last",
    "silence": "PATTERN SEQ(A a, B b, NEG C c FOR 300us) WHERE [ID] WITHIN 500us",
    "longest": "PATTERN SEQ(A a, B+ k[]) WITHIN 500us PARTITION BY ID STRATEGY skip_till_next SELECT longest",
}
#: The state store of streaming DataFrames of matches.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: The event after all others, in microseconds: it decides all matches that wait.
END = 10**12


def query(name: str, schema: fc.Schema = LETTERS) -> fc.Query:
    return fc.parse(QUERIES[name], schema, name=name)


def slow_query(name: str) -> fc.Query:
    """Return a query for `in_milliseconds`."""
    return fc.parse(QUERIES[name].replace("ms", "s").replace("us", "ms"), LETTERS, name=name)


def in_milliseconds(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return events a thousand times slower, as Spark's watermark has milliseconds."""
    return [table.set_column(table.column_names.index("ts"), "ts",
                             pa.array(table["ts"].to_numpy() * 1_000)) for table in tables]  # fmt: skip


def pieces(events: int, batches: int, *, disorder: int = 0, seed: int = 7) -> list[pa.Table]:
    """Return DS1 in micro-batches; each time is up to ``disorder`` us after its place. The last one ends the stream."""
    table = datasets.ds1(events=events, seed=seed)
    table = table.append_column("row", pa.array(range(events), pa.int64()))
    random = np.random.default_rng(seed)
    arrival = table["ts"].to_numpy() + random.integers(0, disorder + 1, events)
    table = table.take(pa.array(np.argsort(arrival, kind="stable")))
    edges = [events * number // batches for number in range(batches + 1)]
    parts = [table.slice(start, end - start) for start, end in pairwise(edges)]
    last = {"ID": -1, "V": -1, "ts": END, "type": "D", "row": events}
    parts.append(pa.Table.from_pylist([{name: last[name] for name in table.column_names}], schema=table.schema))
    return parts


def with_one_watermark(checkpoint: Path, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Join micro-batches after which Spark's watermark did not rise with the ones that follow.

    It does not rise after a batch that Spark's file sink has recorded when the driver is killed: Spark skips the batch
    when it starts again, and does not see its times.
    """
    joined: list[pa.Table] = []
    joins = False
    for number, table in enumerate(tables):
        joined.append(pa.concat_tables([joined.pop(), table]) if joins else table)
        before, after = (
            [int(found) for found in re.findall(rf'"{name}":(\d+)', (checkpoint / folder / f"{number}").read_text())]
            for folder, name in (("offsets", "batchWatermarkMs"), ("commits", "nextBatchWatermarkMs"))
        )
        joins = before == after
    return joined


def write(folder: Path, tables: Iterable[pa.Table], first: int = 0) -> None:
    """Write a file per micro-batch; Spark reads them in the order of their times."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        path = folder / f"part-{number:04}.parquet"
        hidden = path.with_name(f"_{path.name}")
        pq.write_table(table, hidden)
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(path)


def stream(spark: Any, folder: Path, files: int = 1) -> Any:
    """Return a streaming DataFrame with this many files per micro-batch."""
    example = spark.read.parquet(str(next(folder.glob("part-*"))))
    return spark.readStream.schema(example.schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def finish(start: Callable[[], Any], running: Any = None) -> None:
    """Run a streaming query to its end, from its start or as it runs.

    Spark waits ten seconds for the process that declares the state of `detect`; on a busy machine, it is started again.
    """
    running = running or start()
    while True:
        try:
            return running.awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
            running = start()


def collected(frame: Any, folder: Path) -> list[Any]:
    """Run a streaming DataFrame until all files are processed; return its rows."""
    found: dict[int, list[Any]] = {}

    def sink(rows: Any, batch: int) -> None:
        found[batch] = rows.toArrow().to_pylist()

    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder))
    finish(writer.trigger(availableNow=True).start)
    return [row for batch in sorted(found) for row in found[batch]]


def run(frame: Any, query: fc.Query, sink: Any, checkpoint: Path, **options: Any) -> None:
    """Run a streaming query until all files are processed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = fastcep.spark.write_matches(frame, query, sink, checkpoint, trigger={"availableNow": True}, **options)
    running.awaitTermination()


def rows_of_one_engine(
    query: fc.Query, tables: Sequence[pa.Table], lateness: str, types: str = "ABCD", **options: Any
) -> list[Any]:
    """Return the rows of one engine that gets each micro-batch in order, sorted; late events only of these types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = fc.Engine(query, allowed_lateness=lateness, **options)
    rows: list[dict[str, Any]] = []
    for table in tables:
        found = engine.process(table.sort_by([("ts", "ascending"), ("row", "ascending")])).to_arrow()
        rows += ({"kind": "match"} | row for row in found.to_pylist())
        rows += ({"kind": "late", "late": row} for row in engine.late().to_pylist() if row["type"] in types)
        if options.get("timed_out"):
            rows += ({"kind": "timed_out"} | row for row in engine.timed_out().to_pylist())
    return canonical(rows)


def batches_of(checkpoint: Path, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the events of each micro-batch of a streaming query, from the logs of Spark's checkpoint.

    If a driver is killed after the source has logged a file, and before Spark has logged the batch, the next batch has
    this file and another one.
    """
    entries: dict[int, list[int]] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files = entries.setdefault(entry["batchId"], [])
            number = int(re.findall(r"part-(\d+)", entry["path"])[0])
            if number not in files:
                files.append(number)
    offsets = {int(path.name): json.loads(path.read_text().splitlines()[-1])["logOffset"]
               for path in (checkpoint / "offsets").glob("[0-9]*")}  # fmt: skip
    batches, before = [], -1
    for batch in range(len(offsets)):
        files = [number for at in range(before + 1, offsets[batch] + 1) for number in sorted(entries[at])]
        if files:  # otherwise the batch only advances the watermark
            batches.append(pa.concat_tables([tables[number] for number in files]))
        before = offsets[batch]
    assert sum(map(len, batches)) == sum(map(len, tables))
    return batches


def rows_in(folder: Path) -> list[Any]:
    """Return the rows that a streaming query has written to a folder, sorted."""
    files = sorted(folder.glob("batch=*/*.parquet"))
    return canonical(row for file in files for row in pq.ParquetFile(file).read().to_pylist())


def rows_in_sink(folder: Path) -> list[Any]:
    """Return the rows in the files that the log of Spark's file sink names, sorted."""
    names = set[str]()
    for log in (folder / "_spark_metadata").glob("[0-9]*"):  # those of ten batches are repeated in a compact one
        entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        assert {entry["action"] for entry in entries} <= {"add"}
        names |= {entry["path"].rsplit("/", 1)[1] for entry in entries}
    return canonical(row for name in sorted(names) for row in pq.ParquetFile(folder / name).read().to_pylist())


def canonical(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """Return the values that are not null, with times in microseconds, sorted."""
    return sorted(repr(sorted(_plain(row).items())) for row in rows)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            value = sorted(_plain(value).items())
        elif hasattr(value, "timestamp"):
            value = round(value.timestamp() * 10**6)
        if value is not None:
            plain[name] = value
    return plain
