"""A standalone Spark cluster of processes on this machine: a master, and workers of one core each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from support.waiting import LIMIT, wait_for

HERE = "127.0.0.1"
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def cluster(folder: Path, workers: int = 2, *, own_hosts: bool = False) -> Iterator[str]:
    """Start a cluster, and yield the address of its master.

    With `own_hosts`, each worker has an address of its own: Spark starts a speculative copy on another host only.
    """
    port, log = free_port(), folder / "cluster.log"
    url = f"spark://{HERE}:{port}"
    with ExitStack() as stack, log.open("wb") as output:
        web = ["--webui-port", "0"]
        stack.enter_context(_process(["master.Master", "--host", HERE, *web, "--port", str(port)], folder, output))
        wait_for(lambda: f"Starting Spark master at {url}" in log.read_text(), "master", log.read_text)
        for number in range(workers):
            own = ["--host", f"127.0.0.{number + 2}" if own_hosts else HERE, "--work-dir", str(folder / f"w{number}")]
            size = ["--cores", "1", "--memory", "1g"]
            stack.enter_context(_process(["worker.Worker", *own, *web, *size, url], folder, output))
        registered = "Successfully registered with master"
        wait_for(lambda: log.read_text().count(registered) == workers, "workers", log.read_text)
        yield url


@contextmanager
def _process(arguments: list[str], folder: Path, log: object) -> Iterator[None]:
    command = [str(_CLASS), f"{_DEPLOY}.{arguments[0]}", *arguments[1:]]
    environment = os.environ | {
        "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": HERE, "SPARK_LOG_DIR": str(folder), "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder), "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    with subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True  # type: ignore[call-overload]
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HERE, 0))
        return int(found.getsockname()[1])


def executors(folder: Path) -> list[int]:
    """Return the processes of executors whose work folders are in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            work = os.readlink(entry / "cwd")
        except OSError:  # the process has ended
            continue
        if b"CoarseGrainedExecutorBackend" in command and Path(work).is_relative_to(folder):
            found.append(int(entry.name))
    return sorted(found)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
