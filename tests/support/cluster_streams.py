"""usage: python -m support.cluster_streams MASTER FOLDER SCENARIO -- run a stream on a cluster, for tests.

It reads ``FOLDER/in``, and ends when all files are processed. At a *gate*, tasks write ``FOLDER/GATE.<process>``, with
the process of their executor, and wait for ``FOLDER/GATE.open``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import fastcep as fc
import fastcep.spark
from fastcep.spark.streaming import batch as batches_of_streams
from fastcep.spark.streaming.slice_task import SliceTask
from support import micro_batches
from support.spark_cluster import HERE

LATENESS = "500us"
#: For `detect`, whose times are in milliseconds.
DETECT_LATENESS = "500ms"
DETECT_TEXT = "PATTERN SEQ(A a, B+ k[], NEG C c) WHERE [ID] AND k[i].V = a.V WITHIN 200ms"
#: The last batch of `write_matches`, the batch in which an executor is killed, and those in which a task is slow.
LAST, KILLED = 4, 3
SLOW = {"before": 3, "committed": 3, "removed": 1}

FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Batches = Iterator[pa.RecordBatch]
Scenario = Callable[[SparkSession, Path, DataFrame], None]


def detect_query() -> fc.Query:
    return fc.parse(DETECT_TEXT, micro_batches.LETTERS, name="kleene")


def session(master: str, **settings: str) -> SparkSession:
    builder: Any = SparkSession.builder
    builder = (
        builder.master(master).config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", HERE).config("spark.driver.bindAddress", HERE)
        .config("spark.driver.extraJavaOptions", FAST_START).config("spark.executor.extraJavaOptions", FAST_START)
        .config("spark.executor.memory", "600m").config("spark.sql.shuffle.partitions", "2")
    )  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    found: SparkSession = builder.getOrCreate()
    jvm: Any = found.sparkContext._jvm
    log = jvm.org.apache.logging.log4j
    log.core.config.Configurator.setLevel("org.apache.spark.scheduler.TaskSetManager", log.Level.INFO)
    return found


def wait_at_gate(folder: Path, gate: str) -> None:
    with open(f"/proc/{os.getppid()}/stat") as daemon:  # of Python workers, a child of the executor
        executor = daemon.read().rpartition(")")[2].split()[1]
    (folder / f"{gate}.{executor}").touch()
    while not (folder / f"{gate}.open").exists():
        time.sleep(0.02)


def gated(folder: Path, gate: str, first: int) -> Callable[[Batches], Batches]:
    """Return a function for `mapInArrow` that is a gate from a micro-batch on."""

    def pass_gate(batches: Batches) -> Batches:
        for batch in batches:
            context: Any = TaskContext.get()
            if int(context.getLocalProperty("streaming.sql.batchId")) >= first:
                wait_at_gate(folder, gate)
            yield batch

    return pass_gate


def gated_task(folder: Path, gate: str, first: int) -> type[SliceTask]:
    """Return tasks that are at a gate when they have written their files, and have not reported them."""

    class GatedTask(SliceTask):
        def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
            for report in super().__call__(batches):
                if self.batch >= first:
                    wait_at_gate(folder, gate)
                yield report

    return GatedTask


def slow_task(folder: Path, moment: str) -> type[SliceTask]:
    """Return tasks of which the first attempt of slice 0 in batch ``SLOW[moment]`` ends after that batch.

    It writes its files ``before`` another attempt starts to work, when the batch is ``committed``, or when the folder
    of the batch has been ``removed``. Then it writes ``FOLDER/written``, with its stage and number; the last batch
    waits for this.
    """
    batches_folder = folder / "state" / "batches"
    own = batches_folder / str(SLOW[moment])
    written = folder / "written"
    ready = {
        "before": lambda: True,
        "committed": (own / "commit.json").exists,
        "removed": lambda: (batches_folder / str(LAST - 1) / "commit.json").exists() and not own.exists(),
    }[moment]

    class SlowTask(SliceTask):
        def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
            context: Any = TaskContext.get()
            is_slow = self.batch == SLOW[moment] and context.partitionId() == 0
            if is_slow and context.attemptNumber() == 0:
                reports = list(super().__call__(ends_late(list(batches))))
                hidden = folder / "_written"
                hidden.write_text(f"{context.stageId()} {context.taskAttemptId()}")
                hidden.rename(written)
                wait_until(lambda: (own / "commit.json").exists() or moment == "removed")
                yield from reports
                return
            if self.batch == LAST or (is_slow and moment == "before"):
                wait_until(written.exists)
            yield from super().__call__(batches)

    def ends_late(batches: list[pa.RecordBatch]) -> Batches:
        yield from batches
        wait_until(ready)

    def wait_until(done: Callable[[], bool]) -> None:
        while not done():
            time.sleep(0.02)

    return SlowTask


def write_matches(folder: Path, frame: DataFrame) -> None:
    micro_batches.run(
        frame, micro_batches.query("trailing"), folder / "out", folder / "state", allowed_lateness=LATENESS, slices=3
    )


def killed(spark: SparkSession, folder: Path, frame: DataFrame) -> None:
    """`write_matches`, with a gate before it in batch 1, and one in the tasks of the slices in batch `KILLED`."""
    batches_of_streams.SliceTask = gated_task(folder, "files", KILLED)  # type: ignore[attr-defined]
    write_matches(folder, frame.mapInArrow(gated(folder, "events", 1), frame.schema))


def killed_detect(spark: SparkSession, folder: Path, frame: DataFrame) -> None:
    """`detect` into files, with a gate before it in batch 1, and one for its rows from batch 3 on."""
    frame = frame.mapInArrow(gated(folder, "events", 1), frame.schema)
    matches = fastcep.spark.detect(frame, detect_query(), allowed_lateness=DETECT_LATENESS, slices=3)
    matches = matches.mapInArrow(gated(folder, "rows", 3), matches.schema)
    writer = matches.writeStream.format("parquet").option("checkpointLocation", str(folder / "state"))
    writer.option("path", str(folder / "out")).trigger(availableNow=True).start().awaitTermination()
    pq.write_table(spark.read.parquet(str(folder / "out")).toArrow(), folder / "rows")


def slow(spark: SparkSession, folder: Path, frame: DataFrame) -> None:
    """`write_matches` with `slow_task`, in a folder for each moment."""
    for moment in SLOW:
        (folder / moment).mkdir()
        batches_of_streams.SliceTask = slow_task(folder / moment, moment)  # type: ignore[attr-defined]
        write_matches(folder / moment, frame)


SPECULATION = {
    "speculation": "true",
    "speculation.interval": "50ms",
    "speculation.multiplier": "1",
    "speculation.quantile": "0.1",
    "speculation.minTaskRuntime": "50ms",
    "python.task.killTimeout": "1800s",  # Spark does not kill the worker of the slow attempt before it has written
}
ROCKSDB = {
    "sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}  # fmt: skip
SCENARIOS: dict[str, tuple[Scenario, dict[str, str]]] = {
    "killed": (killed, {}),
    "killed_detect": (killed_detect, ROCKSDB),
    "slow": (slow, SPECULATION),
}


def main(master: str, folder: Path, scenario: str) -> None:
    function, settings = SCENARIOS[scenario]
    spark = session(master, **settings)
    function(spark, folder, micro_batches.stream(spark, folder / "in"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
