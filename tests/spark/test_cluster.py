"""A standalone cluster: a master and two workers as processes on this machine, and an executor that dies in a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
JOB = Path(__file__).parents[1] / "cluster_job.py"
PATIENCE = 90  # seconds for a process to begin


def begin(stack: ExitStack, folder: Path, name: str, *arguments: str) -> Path:
    """Start a process of Spark's; gives its log."""
    import pyspark

    home, log = Path(pyspark.__file__).parent, folder / f"{name}.log"
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments], stdout=out, stderr=out, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return log


def wait_for(log: Path, text: str) -> re.Match[str]:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(text, log.read_text(errors="replace"))
        if found is not None:
            return found
        time.sleep(0.1)
    pytest.fail(f"no {text!r} in {log.name}:\n{log.read_text(errors='replace')}")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with two workers of a core each."""
    with ExitStack() as stack:
        own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = begin(stack, tmp_path, "master", "org.apache.spark.deploy.master.Master", *own)
        address = wait_for(log, r"spark://127\.0\.0\.1:\d+")[0]
        for number in range(2):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"), address)
            log = begin(stack, tmp_path, f"worker{number}", "org.apache.spark.deploy.worker.Worker", *own, *more)
            wait_for(log, "Successfully registered with master")
        yield address


def test_a_cluster_that_loses_an_executor(master: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(JOB.parents[1]), str(JOB.parent)])
    run = subprocess.run(
        [sys.executable, str(JOB), master], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    told = json.loads(run.stdout.strip().splitlines()[-1])
    assert told["matches"] > 1_000
    assert told == {
        "matches": told["matches"], "executors": 2, "detected": True, "fitted": True, "detected again": True,
        "killed": 1, "gone": True,
    }  # fmt: skip
