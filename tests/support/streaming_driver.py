"""usage: python -m support.streaming_driver FOLDER LATENESS NAME:SLICES... -- run streaming queries for tests.

It reads ``FOLDER/in`` and writes ``FOLDER/NAME/out`` for each query, and ends when all files are processed. With the
name ``detect``, Spark writes the matches of ``kleene``, and events and lateness are a thousand times slower.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import fastcep.spark
from support import micro_batches

#: Files per micro-batch of `detect`, whose micro-batches take longer than those of `write_matches`.
FILES = 2


def session(folder: Path) -> Any:
    """Return a small session of this process."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.minBatchesToRetain", "1000")  # the tests read the logs of all batches
        .config(micro_batches.PROVIDER, micro_batches.ROCKSDB)
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def detect(spark: Any, events: Path, own: Path, lateness: str, slices: int) -> Any:
    """Start a streaming query whose matches Spark's file sink writes: it has `FILES` files per micro-batch."""
    from pyspark.sql import functions as F

    stream = micro_batches.stream(spark, events, FILES).withColumn("ts", F.col("ts") * 1_000)
    query = micro_batches.slow_query("kleene")
    matches = fastcep.spark.detect(stream, query, allowed_lateness=lateness, slices=slices)
    writer = matches.writeStream.format("parquet").option("path", str(own / "out"))
    return writer.option("checkpointLocation", str(own / "state" / "spark")).trigger(availableNow=True).start()


def write_matches(spark: Any, events: Path, own: Path, lateness: str, slices: int) -> Any:
    """Start a streaming query that writes its matches itself."""
    return fastcep.spark.write_matches(
        micro_batches.stream(spark, events), micro_batches.query(own.name), own / "out", own / "state",
        allowed_lateness=lateness, slices=slices, trigger={"availableNow": True},
    )  # fmt: skip


def main(folder: Path, lateness: str, names: list[str]) -> None:
    """Run the queries at the same time."""
    warnings.simplefilter("ignore")
    spark, running = session(folder), list[tuple[Any, Any]]()
    for entry in names:
        name, slices = entry.split(":")
        function, within = (detect, lateness.replace("us", "ms")) if name == "detect" else (write_matches, lateness)
        start = partial(function, spark, folder / "in", folder / name, within, int(slices))
        running.append((start, start()))
    for start, query in running:
        micro_batches.finish(start, query)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
