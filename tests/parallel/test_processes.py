"""Instances in processes: they die, fail, run out of memory, and end with the process that started them."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from parallel.streams import QUERY, batches, joined, of_one_engine, stream

import fastcep as fc
from fastcep.parallel import ParallelEngine, scheduler
from fastcep.parallel.instances import Instance

#: Time until a test that hangs gives up, in seconds.
PATIENCE = 60.0


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def processes(engine: ParallelEngine) -> list[int]:
    return [item["process"] for item in engine.metrics()["instances"]]


def open_files() -> int:
    """Return the number of open sockets and memory files of this process."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(name.startswith(("socket:", "/memfd:")) for name in names)


def killed_run(seed: int, kills: int, **options: Any) -> None:
    """Kill a random instance before random batches, and compare with a single engine."""
    table, choices = stream(20_000, seed), random.Random(seed)
    parts = batches(table, 500)
    when = set(choices.sample(range(1, len(parts) + 1), kills))
    found, before = [], open_files()
    with (
        patch.object(scheduler, "_MOST_DEATHS", 10**6),  # chance may kill the same slice again and again
        ParallelEngine(QUERY, instances=3, slice_events=1_000, **options) as engine,
    ):
        for number, part in enumerate(parts):
            if number in when:
                os.kill(choices.choice(processes(engine)), signal.SIGKILL)
            found.append(engine.process(part))
        if len(parts) in when:
            os.kill(choices.choice(processes(engine)), signal.SIGKILL)
        found.append(engine.flush())
        started = processes(engine)
        assert len(started) == 3, "each is replaced"
    assert joined(found).equals(of_one_engine(QUERY, table, 500)), f"seed {seed}"
    assert open_files() == before
    assert not any(map(is_running, started))


@pytest.mark.thorough
def test_instances_are_killed_at_ten_points() -> None:
    killed_run(seed=1, kills=10)


@pytest.mark.thorough
def test_matches_of_a_slice_that_is_run_again_come_once() -> None:
    table = stream(6_000)
    found = []
    with ParallelEngine(QUERY, instances=1) as engine:
        for number, part in enumerate(batches(table, 2_000)):
            found.append(engine.process(part))
            while engine.metrics()["waiting_events"]:
                found.append(engine.poll("1s"))
            if number < 2:  # three deaths would end the slice
                os.kill(processes(engine)[0], signal.SIGKILL)
        assert sum(map(len, found)) > 100, "the slice has answered before its instance dies"
        found.append(engine.flush())
        assert engine.metrics()["restarts"] > 1
    assert joined(found).equals(of_one_engine(QUERY, table, 2_000))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 7))
def test_instances_are_killed_at_fifty_points(seed: int) -> None:
    killed_run(seed, kills=10, queue_limit=random.Random(seed).choice([10, 2_000, 1_000_000]))


def test_a_slice_that_kills_its_instances() -> None:
    """It is given up, with the matches until then; the message names the slice and how the last one ended."""

    def kill(self: Instance, header: dict[str, Any], data: Any = None) -> None:
        if any(feed["slice"] == 2 for feed in header.get("feeds", ())):
            os.kill(self.process or 0, signal.SIGKILL)
        post(self, header, data)

    post, table = Instance.post, stream(5_000)
    with patch.object(Instance, "post", kill), ParallelEngine(QUERY, instances=2, slice_events=1_000) as engine:
        started = processes(engine)
        message = r"3 instances have died while they ran slice \d, which begins at event [\d,]+ .* ended by signal 9"
        with pytest.raises(fc.InstanceError, match=message) as caught:
            engine.process(table)
            engine.flush()
    expected = of_one_engine(QUERY, table, 5_000)
    found = caught.value.matches.to_arrow()
    assert found.equals(expected.slice(0, len(found)))
    assert not any(map(is_running, started))


def test_processes_that_do_not_start() -> None:
    with patch.object(sys, "executable", "/bin/false"):
        engine = ParallelEngine(QUERY, instances=1)
        with pytest.raises(
            fc.InstanceError, match=r"3 instances have died while they ran slice 0, .* ended with code"
        ):
            engine.process(stream(10))
            engine.flush()
    with patch.object(sys, "executable", "/nowhere/python"), pytest.raises(FileNotFoundError):
        ParallelEngine(QUERY)


def test_an_error_in_an_instance() -> None:
    """The instance sends it, and the engine raises it and ends all instances."""

    def spoiled(self: Instance, header: dict[str, Any], data: Any = None) -> None:
        post(self, header | {"feeds": [feed | {"start": "soon"} for feed in header.get("feeds", ())]}, data)

    post = Instance.post
    with ParallelEngine(QUERY, instances=2) as engine, patch.object(Instance, "post", spoiled):
        started = processes(engine)
        with pytest.raises(fc.InstanceError, match=r"instance 0, slice 0 of the stream: .*; the engine is closed"):
            engine.process(stream(100))
            engine.flush()
        assert not any(map(is_running, started))


def test_an_engine_that_is_dropped() -> None:
    engine = ParallelEngine(QUERY, instances=2)
    engine.process(stream(100))
    started = processes(engine)
    assert all(map(is_running, started))
    del engine
    gc.collect()
    assert not any(map(is_running, started))


SCRIPT = """
import resource, sys, time
from fastcep.parallel import ParallelEngine
from fastcep.errors import InstanceError
sys.path.insert(0, {tests!r})
from parallel.streams import QUERY, stream
with ParallelEngine(QUERY, instances=2, slice_events=1_000) as engine:
    engine.process(stream(5_000))
    print(*(item["process"] for item in engine.metrics()["instances"]), flush=True)
    {action}
"""


def started_by_script(action: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process with an engine; return it and the processes of the instances."""
    script = SCRIPT.format(tests=str(Path(__file__).resolve().parent.parent), action=action)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert process.stdout is not None
    instances = [int(word) for word in process.stdout.readline().split()]
    assert len(instances) == 2, process.communicate()[1]
    assert all(map(is_running, instances))
    return process, instances


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_instances_end_with_the_process_that_started_them(number: signal.Signals) -> None:
    process, instances = started_by_script("time.sleep(600)")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    eventually(lambda: not any(map(is_running, instances)))


@pytest.mark.thorough
def test_ctrl_c_while_it_waits() -> None:
    """A call that waits for instances ends, and the engine can be asked again, or closed."""
    action = """
    import os, signal
    engine._scheduler.instances[0].outstanding += 10**9  # as if an answer never came
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        engine.process(stream(5_000, 1).slice(0, 0))
    except KeyboardInterrupt:
        engine._scheduler.instances[0].outstanding -= 10**9
        engine.flush()
        print("ended", engine.metrics()["kept_events"])
    """
    process, instances = started_by_script(action.strip().replace("\n    ", "\n    "))
    output, errors = process.communicate(timeout=PATIENCE)
    assert output.strip() == "ended 0", errors
    eventually(lambda: not any(map(is_running, instances)))


@pytest.mark.thorough
def test_a_forked_process_leaves_the_instances_alone() -> None:
    action = """
    import os
    forked = os.fork()
    if forked == 0:
        sys.exit(0)  # what is registered for the end of the program runs
    os.waitpid(forked, 0)
    engine.process(stream(5_000, 1).slice(0, 0))
    engine.flush()
    print(*(item["process"] for item in engine.metrics()["instances"]), engine.metrics()["restarts"])
    """
    process, instances = started_by_script(action.strip())
    output, errors = process.communicate(timeout=PATIENCE)
    assert output.split() == [*map(str, instances), "0"], errors


@pytest.mark.thorough
def test_a_forked_process_holds_no_connections() -> None:
    """Otherwise an instance that leaves, or whose parent is killed, would never see the end of its connection."""
    action = """
    import os, signal
    forked = os.fork()
    signal.alarm(30)  # in both processes
    if forked == 0:
        try:
            engine.poll()
        except Exception as error:
            print(error, flush=True)
        signal.pause()
    try:
        engine.resize(1)
        engine.flush()
        print("ended", len(engine.metrics()["instances"]), flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        os.kill(forked, signal.SIGKILL)
    """
    process, instances = started_by_script(action.strip())
    assert process.stdout is not None
    forked = 0
    try:
        lines = sorted(process.stdout.readline().strip() for _ in range(2))
        assert lines == ["ended 1", "the engine belongs to the parent of this process; create a new ParallelEngine"]
        eventually(lambda: sum(map(is_running, instances)) == 1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (forked,) = {int(child) for child in children} - {*instances}
        process.kill()
        eventually(lambda: not any(map(is_running, instances)))
        assert is_running(forked)
    finally:
        process.kill()
        if forked:
            os.kill(forked, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def test_no_process_can_be_started_in_place_of_a_dead_one() -> None:
    with ParallelEngine(QUERY, instances=1) as engine:
        engine.process(stream(1_000))
        with patch.object(sys, "executable", "/nowhere/python"):
            os.kill(processes(engine)[0], signal.SIGKILL)
            message = r"instance 0 ended by signal 9, and none can be started in its place: .*; the engine is closed"
            with pytest.raises(fc.InstanceError, match=message):
                engine.flush()
        with pytest.raises(fc.ValidationError, match="the engine is closed"):
            engine.flush()


@pytest.mark.thorough
def test_shared_memory_is_full() -> None:
    action = """
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        engine.process(stream(50_000, 1).slice(10_000))
    except InstanceError as error:
        print(error)
    """
    process, instances = started_by_script(action.strip())
    output, errors = process.communicate(timeout=PATIENCE)
    assert "cannot put" in output, errors
    assert "into shared memory: File too large; use smaller batches or a smaller queue_limit; the engine is" in output
    eventually(lambda: not any(map(is_running, instances)))
