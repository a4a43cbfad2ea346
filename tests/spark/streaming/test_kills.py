"""A driver that is killed at any moment, with all its processes, and started again writes each row exactly once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.micro_batches import (
    batches_of,
    in_milliseconds,
    pieces,
    query,
    rows_in,
    rows_in_sink,
    rows_of_one_engine,
    slow_query,
    with_one_watermark,
    write,
)
from support.waiting import LIMIT

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

KILLS = int(os.environ.get("FASTCEP_KILLS", "10"))
#: Queries, their slices, and the types of late events that they report; ``detect`` is a streaming DataFrame.
QUERIES = {"kleene": (2, "ABC"), "trailing": (3, "ABC"), "windowed": (1, "ABCD"), "detect": (3, "ABC")}
#: Files that show that a query has reached a point of a batch, of `write_matches` and of ``detect``.
POINTS = {
    "offsets": "state/spark/offsets/{batch}", "state": "state/batches/{batch}/state-*",
    "commit": "state/batches/{batch}/commit.json", "sink": "out/*batch={batch}/*",
}  # fmt: skip
DETECT_POINTS = {
    "offsets": "state/spark/offsets/{batch}", "state": "state/spark/state/0/[0-9]*/{version}.*",
    "sink": "out/_spark_metadata/{batch}*", "commit": "state/spark/commits/{batch}",
}  # fmt: skip
ROOT = Path(__file__).resolve().parents[3]


def test_killed_drivers(tmp_path: Path) -> None:
    batches = 3 * KILLS  # a driver may finish several before it is killed
    tables = pieces(1_200 * batches, batches, disorder=3_000)
    write(tmp_path / "in", tables)
    chosen, kills = random.Random(KILLS), dict.fromkeys(QUERIES, 0)
    for _ in range(KILLS):
        left = [name for name in QUERIES if _files_read(tmp_path / name) < len(tables)]
        name = min(left, key=lambda name: kills[name])
        point = chosen.choice(list(DETECT_POINTS if name == "detect" else POINTS))
        kills[name] += _killed(tmp_path, name, point, chosen.uniform(0, 0.05))
    assert sum(kills.values()) == KILLS and kills["detect"] >= KILLS // 4
    process = _driver(tmp_path)
    assert process.wait(LIMIT) == 0, (tmp_path / "log").read_text()[-4_000:]
    for name, (_, types) in QUERIES.items():
        of_query = batches_of(tmp_path / name / "state" / "spark", tables)
        if name == "detect":
            together = with_one_watermark(tmp_path / name / "state" / "spark", of_query)
            expected = rows_of_one_engine(slow_query("kleene"), in_milliseconds(together), "500ms", types)
            found = rows_in_sink(tmp_path / name / "out")
        else:
            expected = rows_of_one_engine(query(name), of_query, "500us", types)
            found = rows_in(tmp_path / name / "out")
        assert len(expected) > 20
        assert found == expected, name


def _files_read(own: Path) -> int:
    """Return how many files a query has read; it reads them in order."""
    logs = (path.read_text() for path in own.glob("state/spark/sources/0/[0-9]*"))
    return max((int(number) + 1 for log in logs for number in re.findall(r"part-(\d+)", log)), default=0)


def _driver(folder: Path) -> subprocess.Popen[bytes]:
    arguments = [f"{name}:{slices}" for name, (slices, _) in QUERIES.items()]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "support.streaming_driver", str(folder), "500us", *arguments],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _killed(folder: Path, name: str, point: str, delay: float) -> bool:
    """Start a driver, and kill it soon after a query reaches a point of a new batch; return False if it ends before.

    Spark does not start ``detect`` beside an unfinished file of its first batch, so that file is waited for.
    """
    own = folder / name
    batch = max((int(path.name) + 1 for path in own.glob("state/spark/offsets/[0-9]*")), default=0)
    reached = (DETECT_POINTS if name == "detect" else POINTS)[point].format(batch=batch, version=batch + 1)
    process = _driver(folder)
    end = time.monotonic() + LIMIT
    first = folder / "detect" / "state" / "spark" / "offsets" / "0"
    while process.poll() is None and not (any(own.glob(reached)) and first.exists()):
        assert time.monotonic() < end, f"{point} of batch {batch} not reached"
        time.sleep(0.001)
    time.sleep(delay)
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the driver and its JVM; Python workers end when they notice
    except ProcessLookupError:
        return False
    return process.wait(LIMIT) == -signal.SIGKILL
