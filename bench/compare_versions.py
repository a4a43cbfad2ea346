"""Measure the limit queries on two revisions, their runs interleaved, and write ``results/versions.json``.

Each revision is built in a folder of its own, with the interpreter that runs this. A run is a new process that makes
five passes with generated kernels, of which the median counts (CPU time, Arrow in to Arrow out).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.queries import QUERIES, store

RUN = """
import statistics, sys, time
import fastcep as fc
from bench.queries import COUNTS, QUERIES, SCHEMA, events, run
name, table = sys.argv[1], events()
query = fc.parse(QUERIES[name], SCHEMA, name=name.lower())
assert fc.Engine(query).compile("5min"), "the generated kernels are not in use"
assert run(query, table) == COUNTS[name]
passes = []
for _ in range(5):
    start = time.process_time()
    run(query, table)
    passes.append(time.process_time() - start)
print(statistics.median(passes))
"""


def main() -> None:
    """Build, run, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="revision to compare with, such as a commit")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--runs", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = [_build(revision, Path(folder, name)) for name, revision in vars(given).items() if name != "runs"]
        rows = {}
        for name in QUERIES:
            pairs = [_pair(sides, name, number % 2 == 1) for number in range(given.runs)]
            before, after = (round(statistics.median(values) * 1e3, 1) for values in zip(*pairs, strict=True))
            ratio = round(statistics.median(old / new for old, new in pairs), 3)
            rows[name] = {"before_ms": before, "after_ms": after, "ratio": ratio}
            print(f"{name:4} before {before:7.1f} ms   after {after:7.1f} ms   speed after / before {ratio:.3f}")
    commits = {name: _commit(revision) for name, revision in vars(given).items() if name != "runs"}
    store("versions", {**commits, "runs": given.runs, "queries": rows})


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


def _pair(sides: list[Path], name: str, reverse: bool) -> tuple[float, ...]:
    """One run of each; they take turns in going first, because the first often meets another clock rate."""
    seconds = {side: _seconds(side, name) for side in (reversed(sides) if reverse else sides)}
    return tuple(seconds[side] for side in sides)


def _seconds(folder: Path, name: str) -> float:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    out = subprocess.run(
        [sys.executable, "-c", RUN, name], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return float(out.stdout)


if __name__ == "__main__":
    main()
