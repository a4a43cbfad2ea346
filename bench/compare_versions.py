"""Measure the limit queries on two revisions, their passes interleaved, and judge whether the second is slower.

Each revision is built in a folder of its own, with the interpreter that runs this. A run is three new processes, two of
the first revision and one of the second, with generated kernels; they take turns, a pass each (CPU time, Arrow in to
Arrow out), so that all meet the same clock rate and the same neighbours. A run's ratio is that of the medians of their
passes; the result is the median ratio of the runs, because where a process lies in memory alone moves it by some per
cent. The two processes of the first revision tell how far that goes: the noise (`bench.verdict`).

Without ``--gate`` it writes ``results/versions.json``; with it, it ends with 1 if the second is slower by more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.queries import QUERIES, store
from bench.verdict import FLOOR, Verdict, judge

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", "dist", ".*_cache", ".hypothesis")
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
    """Build, run, print the table, write the results or judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="revision to compare with, such as a commit, or a folder with sources")
    parser.add_argument("after", nargs="?", default="HEAD", help="another; '.' for the sources as they are here")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--passes", type=int, default=21, help="of each run")
    parser.add_argument("--gate", action="store_true", help="write no results; end with 1 on a slowdown")
    parser.add_argument("--floor", type=float, default=FLOOR, help="the smallest slowdown that fails, as a share")
    given = parser.parse_args()
    rows, verdicts = {}, {}
    with tempfile.TemporaryDirectory() as name:
        before, after = (_build(given.before, Path(name, "before")), _build(given.after, Path(name, "after")))
        for query in QUERIES:
            runs = [_run([before, before, after], query, number, given.passes) for number in range(given.runs)]
            verdict = judge([run[0] / run[2] for run in runs], [run[0] / run[1] for run in runs], given.floor)
            verdicts[query] = verdict
            milliseconds = [round(statistics.median(column) * 1e3, 1) for column in zip(*runs, strict=True)]
            rows[query] = {
                "before_ms": milliseconds[0],
                "after_ms": milliseconds[2],
                "ratio": round(verdict.speed, 3),
                "noise": round(verdict.noise, 3),
                "ratios": sorted(round(run[0] / run[2], 3) for run in runs),
                "ratios_of_twins": sorted(round(run[0] / run[1], 3) for run in runs),
            }
    _print(rows, verdicts)
    if not given.gate:
        commits = {"before": _commit(given.before), "after": _commit(given.after)}
        store("versions", commits | {"runs": given.runs, "passes": given.passes, "queries": rows})
    elif any(verdict.slower for verdict in verdicts.values()):
        raise SystemExit(1)


def _print(rows: dict[str, dict[str, object]], verdicts: dict[str, Verdict]) -> None:
    table = Table(title="CPU time per million events, and speed of the second revision relative to the first")
    for column in ("query", "before", "after", "speed", "noise", "allowed slowdown", "verdict"):
        table.add_column(column, justify="left" if column in ("query", "verdict") else "right")
    for name, verdict in verdicts.items():
        table.add_row(
            name, f"{rows[name]['before_ms']} ms", f"{rows[name]['after_ms']} ms", f"{verdict.speed:.3f}",
            f"{verdict.noise:.1%}", f"{verdict.allowed:.1%}", "[red]slower[/red]" if verdict.slower else "ok",
        )  # fmt: skip
    Console(width=110).print(table)


def _build(revision: str, folder: Path) -> Path:
    """Check out a revision, or copy a folder, and compile it in place."""
    if _is_folder(revision):
        shutil.copytree(revision, folder, symlinks=True, ignore=NOT_COPIED)  # what is built already is kept
    else:
        folder.mkdir()
        files = subprocess.run(["git", "archive", revision], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", f"-j{os.cpu_count() or 1}"]
    done = subprocess.run(build, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout[-4000:]}\n{revision} cannot be built; its output is above")
    return folder


def _is_folder(revision: str) -> bool:
    return Path(revision, "setup.py").is_file()  # a branch may be called like a folder here


def _commit(revision: str) -> str:
    if _is_folder(revision):
        return "sources"
    out = subprocess.run(["git", "rev-parse", "--short", revision], capture_output=True, text=True, check=True)
    return out.stdout.strip()


def _run(folders: list[Path], name: str, number: int, passes: int) -> tuple[float, ...]:
    """The median pass of each side, in seconds; the number of the run says who goes first."""
    first = number % len(folders)
    order = [*range(first, len(folders)), *range(first)]
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(folder, name)) for folder in folders]
        seconds: list[list[float]] = [[] for _ in workers]
        for _ in range(passes):
            for at in order:
                seconds[at].append(_pass(workers[at]))
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
