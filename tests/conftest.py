"""Settings of every test run: hypothesis repeats itself exactly, unless a seed is set with --hypothesis-seed.

Conditions are interpreted (``FASTCEP_JIT=0``) unless a test requests generated kernels with the fixture ``kernels``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("FASTCEP_EXAMPLES", "20"))
KILLS = int(os.environ.get("FASTCEP_KILLS", "200" if EXAMPLES >= 5000 else "10"))


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile; ``--hypothesis-seed=N`` (or ``random``) draws other examples than the fixed ones."""
    seed = config.getoption("--hypothesis-seed", default=None)
    settings.register_profile(
        "fastcep",
        derandomize=seed is None,
        max_examples=EXAMPLES,
        deadline=None,
        print_blob=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fastcep")
    os.environ["FASTCEP_JIT"] = "0"
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark_conf")
    os.environ["FASTCEP_CACHE_DIR"] = tempfile.mkdtemp(prefix="fastcep-tests-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that draw examples, so that `make ci` runs them again with more, and cases that are in no sample."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
        if item.get_closest_marker("sample") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test in cases.values():
        mark = test[0].get_closest_marker("sample")
        assert mark is not None
        for item in set(test) - set(sample(test, *mark.args)):
            item.add_marker("thorough")


def sample(cases: list[pytest.Item], *which: int | str) -> list[pytest.Item]:
    """Return as many cases of a test as ``which`` says, evenly spread, or those with these ids."""
    if not isinstance(which[0], int):
        found = [case for case in cases if case.nodeid.partition("[")[2].removesuffix("]") in which]
        return found or cases  # others have been selected by their names
    count = min(which[0], len(cases))
    return [cases[place * len(cases) // count] for place in range(count)]


def pytest_unconfigure() -> None:
    """Remove the run's cache of kernels."""
    shutil.rmtree(os.environ["FASTCEP_CACHE_DIR"], ignore_errors=True)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> Path:
    """Use generated kernels, cached across test runs (a cache key covers all that a kernel depends on)."""
    cache = getattr(pytestconfig, "cache", None)
    folder = Path(os.environ["FASTCEP_CACHE_DIR"]) if cache is None else Path(cache.mkdir("fastcep-kernels"))
    folder.chmod(0o700)
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(folder))
    monkeypatch.setenv("FASTCEP_JIT", "1")
    monkeypatch.setattr("fastcep.kernels.background._NICE", 0)  # the tests do wait for the compiler
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Return one Spark session for all tests; workers run the same Python as the tests."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "America/New_York")  # nothing may depend on it
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # starts faster
        .config("spark.log.level", "ERROR")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "5000")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kills() -> int:
    """Return the number of processes that the tests of ``--checkpoint`` kill."""
    return KILLS


def pytest_report_header(config: pytest.Config) -> str:
    """Show the seed and the number of examples, so that a run can be repeated."""
    seed = config.getoption("--hypothesis-seed", default=None)
    shown = "fixed (derandomized; --hypothesis-seed=N for others)" if seed is None else seed
    return f"fastcep: hypothesis seed {shown}, {EXAMPLES} examples (FASTCEP_EXAMPLES)"


@pytest.fixture(scope="module")
def decide_often() -> Iterator[None]:
    """Make a decision after about every two events; otherwise the small streams would have none."""
    from fastcep.overload import decision_schedule

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decision_schedule, "_LEAST", 2)
        yield
