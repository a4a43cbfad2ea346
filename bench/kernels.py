"""Measure generated kernels (tier 1) against the interpreter (tier 0), and the cost of compiling and loading them.

Writes ``results/kernels.json``. The predicate runs over the rows of a bucket, in chunks of the engine's size and in C.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fastcep as fc
from bench.queries import QUERIES, SCHEMA, events, store
from fastcep._core.program.evaluate import CHUNK_ROWS, Evaluator
from fastcep.datasets import write_ds1_csv
from fastcep.kernels import Kernels

SIZES = (10, 100, 1_000, 10_000)
#: Three conjuncts over two columns of rows and two values of the event; about one row in five passes.
PREDICATE = "PATTERN SEQ(A a, B b) WHERE a.V < b.V AND a.ID != b.ID AND a.V + a.ID > 40 + b.ID WITHIN 1ms"
#: Four queries whose programs all differ, as in a user's first call.
COLD = "\n".join(
    f"QUERY q{number}\nPATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND {text} AND c.V > b.V WITHIN 1ms"
    for number, text in enumerate(("a.V < b.V", "a.V + b.V < c.V", "a.V * 2 > b.V", "a.V % 3 = b.V % 3"))
)
DOCUMENT = "STREAM TIME 3 UNIT us TYPE 0 NO HEADER\n" + "".join(
    f"EVENT {name} (ID int64 FROM 1, V int64 FROM 2)\n" for name in "ABCD"
)


#: Queries that spend their time in conditions: inequalities over all rows of a bucket.
CONDITION_BOUND = {
    "inequalities": "PATTERN SEQ(A a, B b) WHERE a.V * 3 < b.V AND a.ID + b.ID > 17 AND a.V != b.ID WITHIN 20ms",
    "keyed": "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.V < b.V AND b.V * 2 < c.V AND c.V - a.V > 3 "
    "WITHIN 1ms",
}


class Predicate:
    """A predicate as the matcher runs it, with data."""

    def __init__(self) -> None:
        engine = fc.Engine(fc.parse(PREDICATE, SCHEMA))
        tasks = [task for item in engine._stream.queries for task in item.matcher.tasks if task[1] == "predicate"]
        assert len(tasks) == 1, "one edge has a predicate"
        self.tasks = tasks
        self.address = 0
        self.program: Any = tasks[0][0]
        generator = np.random.default_rng(7)
        bits = np.zeros(max(SIZES), np.int64)
        self.evaluator = Evaluator(self.program, hash)
        self.keep = np.ones(max(SIZES), np.uint8)
        self.inputs: list[Any] = []
        for kind, number in self.program.inputs:
            if kind == "row":
                self.inputs.append((generator.integers(0, 60, max(SIZES)), None, bits, number, 1))
            else:
                self.inputs.append((np.array([30]), None, None, 0, 0))

    def use_kernels(self, kernels: Mapping[Any, int]) -> None:
        """Store the address of the kernel."""
        self.address = kernels[self.tasks[0]]

    def ready(self) -> None:
        """Compile or load the kernel."""
        assert Kernels([self]).wait(120 * 10**9)

    def run(self, tier: int, rows: int, repeat: int) -> int:
        """Run ``repeat`` times over ``rows`` rows and return the number of rows that pass."""
        self.evaluator.use_kernel(self.address if tier else 0)
        return self.evaluator.run_chunks(self.inputs, None, self.keep, None, None, rows, repeat)

    def nanoseconds(self, tier: int, rows: int, passes: int = 15) -> float:
        """Return the time per row, the median of passes of about 20 ms."""
        repeat = max(2, 2_000_000 // rows)
        times = []
        for _ in range(passes):
            start = time.perf_counter_ns()
            self.run(tier, rows, repeat)
            times.append((time.perf_counter_ns() - start) / repeat / rows)
        return statistics.median(times)


def speed() -> dict[str, Any]:
    """Return the nanoseconds per row for each tier and number of rows."""
    predicate = Predicate()
    predicate.ready()
    assert predicate.run(0, 10_000, 2) == predicate.run(1, 10_000, 2) > 0
    rows = {}
    for size in SIZES:
        slow, fast = predicate.nanoseconds(0, size), predicate.nanoseconds(1, size)
        rows[str(size)] = {"tier_0": round(slow, 2), "tier_1": round(fast, 2), "ratio": round(slow / fast, 1)}
        print(f"{size:6} rows: tier 0 {slow:6.2f} ns/row, tier 1 {fast:5.2f} ns/row, ratio {slow / fast:.1f}")
    return rows


def end_to_end() -> dict[str, Any]:
    """Return the CPU seconds of queries over 500,000 events in memory with each tier, medians of interleaved passes."""
    table = events(500_000)
    results = {}
    for name, text in CONDITION_BOUND.items():
        query, seconds = fc.parse(text, SCHEMA), {"0": list[float](), "1": list[float]()}
        counts = set()
        for jit in ["0", "1"] * 7:
            os.environ["FASTCEP_JIT"] = jit
            engine = fc.Engine(query)
            assert engine.compile("60s") == (jit == "1")
            start = time.process_time()
            counts.add(len(engine.process(table)))
            seconds[jit].append(time.process_time() - start)
        assert len(counts) == 1
        slow, fast = (statistics.median(seconds[jit]) for jit in "01")
        figures = {"tier_0": round(slow, 3), "tier_1": round(fast, 3), "ratio": round(slow / fast, 2)}
        results[name] = {"query": text, **figures}
        print(f"{name}: tier 0 {slow:.3f} s, tier 1 {fast:.3f} s, ratio {slow / fast:.2f}")
    return results


def start_up(folder: Path) -> dict[str, Any]:
    """Return the seconds until the kernels of Q1 are in use: compiled (cold), loaded (warm), and disabled (off)."""
    code = f"""
import time, fastcep as fc
from bench.queries import SCHEMA
query = fc.parse({QUERIES["Q1"]!r}, SCHEMA)
start = time.perf_counter()
engine = fc.Engine(query)
made = time.perf_counter() - start
assert engine.compile("120s")
print(made, time.perf_counter() - start, engine.metrics()["kernels"]["total"])
"""
    results: dict[str, Any] = {}
    for name, passes, clear in (("cold", 5, True), ("warm", 9, False), ("off", 9, False)):
        times = []
        for _ in range(passes):
            if clear:
                for path in folder.glob("*.kernel"):
                    path.unlink()
            jit = "0" if name == "off" else "1"
            text = code.replace("assert engine", "engine") if name == "off" else code
            command, environ = [sys.executable, "-c", text], environment(folder, jit)
            out = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.split()
            times.append((float(out[0]), float(out[1])))
            results["kernels"] = int(out[2])
            time.sleep(0.5)  # the compiling process may not have ended yet
        made, ready = (statistics.median(column) for column in zip(*times, strict=True))
        results[name] = {"engine_made": round(made, 4)} | ({} if name == "off" else {"kernels_in_use": round(ready, 4)})
        print(f"{name:5} Engine(...) {made * 1e3:6.1f} ms, kernels in use after {ready * 1e3:7.1f} ms")
    return results


def first_match(folder: Path) -> dict[str, Any]:
    """Return the seconds of ``fastcep run`` on 10,000 events, process start to exit, for each state of the cache."""
    query, csv = folder / "cold.cep", folder / "events.csv"
    query.write_text(DOCUMENT + COLD)
    write_ds1_csv(csv, 10_000, 7)
    command = [sys.executable, "-m", "fastcep", "run", str(query), "--input", str(csv), "--json"]
    results: dict[str, Any] = {}
    for name, passes in (("cold", 7), ("warm", 7), ("off", 7)):
        times = []
        for number in range(passes):
            cache = folder / (f"cold{number}" if name == "cold" else "warm")
            environ = environment(cache, "0" if name == "off" else "1")
            if name == "warm" and number == 0:
                code = "import fastcep as fc, sys; assert fc.Engine(fc.parse_file(sys.argv[1]).queries).compile('120s')"
                subprocess.run([sys.executable, "-c", code, str(query)], env=environ, check=True)
            start = time.perf_counter()
            out = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
            times.append(time.perf_counter() - start)
            assert json.loads(out)["matches"] > 0
            if name == "cold":
                time.sleep(6)  # let the compiling process end, so that the next pass starts on an idle machine
        results[name] = {"median": round(statistics.median(times), 3), "worst": round(max(times), 3)}
        print(f"fastcep run, {name:4} cache: {results[name]['median']:.3f} s, worst {results[name]['worst']:.3f} s")
    return results


def environment(folder: Path, jit: str) -> dict[str, str]:
    """Return the environment variables of a measured process."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "FASTCEP_CACHE_DIR": str(folder), "FASTCEP_JIT": jit, "PYTHONPATH": paths}


def main() -> None:
    """Measure, print and write the results."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ["FASTCEP_CACHE_DIR"], os.environ["FASTCEP_JIT"] = str(folder / "speed"), "1"
        figures = {
            "chunk_rows": CHUNK_ROWS,
            "predicate": PREDICATE,
            "nanoseconds_per_row": speed(),
            "cpu_seconds_of_queries": end_to_end(),
            "seconds_for_q1": start_up(folder / "start"),
            "seconds_of_fastcep_run": first_match(folder),
        }
    store("kernels", figures)


if __name__ == "__main__":
    main()
