"""What the tests run on a cluster, as a program of its own: ``python cluster_job.py MASTER``; prints JSON.

It detects, fits, and detects once more while an executor is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
import fastcep.spark
from fastcep import datasets

V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 2ms"


def executors() -> set[int]:
    """Processes of executors on this machine."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def session_on(master: str) -> Any:
    from pyspark.sql import SparkSession

    root = str(Path(fc.__file__).resolve().parents[1])
    return (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "800m")
        .config("spark.executor.cores", "1")
        .config("spark.executorEnv.PYTHONPATH", root)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def same(found: pa.Table, wanted: pa.Table) -> bool:
    return all(found[name].to_pylist() == wanted[name].to_pylist() for name in ("a", "b", "c"))


def kill_one(session: Any, tasks: int, killed: list[int], done: threading.Event) -> None:
    """Kill an executor as soon as a stage of so many tasks is half way."""
    tracker = session.sparkContext.statusTracker()
    while not done.is_set():
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info and info.numTasks == tasks and info.numActiveTasks and info.numCompletedTasks >= 2:
                one = min(executors())
                os.kill(one, signal.SIGKILL)
                killed.append(one)
                return
        time.sleep(0.02)


def main() -> None:
    session = session_on(sys.argv[1])
    table = datasets.ds1(events=120_000, seed=7)
    table = table.append_column("row", pa.array(range(len(table))))
    frame, query = session.createDataFrame(table), fc.parse(TEXT, SCHEMA, name="q1")
    wanted = fc.Engine(query).process(table).to_arrow()

    def detect(slices: int) -> bool:
        matches = fastcep.spark.detect(frame, query, order_by="row", slices=slices)
        return same(fastcep.spark.in_order(matches).toArrow(), wanted)

    out: dict[str, Any] = {"matches": len(wanted), "executors": len(executors()), "detected": detect(7)}
    model = fastcep.spark.fit(query, frame, order_by="row", pieces=5, cost_table="paper")
    own = fc.fit(query, table, cost_table="paper")
    out["fitted"] = model.parts["children"].equals(own.parts["children"])
    killed: list[int] = []
    done = threading.Event()
    killer = threading.Thread(target=kill_one, args=(session, 40, killed, done))
    killer.start()
    out["detected again"] = detect(40)
    done.set()
    killer.join()
    out["killed"], out["gone"] = len(killed), not executors() & set(killed)
    session.stop()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
