"""usage: python -m support.streaming_driver FOLDER LATENESS NAME:SLICES... -- run streaming queries for tests.

It reads ``FOLDER/in`` and writes ``FOLDER/NAME/out`` for each query, and ends when all files are processed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import fastcep.spark
from support import micro_batches


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
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def main(folder: Path, lateness: str, names: list[str]) -> None:
    """Run the queries at the same time."""
    warnings.simplefilter("ignore")
    spark, running = session(folder), []
    for entry in names:
        name, slices = entry.split(":")
        own = folder / name
        running.append(
            fastcep.spark.write_matches(
                micro_batches.stream(spark, folder / "in"), micro_batches.query(name), own / "out", own / "state",
                allowed_lateness=lateness, slices=int(slices), trigger={"availableNow": True},
            )
        )  # fmt: skip
    for query in running:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
