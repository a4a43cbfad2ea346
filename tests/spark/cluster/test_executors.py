"""``ExecutorPool``: its choices with executors of this file, its errors, and scenarios on a standalone cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.spark_cluster import HERE, cluster, executors
from support.waiting import LIMIT, wait_for

from fastcep import ValidationError
from fastcep.engine.instance_pool import InstanceCounts, InstancePool
from fastcep.spark import ExecutorPool
from fastcep.spark.cluster.executor_backend import Executor

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


@dataclass
class Backend:
    """Executors that change only when a test or the pool changes them, and a master that may not answer."""

    states: dict[int, Executor] = field(default_factory=dict)
    answers: bool = True
    requests: list[int] = field(default_factory=list)
    drained: list[int] = field(default_factory=list)

    def executors(self) -> list[Executor]:
        return [self.states[number] for number in sorted(self.states)]

    def request(self, total: int) -> bool:
        self.requests.append(total)
        return self.answers

    def drain(self, number: int) -> None:
        self.drained.append(number)
        self.states[number] = replace(self.states[number], active=False)

    def start(self, *numbers: int, busy: bool = False) -> None:
        self.states.update({number: Executor(number, active=True, busy=busy) for number in numbers})

    def end(self, *numbers: int) -> None:
        for number in numbers:
            del self.states[number]


@dataclass
class Clock:
    seconds: float = 100.0


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    backend = Backend()
    monkeypatch.setattr("fastcep.spark.cluster.executors.ExecutorBackend", lambda session: backend)
    return backend


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("fastcep.spark.cluster.executors.monotonic", lambda: clock.seconds)
    return clock


def pool_of(session: Any = None, **options: Any) -> ExecutorPool:
    return ExecutorPool(session, **options)


def test_before_the_first_number_all_executors_are_ready(backend: Backend) -> None:
    backend.start(0, 1, 2)
    pool = pool_of()
    assert isinstance(pool, InstancePool)
    assert pool.counts() == InstanceCounts(ready=3)
    assert backend.requests == backend.drained == []


def test_idle_executors_leave_first_then_the_newest(backend: Backend, clock: Clock) -> None:
    backend.start(0, 2, 3, 4, busy=True)
    backend.start(1)
    pool = pool_of(grace=0)
    pool.resize(3)
    assert backend.drained == [1, 4]
    assert pool.counts() == InstanceCounts(ready=3, leaving=2)
    backend.end(1, 4)
    assert pool.counts() == InstanceCounts(ready=3)
    assert backend.requests == [3]  # repeated only if something is missing


def test_a_busy_executor_is_drained_after_the_grace_period(backend: Backend, clock: Clock) -> None:
    backend.start(0, 1, busy=True)
    pool = pool_of(grace=5)
    pool.resize(1)
    clock.seconds += 4.9
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    assert backend.drained == []
    clock.seconds += 0.1
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    assert backend.drained == [1]
    pool.resize(2)  # drained: it cannot be used again
    assert pool.counts() == InstanceCounts(ready=1, starting=1, leaving=1)


def test_an_executor_that_becomes_idle_leaves_in_place_of_a_busy_one(backend: Backend, clock: Clock) -> None:
    backend.start(0, 1, busy=True)
    pool = pool_of(grace=5)
    pool.resize(1)
    backend.start(0)
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    backend.end(0)
    clock.seconds += 5
    assert pool.counts() == InstanceCounts(ready=1)
    assert backend.drained == [0]


def test_leaving_executors_are_used_again(backend: Backend, clock: Clock) -> None:
    backend.start(0, 1, 2, busy=True)
    pool = pool_of(grace=5)
    pool.resize(1)
    clock.seconds += 4
    pool.resize(2)
    assert pool.counts() == InstanceCounts(ready=2, leaving=1)
    pool.resize(3)
    assert pool.counts() == InstanceCounts(ready=3)
    clock.seconds += 4
    pool.resize(2)  # a new grace period
    assert pool.counts() == InstanceCounts(ready=2, leaving=1)
    assert backend.drained == []


def test_a_lost_executor_takes_back_one_that_is_leaving(backend: Backend, clock: Clock) -> None:
    backend.start(0, 1, busy=True)
    pool = pool_of(grace=5)
    pool.resize(1)
    backend.end(0)
    clock.seconds += 5
    assert pool.counts() == InstanceCounts(ready=1)
    assert backend.drained == []


def test_a_request_is_repeated_while_executors_are_missing(backend: Backend, clock: Clock) -> None:
    backend.start(0)
    pool = pool_of()
    pool.resize(2)
    clock.seconds += 0.9
    assert pool.counts() == InstanceCounts(ready=1, starting=1)
    assert backend.requests == [2]
    clock.seconds += 0.1
    assert pool.counts() == InstanceCounts(ready=1, starting=1)
    assert backend.requests == [2, 2]
    clock.seconds += 1
    backend.start(1)
    assert pool.counts() == InstanceCounts(ready=2)
    assert pool.counts() == InstanceCounts(ready=2)
    assert backend.requests == [2, 2]
    backend.end(0)
    assert pool.counts() == InstanceCounts(ready=1, starting=1)
    pool.resize(2)  # repeats it at once
    assert backend.requests == [2, 2, 2, 2]


def test_no_executor_ends_before_the_master_knows_the_number(backend: Backend) -> None:
    """Otherwise the master would replace it."""
    backend.start(0, 1)
    backend.answers = False
    pool = pool_of()
    pool.resize(1)
    assert pool.counts() == InstanceCounts(ready=1, leaving=1)
    assert (backend.requests, backend.drained) == ([1, 1], [])
    backend.answers = True
    pool.counts()
    assert (backend.requests, backend.drained) == ([1, 1, 1], [1])


def test_wait_returns_if_the_number_was_reached(backend: Backend) -> None:
    backend.start(0)
    pool = pool_of()
    pool.resize(1)
    assert pool.wait(0)
    pool.resize(2)
    assert not pool.wait(0.01)
    backend.start(1)
    assert pool.wait(float("inf"))


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "2", None, 4])
def test_wrong_numbers(backend: Backend, number: Any) -> None:
    pool = pool_of(most=3)
    with pytest.raises(ValidationError, match=r"instances=.*: expected a number of executors from 1 to 3"):
        pool.resize(number)
    assert backend.requests == []


@pytest.mark.parametrize("options", [{"most": 0}, {"most": True}, {"most": 1.5}, {"grace": -1}, {"grace": "1s"}])
def test_wrong_options(backend: Backend, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{next(iter(options))}=.*: expected"):
        pool_of(**options)


def test_wrong_waits(backend: Backend) -> None:
    pool = pool_of()
    with pytest.raises(ValidationError, match="call resize"):
        pool.wait(1)
    for timeout in (-1, float("nan"), True, "1s"):
        with pytest.raises(ValidationError, match=r"timeout=.*: expected a number of seconds"):
            pool.wait(timeout)  # type: ignore[arg-type]


def session_of(master: str, **settings: str) -> Any:
    """Return what a pool looks at, of a session with these settings."""
    context = SimpleNamespace(
        master=master,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)),
        getConf=lambda: SimpleNamespace(getAll=lambda: [(f"spark.{key}", value) for key, value in settings.items()]),
    )
    return SimpleNamespace(createDataFrame=None, sparkContext=context)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (session_of("yarn"), r"master 'yarn', expected one on a standalone cluster"),
        (
            session_of("spark://host:7077", **{"decommission.enabled": "true", "dynamicAllocation.enabled": "True"}),
            r"found spark\.dynamicAllocation\.enabled=true.*expected false",
        ),
        (session_of("spark://host:7077"), r"found spark\.decommission\.enabled=false, expected true"),
        (SimpleNamespace(createDataFrame=None), "Spark Connect"),
        ("spark://host:7077", "found str, expected a Spark session"),
    ],
    ids=["yarn", "dynamic allocation", "decommission", "connect", "no session"],
)
def test_wrong_sessions(session: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        pool_of(session)


def test_a_local_session(spark: Any) -> None:
    with pytest.raises(ValidationError, match=r"master 'local\[2\]', expected one on a standalone cluster"):
        ExecutorPool(spark)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(work: Path) -> Iterator[str]:
    with cluster(work) as url:
        yield url


@pytest.fixture
def run(master: str, work: Path) -> Callable[[str], None]:
    def run(scenario: str) -> None:
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
            "SPARK_LOCAL_IP": HERE,
        }  # fmt: skip
        wait_for(lambda: not executors(work), "end of the executors of an earlier session")
        command = [sys.executable, "-m", "support.executor_scenarios", master, str(work), scenario]
        job = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=2 * LIMIT, check=False)
        assert job.returncode == 0, job.stdout[-2_000:] + job.stderr[-6_000:]

    return run


@pytest.mark.cluster
@pytest.mark.thorough
@pytest.mark.parametrize("scenario", ["grow_and_shrink", "reuse", "killed", "adapted", "too_small"])
def test_on_a_cluster(run: Callable[[str], None], scenario: str) -> None:
    """See `support.executor_scenarios`."""
    run(scenario)
