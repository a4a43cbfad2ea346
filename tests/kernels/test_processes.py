"""Many processes that start together with an empty cache: each finds the correct matches and gets its kernels."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import pytest
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep.kernels import background

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64", "x": "float64"} for name in "AB"}, time="ts", type="type",
                   time_unit="ns")  # fmt: skip
DATA = {
    "type": ["A", "B"] * 200,
    "ts": list(range(400)),
    "k": [n % 3 for n in range(400)],
    "v": [(n * 7) % 11 for n in range(400)],
    "x": [(n * 5) % 13 / 2 for n in range(400)],
}
#: Sixteen conditions of different shapes.
CONDITIONS = [
    f"{left} {compare} {right}"
    for left, right in (("a.v + b.v", "9"), ("a.x * 2.0", "b.x"), ("a.v", "b.v - a.k"), ("a.v * b.k", "b.v"))
    for compare in ("<", "<=", "=", "!=")
]


def query(number: int) -> Any:
    text = f"PATTERN SEQ(A a, B b) WHERE a.x != b.x AND {CONDITIONS[number]} WITHIN 30ns"
    return fc.parse(text, SCHEMA, name=f"q{number}")


def worker(numbers: list[int], wait: bool) -> tuple[list[int], list[int], bool, str]:
    """Return the number of matches per query with tier 0 and, after a wait, with generated kernels, and their state."""
    background._NICE = 0  # the worker waits for the compiler
    engine = fc.Engine([query(number) for number in numbers])
    first = engine.process(DATA)
    counts = [len(first.query(f"q{number}")) for number in numbers]
    ready = engine.compile(LIMIT_TEXT) if wait else False
    later = engine.process({**DATA, "ts": [time + 1000 for time in DATA["ts"]]})
    return counts, [len(later.query(f"q{number}")) for number in numbers], ready, str(engine.metrics()["kernels"])


def start_together(method: str, processes: int, queries: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(folder / method))
    numbers = list(range(queries))
    monkeypatch.setenv("FASTCEP_JIT", "0")
    expected, *_ = worker(numbers, False)
    assert min(expected) > 0
    monkeypatch.setenv("FASTCEP_JIT", "1")
    with multiprocessing.get_context(method).Pool(processes) as pool:
        results = pool.starmap(worker, [(numbers, True)] * processes, chunksize=1)
    for before, after, ready, state in results:
        assert before == after == expected
        assert ready, state
    files = list((folder / method).iterdir())
    assert not [path for path in files if path.suffix == ".tmp"]
    kernels = len([path for path in files if path.suffix == ".kernel"])
    monkeypatch.setenv("FASTCEP_JIT", "1")
    warm = fc.Engine([query(number) for number in numbers])
    assert warm.metrics()["kernels"]["pending"] == 0
    assert kernels <= warm.metrics()["kernels"]["total"]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork beside threads, from Python 3.12 on
def test_four_processes_of_four_queries(method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start_together(method, 4, 4, monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_eight_processes_of_sixteen_queries(method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start_together(method, 8, 16, monkeypatch, tmp_path)


@pytest.mark.thorough
def test_a_fork_while_the_parent_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The child does not own the parent's compiler, so it neither waits for it nor warns about it."""
    import subprocess

    code = f"""
import os, sys
sys.path[:0] = {[*map(str, Path(__file__).parents[:2]), str(Path(fc.__file__).parent.parent)]!r}
import test_processes as t, fastcep as fc
t.background._NICE = 0
engine = fc.Engine(t.query(0))
child = os.fork()
ok = engine.compile(t.LIMIT_TEXT)
matches = len(engine.process(t.DATA))
if child == 0:
    sys.stdout.flush()
    os._exit(0 if ok and matches == {{}} else 1)
_, status = os.waitpid(child, 0)
print(ok, matches, os.waitstatus_to_exitcode(status))
"""
    monkeypatch.setenv("FASTCEP_JIT", "0")
    expected = len(fc.Engine(query(0)).process(DATA))
    monkeypatch.setenv("FASTCEP_JIT", "1")
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(tmp_path / "kernels"))
    command = [sys.executable, "-W", "error", "-W", "ignore:This process", "-c", code.replace("{}", str(expected))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"True {expected} 0\n", "")
