"""Streams on a standalone cluster: killed executors, and speculative copies of tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cluster_streams import DETECT_LATENESS, KILLED, LAST, LATENESS, SLOW, detect_query
from support.micro_batches import canonical, pieces, query, rows_in, rows_of_one_engine, write
from support.spark_cluster import HERE, cluster, executors, kill
from support.waiting import LIMIT, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.thorough]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(work: Path) -> Iterator[str]:
    with cluster(work, own_hosts=True) as url:
        yield url


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    return pieces(4_000, LAST, disorder=3_000)


@contextmanager
def started(master: str, folder: Path, scenario: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scenario of `support.cluster_streams` in a process; it is killed at the end of the block."""
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "SPARK_LOCAL_IP": HERE,
    }  # fmt: skip
    command = [sys.executable, "-m", "support.cluster_streams", master, str(folder), scenario]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log, env=environment) as job:
        try:
            yield job
        finally:
            job.kill()


def assert_success(job: subprocess.Popen[bytes], folder: Path) -> None:
    assert job.wait(LIMIT) == 0, (folder / "log").read_text()[-4_000:]


def kill_at_gate(work: Path, folder: Path, gate: str, job: subprocess.Popen[bytes]) -> None:
    """Kill an executor that has a task at the gate, and open the gate for the tasks of others."""
    log = (folder / "log").read_text
    try:
        wait_for(lambda: any(folder.glob(f"{gate}.*")) or job.poll() is not None, f"task at {gate}", log)
        assert job.poll() is None, log()[-4_000:]
        busy = int(next(folder.glob(f"{gate}.*")).suffix[1:])
        assert busy in executors(work)
        kill(busy)
        wait_for(lambda: busy not in executors(work), "end of the killed executor", log)
    finally:
        (folder / f"{gate}.open").touch()


def lost_tasks(folder: Path) -> int:
    """Return in how many stages the first attempt of a task has ended with its executor."""
    found = re.findall(r"Lost task \d+\.0 in (stage \S+) .*ExecutorLostFailure", (folder / "log").read_text())
    return len(set(found))


def files_of(folder: Path, batch: int) -> tuple[set[str], set[str]]:
    """Return the files of a batch that its record names, and the others."""
    batches = folder / "state" / "batches" / str(batch)
    commit = json.loads((batches / "commit.json").read_text())
    named = {unit["state"] for unit in commit["units"]} | {output["file"] for output in commit["outputs"]}
    names = {f"batches/{batch}/{path.name}" for path in batches.glob("*-*")}
    assert named <= names
    return named, names - named


def test_executors_of_write_matches_are_killed(master: str, work: Path, tables: list[pa.Table], tmp_path: Path) -> None:
    """While a task reads events, and when a task has written its files, which the record of the batch does not name."""
    write(tmp_path / "in", tables)
    with started(master, tmp_path, "killed") as job:
        kill_at_gate(work, tmp_path, "events", job)
        kill_at_gate(work, tmp_path, "files", job)
        assert_success(job, tmp_path)
    assert lost_tasks(tmp_path) >= 2
    assert any("/state-" in name for name in files_of(tmp_path, KILLED)[1])
    assert rows_in(tmp_path / "out") == rows_of_one_engine(query("trailing"), tables, LATENESS, "ABC")


def test_executors_of_detect_are_killed(master: str, work: Path, tables: list[pa.Table], tmp_path: Path) -> None:
    """While a task reads events, and when a task has rows and has not committed its state."""
    tables = [
        table.set_column(table.column_names.index("ts"), "ts", pa.array(table["ts"].to_numpy() * 1_000))
        for table in tables
    ]
    write(tmp_path / "in", tables)
    with started(master, tmp_path, "killed_detect") as job:
        kill_at_gate(work, tmp_path, "events", job)
        kill_at_gate(work, tmp_path, "rows", job)
        assert_success(job, tmp_path)
    assert lost_tasks(tmp_path) >= 2
    expected = rows_of_one_engine(detect_query(), tables, DETECT_LATENESS, "ABC")
    assert canonical(pq.read_table(tmp_path / "rows").to_pylist()) == expected


def test_speculative_copies_win(master: str, tables: list[pa.Table], tmp_path: Path) -> None:
    """Two attempts of a task write files, the slow one before or after the commit, which names those of the other."""
    write(tmp_path / "in", tables)
    with started(master, tmp_path, "slow") as job:
        assert_success(job, tmp_path)
    log = (tmp_path / "log").read_text()
    expected = rows_of_one_engine(query("trailing"), tables, LATENESS, "ABC")
    for moment, batch in SLOW.items():
        folder = tmp_path / moment
        stage, slow = (folder / "written").read_text().split()
        assert re.search(rf"Marking task 0 in stage {stage}\.0 .* as speculatable", log)
        assert re.search(rf"Killing attempt 0 for task 0\.0 in stage {stage}\.0 .* as the attempt 1 succeeded", log)
        if moment == "removed":  # the slow attempt has made the folder again
            assert not (folder / "state" / "batches" / str(batch)).exists()
        else:
            of_slow = {name for name in files_of(folder, batch)[1] if re.search(rf"-{slow}\.\w+$", name)}
            assert {name.split("/")[2].split("-")[0] for name in of_slow} == {"state", "rows"}
        assert rows_in(folder / "out") == expected, moment
