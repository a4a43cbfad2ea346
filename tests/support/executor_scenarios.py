"""Jobs on a standalone cluster with two workers, while an ``ExecutorPool`` changes the number of executors.

``python -m support.executor_scenarios MASTER FOLDER SCENARIO`` in a separate process: a process has only one context.
``FOLDER`` is that of the cluster.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Thread

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import fastcep as fc
from fastcep.engine.instance_pool import InstanceCounts
from fastcep.parallel import Adaptation, AdaptationLoop, Profile
from fastcep.spark import ExecutorPool
from support.spark_cluster import HERE, executors, kill
from support.waiting import LIMIT, wait_for

ROWS = 6_000


class Job:
    """A job of six tasks after a shuffle; they wait until the gate is opened."""

    def __init__(self, session: SparkSession) -> None:
        folder = self._folder = Path(mkdtemp(prefix="fastcep-job-"))

        def gate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            (folder / f"running.{context.partitionId()}").touch()
            while not (folder / "open").exists():
                time.sleep(0.02)
            yield from batches

        self._result: list[int] = []
        self._thread = Thread(target=self._run, args=(session, gate), daemon=True)
        self._thread.start()

    def _run(self, session: SparkSession, gate: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> None:
        shuffled = session.range(0, ROWS, 1, 4).repartition(6, "id")
        self._result += shuffled.mapInArrow(gate, shuffled.schema).toArrow()["id"].to_pylist()

    def wait_for_tasks(self, number: int) -> None:
        """Wait until tasks wait at the gate; an executor runs one at a time."""
        wait_for(lambda: len(list(self._folder.glob("running.*"))) == number, f"{number} running tasks")

    def open(self) -> None:
        (self._folder / "open").touch()

    def assert_result(self) -> None:
        self._thread.join(LIMIT)
        assert sorted(self._result) == list(range(ROWS))
        rmtree(self._folder)


def grow_and_shrink(session: SparkSession, folder: Path) -> None:
    """1 → 2 → 1 during a job; both executors have a task when one has to leave."""
    pool = ExecutorPool(session, most=2, grace=0)
    pool.resize(2)  # the session has started both; they are connected when they are counted
    assert pool.wait(LIMIT)
    pool.resize(1)
    assert pool.wait(LIMIT)
    first = processes(folder, 1)
    job = Job(session)
    job.wait_for_tasks(1)
    assert pool.counts() == InstanceCounts(ready=1)
    pool.resize(2)
    assert pool.wait(LIMIT)
    assert first < processes(folder, 2)
    job.wait_for_tasks(2)
    pool.resize(1)
    for _ in range(3):
        assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    assert not pool.wait(0)
    processes(folder, 2)
    job.open()
    assert pool.wait(LIMIT)
    assert processes(folder, 1) == first
    job.assert_result()


def reuse(session: SparkSession, folder: Path) -> None:
    """2 → 1 → 2 → 1 during a job: the executor that was to leave is used again, and leaves without a task."""
    pool = ExecutorPool(session, grace=float("inf"))
    pool.resize(2)
    assert pool.wait(LIMIT)
    both = processes(folder, 2)
    job = Job(session)
    job.wait_for_tasks(2)
    pool.resize(1)
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    pool.resize(2)
    assert pool.counts() == InstanceCounts(ready=2)
    pool.resize(1)
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    assert processes(folder, 2) == both
    job.open()
    job.assert_result()
    assert pool.wait(LIMIT)
    assert processes(folder, 1) < both


def killed(session: SparkSession, folder: Path) -> None:
    """SIGKILL an executor of a job: it is missing until its worker, which is stopped for a while, starts another."""
    pool = ExecutorPool(session)
    pool.resize(2)
    assert pool.wait(LIMIT)
    before = processes(folder, 2)
    job = Job(session)
    job.wait_for_tasks(2)
    victim = min(before)
    with stopped(parent(victim)):
        kill(victim)
        wait_for(lambda: pool.counts() == InstanceCounts(ready=1, starting=1), "lost executor")
    assert pool.wait(LIMIT)
    assert victim not in processes(folder, 2)
    job.open()
    job.assert_result()


def adapted(session: SparkSession, folder: Path) -> None:
    """The adaptation loop: the rate doubles and halves again during a job, and executors follow: 1 → 2 → 1."""
    pool = ExecutorPool(session, most=2, grace=0)
    options = Adaptation(15, most=2, samples=100, interval="100s", horizon="100s", forecast="naive", margin=0)
    loop = AdaptationLoop(pool, Profile.of({1.0: 0.8e9}).service, options, 0)
    pool.resize(loop.instances)
    assert pool.wait(LIMIT)
    job = Job(session)
    random, now = np.random.default_rng(1), 0
    for rate, wanted in ((1.0, 1), (2.0, 2), (1.0, 2), (1.0, 1)):  # fewer only after the horizon
        now += 100 * 10**9
        loop.arrived(random.exponential(1e9 / rate, int(100 * rate)))
        decision = loop.step(now)
        assert decision is not None and decision.instances == wanted, decision
        if wanted == 2:
            assert pool.wait(LIMIT)
            job.wait_for_tasks(2)
    job.open()
    assert pool.wait(LIMIT)
    processes(folder, 1)
    job.assert_result()


def too_small(session: SparkSession, folder: Path) -> None:
    """The cluster has two cores; more executors are starting until fewer are asked for. Then the session is stopped."""
    pool = ExecutorPool(session)
    pool.resize(3)
    wait_for(lambda: pool.counts() == InstanceCounts(ready=2, starting=1), "second executor")
    assert not pool.wait(0.2)
    pool.resize(2)
    assert pool.wait(LIMIT)
    session.stop()
    for call in (pool.counts, lambda: pool.resize(1), lambda: pool.wait(0), lambda: ExecutorPool(session)):
        try:
            call()
        except fc.ValidationError as error:
            assert "stopped" in str(error)
        else:
            raise AssertionError("no error after the end of the session")


def processes(folder: Path, number: int) -> set[int]:
    """Return the processes of executors, when there are this number of them."""
    wait_for(lambda: len(executors(folder)) == number, f"{number} executors", lambda: str(executors(folder)))
    return set(executors(folder))


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


SCENARIOS = {scenario.__name__: scenario for scenario in (grow_and_shrink, reuse, killed, adapted, too_small)}

if __name__ == "__main__":
    master, folder, name = sys.argv[1:]
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", HERE)
        .config("spark.driver.bindAddress", HERE)
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "600m")
        .config("spark.decommission.enabled", "true")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    SCENARIOS[name](session, Path(folder))
    session.stop()
