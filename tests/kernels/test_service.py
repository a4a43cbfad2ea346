"""Kernels in an engine: compiled in the background, swapped in between batches, with tier 0 after any failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from support.waiting import LIMIT_TEXT, wait_for

import fastcep as fc
from fastcep.kernels import background, service
from fastcep.kernels.background import Background
from fastcep.kernels.cache import Cache, CacheError
from fastcep.kernels.generate import PARAMETERS
from fastcep.kernels.identity import key_of

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64", "x": "float64"} for name in "AB"}, time="ts", type="type",
                   time_unit="ns")  # fmt: skip
WHERE = "a.k = b.k AND a.v < b.v AND a.x * 2.0 < b.x AND b.v > 3"
QUERY = f"PATTERN SEQ(A a, B b) WHERE {WHERE} WITHIN 100ns RETURN a.v + b.v AS s"
EVENTS = {
    "type": ["A", "A", "B", "A", "B", "B"],
    "ts": [1, 2, 3, 4, 5, 6],
    "k": [1, 2, 1, 1, 2, 1],
    "v": [1, 2, 5, 3, 9, 4],
    "x": [0.5, 1.0, 2.0, 0.1, 7.0, 9.0],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Enable kernels with an empty cache and a compiler without the state of other tests."""
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("FASTCEP_JIT", "1")
    compiler = Background()
    monkeypatch.setattr(background, "_NICE", 0)  # the tests wait for the compiler
    monkeypatch.setattr(background, "BACKGROUND", compiler)
    monkeypatch.setattr(service, "BACKGROUND", compiler)
    monkeypatch.setattr(service, "_warned", set())
    monkeypatch.setattr(service, "loaded", lambda key: loaded.get(key))
    loaded: dict[str, int] = {}
    load = service.load

    def remember(kernels: Any) -> dict[str, int]:
        addresses = load(kernels)
        loaded.update(addresses)
        return addresses

    monkeypatch.setattr(service, "load", remember)
    yield tmp_path / "kernels"
    if compiler.process is not None:
        os.kill(compiler.process, signal.SIGKILL)
        compiler._queue.clear()
        wait_until_idle(compiler)


def wait_until_idle(compiler: Background) -> None:
    """Wait for the end of the compiling process and of the queued jobs."""

    def idle() -> bool:
        compiler.poll()
        return compiler.process is None

    wait_for(idle, "end of the compiler")


@contextmanager
def compiler_not_polled() -> Iterator[None]:
    """Neither start nor poll the compiler meanwhile, so that pending kernels stay pending."""
    compiler = background.BACKGROUND
    with patch.object(compiler, "poll", lambda: compiler.news):
        yield


def engine(where: str = "") -> fc.Engine:
    return fc.Engine(fc.parse(QUERY.replace(" WITHIN", f"{where} WITHIN"), SCHEMA, name="q"))


def expected() -> pa.Table:
    os.environ["FASTCEP_JIT"] = "0"
    try:
        return engine().process(EVENTS).to_arrow()
    finally:
        os.environ["FASTCEP_JIT"] = "1"


@pytest.mark.thorough
def test_cold_then_swapped_then_warm(folder: Path) -> None:
    with compiler_not_polled():
        cold = engine()
        state = cold.metrics()["kernels"]
        assert (state["generated"], state["pending"]) == (0, state["total"]) == (0, 4)
        assert cold.process(EVENTS).to_arrow() == expected(), "tier 0 serves meanwhile"
    assert cold.compile(LIMIT_TEXT)
    assert cold.metrics()["kernels"] == {"total": 4, "generated": 4, "pending": 0, "failed": 0, "reason": None}
    later = {**EVENTS, "ts": [time + 1000 for time in EVENTS["ts"]]}
    assert len(cold.process(later)) == expected().num_rows
    warm = engine()
    assert warm.metrics()["kernels"]["generated"] == 4, "at once, from the folder"
    assert warm.process(EVENTS).to_arrow() == expected()
    ended = background.BACKGROUND.process

    def reaped() -> bool:
        warm.process({name: [] for name in EVENTS})
        return background.BACKGROUND.process is None

    wait_for(reaped, "end of the compiler")
    assert ended is None or not Path(f"/proc/{ended}").exists(), "batches reap the compiler, no zombie stays"


@pytest.mark.thorough
def test_queries_that_come_and_go_bring_and_take_their_kernels(folder: Path) -> None:
    assert engine().compile(LIMIT_TEXT)
    changing = engine()
    text = QUERY.replace("b.v > 3", "b.v > 7")
    changing.add(fc.parse(text, SCHEMA, name="same"))
    state = changing.metrics()["kernels"]
    assert state["generated"] == state["total"] > 4, "thresholds apart these are the kernels of the first"
    with compiler_not_polled():
        changing.add(fc.parse(text.replace("a.v < b.v", "a.v * 3 < b.v"), SCHEMA, name="other"))
        assert changing.metrics()["kernels"]["pending"] == 1, "compiled in the background"
        assert changing.process(EVENTS).query("q").to_arrow() == expected()
    assert changing.compile(LIMIT_TEXT)
    changing.remove("other")
    changing.remove("same")
    assert changing.metrics()["kernels"] == {"total": 4, "generated": 4, "pending": 0, "failed": 0, "reason": None}
    changing.remove("q")
    assert changing.metrics()["kernels"]["generated"] == 0 and changing.compile("0s")


@pytest.mark.thorough
def test_thresholds_share_kernels(folder: Path) -> None:
    assert engine(" AND a.v > 10").compile(LIMIT_TEXT)
    files = len(list(folder.glob("*.kernel")))
    other = engine(" AND a.v > 20")
    assert other.metrics()["kernels"]["pending"] == 0
    assert len(list(folder.glob("*.kernel"))) == files


@pytest.mark.thorough
def test_damaged_files_are_compiled_again(folder: Path) -> None:
    assert engine().compile(LIMIT_TEXT)
    for path in folder.glob("*.kernel"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    service.loaded.__closure__[0].cell_contents.clear()  # type: ignore[attr-defined]
    with compiler_not_polled():
        again = engine()
        assert again.metrics()["kernels"]["pending"] == 4
    assert list(folder.glob("*.kernel")) == [], "refused and removed before anything of them was loaded"
    assert again.compile(LIMIT_TEXT)
    assert again.process(EVENTS).to_arrow() == expected()


def test_off_leaves_no_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCEP_JIT", "0")
    off = engine()
    assert off.process(EVENTS).to_arrow() == expected()
    assert not off.compile("1s")
    assert off.metrics()["kernels"]["reason"] == "FASTCEP_JIT=0"
    assert not folder.exists()
    assert background.BACKGROUND.process is None


def test_neither_on_nor_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCEP_JIT", "false")
    with pytest.raises(fc.ValidationError, match=r"FASTCEP_JIT is 'false'; expected 0 \(off\) or 1 \(on\)"):
        engine()


def test_a_folder_that_cannot_be_used_is_warned_about_once(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write to the folder"):
        first = engine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = engine()
    for each in (first, second):
        assert each.process(EVENTS).to_arrow().num_rows == 4
        assert "others can write" in each.metrics()["kernels"]["reason"]


def test_without_a_python_to_start_the_interpreter_serves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/something-else")
    alone = engine()
    assert not alone.compile("1s")
    assert "not a Python interpreter" in alone.metrics()["kernels"]["reason"]
    assert alone.process(EVENTS).to_arrow() == expected()


@pytest.mark.thorough
def test_a_killed_compiler_costs_one_kernel_and_no_error(folder: Path) -> None:
    compiler = background.BACKGROUND
    start = compiler._start

    def start_endless(at: Path, sources: dict[str, str]) -> None:
        start(at, {**sources, next(iter(sources)): "while True: pass"})

    with patch.object(compiler, "_start", start_endless):
        hit = engine()

    def begun() -> str:
        compiler.poll()
        return compiler._started

    wait_for(begun, "kernel that is being compiled")
    assert compiler.process is not None
    os.kill(compiler.process, signal.SIGKILL)
    assert not hit.compile(LIMIT_TEXT)
    state = hit.metrics()["kernels"]
    assert state["generated"] + state["failed"] == state["total"]
    assert state["failed"] == 1
    assert "ended with code -9" in state["reason"]
    assert hit.process(EVENTS).to_arrow() == expected()
    assert engine().metrics()["kernels"]["pending"] == 0, "it is not tried for ever"


@pytest.mark.thorough
def test_source_that_does_not_compile_is_remembered(folder: Path) -> None:
    bad = f"def kernel({PARAMETERS}):\n    return nope(n)\n"
    key = key_of(bad)
    Cache(folder)
    compiler = background.BACKGROUND
    compiler.submit(folder, {key: bad})
    wait_until_idle(compiler)
    assert "nope" in compiler.failed[key] or "TypingError" in compiler.failed[key]
    entry = Cache(folder).get(key)
    assert entry is not None
    assert entry.error
    compiler.submit(folder, {key: bad})
    assert compiler.process is None, "not tried again"


def test_a_folder_that_goes_away_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: Any, **options: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "Popen", missing)
    with pytest.warns(RuntimeWarning, match="cannot start"):
        lost = engine()
        lost.compile("2s")
    assert lost.metrics()["kernels"]["failed"] == 4
    assert lost.process(EVENTS).to_arrow() == expected()


def test_no_home_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise CacheError("there is no home folder")

    monkeypatch.setattr(service, "default_folder", homeless)
    with pytest.warns(RuntimeWarning, match="no home folder"):
        assert engine().process(EVENTS).to_arrow() == expected()


@pytest.mark.thorough
def test_two_programs_in_one_process_share_the_compiler(folder: Path) -> None:
    first = engine()
    process = background.BACKGROUND.process
    with compiler_not_polled():
        second = engine(" AND a.v + b.v < 100")
    assert background.BACKGROUND.process == process is not None, "one at a time"
    assert first.compile(LIMIT_TEXT)
    assert second.compile(LIMIT_TEXT)
    assert first.process(EVENTS).to_arrow() == second.process(EVENTS).to_arrow() == expected()


def run(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    root = Path(fc.__file__).parent.parent
    environment = {**os.environ, "FASTCEP_JIT": "1", "FASTCEP_CACHE_DIR": str(folder), "PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "error", *options, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


SCRIPT = f"""
import sys, fastcep as fc
types = {{n: {{"k": "int64", "v": "int64", "x": "float64"}} for n in "AB"}}
schema = fc.Schema(types, time="ts", type="type", time_unit="ns")
from fastcep.kernels import background
background._NICE = 0
engine = fc.Engine(fc.parse({QUERY!r}, schema))
"""


@pytest.mark.thorough
def test_a_warm_start_imports_no_numba_and_exit_is_silent(folder: Path) -> None:
    cold = run(SCRIPT + "print(len(engine.process(" + repr(EVENTS) + ")))", folder)
    assert (cold.returncode, cold.stdout, cold.stderr) == (0, "4\n", ""), "the compiler is left alone at exit"
    waited = run(SCRIPT + f"print(engine.compile({LIMIT_TEXT!r}))", folder)
    assert (waited.returncode, waited.stdout, waited.stderr) == (0, "True\n", "")
    warm = run(
        SCRIPT + "print(engine.metrics()['kernels']['generated'], len(engine.process(" + repr(EVENTS) + ")), "
        "[name for name in sys.modules if name.split('.')[0] == 'numba'])",
        folder,
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (0, "4 4 []\n", "")
