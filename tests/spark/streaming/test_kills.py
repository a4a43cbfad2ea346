"""A driver that is killed at any moment, with all its processes, and started again writes each row exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.micro_batches import batches_of, pieces, query, rows_in, rows_of_one_engine, write
from support.waiting import LIMIT

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

KILLS = int(os.environ.get("FASTCEP_KILLS", "10"))
#: Queries, their slices, and the types of late events that they report.
QUERIES = {"kleene": (2, "ABC"), "trailing": (3, "ABC"), "windowed": (1, "ABCD")}
ROOT = Path(__file__).resolve().parents[3]


def test_killed_drivers(tmp_path: Path) -> None:
    batches = 3 * KILLS  # a driver may finish several before it is killed
    tables = pieces(1_200 * batches, batches, disorder=3_000)
    write(tmp_path / "in", tables)
    chosen, kills = random.Random(KILLS), 0
    for _ in range(KILLS):
        name = chosen.choice(list(QUERIES))
        point = chosen.choice(["offsets", "state", "commit", "sink"])
        kills += _killed(tmp_path, tmp_path / name, point, chosen.uniform(0, 0.05))
    assert kills == KILLS  # each run has a batch left
    process = _driver(tmp_path)
    assert process.wait(LIMIT) == 0, (tmp_path / "log").read_text()[-4_000:]
    for name, (_, types) in QUERIES.items():
        of_query = batches_of(tmp_path / name / "state" / "spark", tables)
        expected = rows_of_one_engine(query(name), of_query, "500us", types)
        assert len(expected) > 20
        assert rows_in(tmp_path / name / "out") == expected, name


def _driver(folder: Path) -> subprocess.Popen[bytes]:
    arguments = [f"{name}:{slices}" for name, (slices, _) in QUERIES.items()]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "support.streaming_driver", str(folder), "500us", *arguments],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _killed(folder: Path, own: Path, point: str, delay: float) -> bool:
    """Start a driver, and kill it soon after a query reaches a point of a new batch; return False if it ends before."""
    batch = max((int(path.name) + 1 for path in own.glob("state/spark/offsets/[0-9]*")), default=0)
    reached = {
        "offsets": f"state/spark/offsets/{batch}",
        "state": f"state/batches/{batch}/state-*",
        "commit": f"state/batches/{batch}/commit.json",
        "sink": f"out/*batch={batch}/*",
    }[point]
    process = _driver(folder)
    end = time.monotonic() + LIMIT
    while process.poll() is None and not any(own.glob(reached)):
        assert time.monotonic() < end, f"{point} of batch {batch} not reached"
        time.sleep(0.001)
    time.sleep(delay)
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the driver and its JVM; Python workers end when they notice
    except ProcessLookupError:
        return False
    return process.wait(LIMIT) == -signal.SIGKILL
