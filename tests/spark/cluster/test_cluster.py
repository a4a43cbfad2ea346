"""A standalone cluster with a master and two workers as processes: detect, fit, and killed executors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.detection import one_engine, with_rows
from support.spark_cluster import HERE, cluster, executors, kill
from support.waiting import LIMIT, wait_for

import fastcep as fc
from fastcep import datasets

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.thorough]

ROOT = Path(__file__).parents[3]
V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 1ms"

# Runs in a separate process: the tests already have a session, and a process has only one context.
SCRIPT = """
import json, os, sys, time, warnings
import fastcep as fc, fastcep.spark
from pyspark.sql import SparkSession, functions as F

master, work, action, text = sys.argv[1:]
types = dict.fromkeys("ABCD", {"ID": "int64", "V": "int64"})
schema = fc.Schema(types, time="ts", type="type", time_unit="us", sequence="row" if action == "files" else None)
spark = (
    SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.executor.memory", "600m")
    .config("spark.log.level", "WARN").config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
frame = spark.read.parquet(os.path.join(work, "ds1.parquet"))
if action in ("detect", "killed"):  # tasks cannot read a computed column from files
    frame = frame.selectExpr("type", "ID", "V + 0 AS V", "ts", "row")
query = fc.parse(text, schema, name="q")
if action == "fit":
    fastcep.spark.fit(
        query, frame.filter("row < 50000"), order_by="row", pieces=2, cost_table="paper", index="key", clusters=3
    ).save(os.path.join(work, "model"))
elif action == "detect":
    matches = fastcep.spark.detect(frame, query, order_by="row", slices=4)
else:  # its tasks wait until an executor has been killed
    def wait_for_kill(batches):
        with open(f"/proc/{os.getppid()}/stat") as daemon:  # of Python workers, a child of the executor
            executor = daemon.read().rpartition(")")[2].split()[1]
        for batch in batches:
            open(os.path.join(work, "running." + executor), "w").close()
            while not os.path.exists(os.path.join(work, "killed")):
                time.sleep(0.05)
            yield batch

    matches = fastcep.spark.detect(frame, query, order_by=None if action == "files" else "row", slices=4)
    files = "parquet" not in matches._jdf.queryExecution().toString()  # else the tasks read files
    assert files == (action == "files")
    matches = matches.mapInArrow(wait_for_kill, matches.schema)
if action != "fit":
    import pyarrow.parquet as pq
    matches = matches.persist()  # without it, the sort by ranges would compute them twice
    pq.write_table(fastcep.spark.in_order(matches).toArrow().drop_columns(["match_order"]), os.path.join(work, "out"))
spark.stop()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(work: Path) -> Iterator[str]:
    with cluster(work) as url:
        yield url


@pytest.fixture(scope="module")
def ds1(work: Path) -> pa.Table:
    table = with_rows(datasets.ds1(events=200_000, seed=7))
    pq.write_table(table, work / "ds1.parquet", row_group_size=4_000)
    return table


@contextmanager
def started(master: str, work: Path, action: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job in a process; it is killed at the end of the block."""
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": HERE,
    }  # fmt: skip
    script = work / "job.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), master, str(work), action, TEXT]
    with (work / "job.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log, env=environment) as job:
        try:
            yield job
        finally:
            job.kill()


def assert_success(job: subprocess.Popen[bytes], work: Path) -> None:
    assert job.wait(LIMIT) == 0, (work / "job.log").read_text()[-4_000:]


def assert_same(work: Path, expected: pa.Table) -> None:
    matches = pq.read_table(work / "out")
    assert matches.column_names == expected.column_names
    for name in ("a", "b", "c"):
        assert matches[name].to_pylist() == expected[name].to_pylist()


def test_detect(master: str, work: Path, ds1: pa.Table) -> None:
    with started(master, work, "detect") as job:
        assert_success(job, work)
    assert_same(work, one_engine(fc.parse(TEXT, SCHEMA, name="q"), ds1))


@pytest.mark.parametrize("action", ["killed", "files"])
def test_an_executor_is_killed_in_the_middle(master: str, work: Path, ds1: pa.Table, action: str) -> None:
    """Its tasks have matches and are not finished: other executors run them again, with the same matches in order."""
    for path in (work / "out", work / "killed", *work.glob("running.*")):
        path.unlink(missing_ok=True)
    log = (work / "cluster.log").read_text
    with started(master, work, action) as job:
        try:
            wait_for(lambda: any(work.glob("running.*")) or job.poll() is not None, "running task", log)
            assert job.poll() is None, (work / "job.log").read_text()[-4_000:]
            busy = int(next(work.glob("running.*")).suffix[1:])
            assert busy in executors(work)
            kill(busy)
            wait_for(lambda: busy not in executors(work), "end of the killed executor", log)
        finally:
            (work / "killed").touch()
        assert_success(job, work)
    assert_same(work, one_engine(fc.parse(TEXT, SCHEMA, name="q"), ds1))
    wait_for(lambda: "exited with code 137" in log(), "worker that saw it", log)
    assert re.search(r"Lost task \d+\.0 in stage .* ExecutorLostFailure", (work / "job.log").read_text())


def test_fit(master: str, work: Path, ds1: pa.Table) -> None:
    with started(master, work, "fit") as job:
        assert_success(job, work)
    query = fc.parse(TEXT, SCHEMA, name="q")
    expected = fc.fit(query, ds1.slice(0, 50_000), cost_table="paper", index="key", clusters=3)
    model = fc.load_model(work / "model")
    columns: dict[str, Any] = {name: model.parts["values"][name].to_pylist() for name in ("variable", "of", "members")}
    assert columns == {name: expected.parts["values"][name].to_pylist() for name in columns}
