"""Measure the limit queries on two revisions, their passes interleaved, and write ``results/versions.json``.

Each revision is built in a folder of its own, with the interpreter that runs this. A run is two new processes, one per
revision, with generated kernels; they take turns, a pass each (CPU time, Arrow in to Arrow out), so that both meet the
same clock rate and the same neighbours. A run's ratio is that of the medians of their passes; the result is the median
ratio of the runs, because where a process lies in memory alone moves it by some per cent.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.queries import QUERIES, store

PASSES = 21
WORKER = """
import sys, time
import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, run
name, table = sys.argv[1], events()
query = fc.parse(QUERIES[name], SCHEMA, name=name.lower())
assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
assert run(query, table) == COUNTS[name]
for _ in sys.stdin:
    start = time.process_time()
    run(query, table)
    print(time.process_time() - start, flush=True)
"""


def main() -> None:
    """Build, run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="revision to compare with, such as a commit")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--runs", type=int, default=15)
    given = parser.parse_args()
    revisions = {"before": given.before, "after": given.after}
    with tempfile.TemporaryDirectory() as folder:
        sides = [_build(revision, Path(folder, name)) for name, revision in revisions.items()]
        rows = {}
        for name in QUERIES:
            runs = [_run(sides, name, number % 2 == 1) for number in range(given.runs)]
            before, after = (round(statistics.median(values) * 1e3, 1) for values in zip(*runs, strict=True))
            ratios = sorted(round(old / new, 3) for old, new in runs)
            ratio = statistics.median(ratios)
            rows[name] = {"before_ms": before, "after_ms": after, "ratio": ratio, "ratios": ratios}
            print(
                f"{name:4} before {before:7.1f} ms   after {after:7.1f} ms   speed after / before {ratio:.3f} "
                f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
            )
    commits = {name: _commit(revision) for name, revision in revisions.items()}
    store("versions", commits | {"runs": given.runs, "passes": PASSES, "queries": rows})


def _build(revision: str, folder: Path) -> Path:
    """Check out a revision and compile it in place."""
    folder.mkdir()
    files = subprocess.run(["git", "archive", revision], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return folder


def _commit(revision: str) -> str:
    out = subprocess.run(["git", "rev-parse", "--short", revision], capture_output=True, text=True, check=True)
    return out.stdout.strip()


def _run(sides: list[Path], name: str, reverse: bool) -> tuple[float, ...]:
    """The median pass of each side, in seconds; ``reverse`` says who goes first."""
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(side, name)) for side in sides]
        seconds: list[list[float]] = [[] for _ in workers]
        for _ in range(PASSES):
            for number in reversed(range(len(workers))) if reverse else range(len(workers)):
                seconds[number].append(_pass(workers[number]))
    return tuple(map(statistics.median, seconds))


def _worker(folder: Path, name: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", WORKER, name]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _pass(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None and worker.stdout is not None
    print(file=worker.stdin, flush=True)
    told = worker.stdout.readline()
    if not told:
        raise SystemExit("a worker ended early; its error is above")
    return float(told)


if __name__ == "__main__":
    main()
