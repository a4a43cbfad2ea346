"""Measure the limit queries on two revisions, their passes interleaved, and judge whether the second is slower.

Each revision is built in its own folder, with the interpreter that runs this module. A run consists of three new
processes, two of the first revision and one of the second, with generated kernels. They alternate pass by pass (CPU
time, Arrow in to Arrow out), so that all run at the same clock rate and under the same load. The ratio of a run is that
of the medians of its passes. The result is the median ratio of all runs, because the location of a process in memory
alone changes the time by some per cent. The two processes of the first revision measure this noise (`bench.verdict`).

Without ``--gate``, it writes ``results/versions.json``. With it, it exits with 1 if the second revision is slower by
more than the noise.
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
    """Build and measure both revisions, print the table, then write the results or judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="first revision, such as a commit, or a folder with sources")
    parser.add_argument("after", nargs="?", default="HEAD", help="second revision; '.' for the current sources")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--passes", type=int, default=21, help="passes of each run")
    parser.add_argument("--gate", action="store_true", help="write no results; exit with 1 on a slowdown")
    parser.add_argument(
        "--floor", type=float, default=FLOOR, help="smallest slowdown that fails, as a share of the time"
    )
    options = parser.parse_args()
    rows, verdicts = {}, {}
    with tempfile.TemporaryDirectory() as name:
        before, after = (_build(options.before, Path(name, "before")), _build(options.after, Path(name, "after")))
        for query in QUERIES:
            runs = [_run([before, before, after], query, number, options.passes) for number in range(options.runs)]
            verdict = judge([run[0] / run[2] for run in runs], [run[0] / run[1] for run in runs], options.floor)
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
    if not options.gate:
        commits = {"before": _commit(options.before), "after": _commit(options.after)}
        store("versions", commits | {"runs": options.runs, "passes": options.passes, "queries": rows})
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
        shutil.copytree(revision, folder, symlinks=True, ignore=NOT_COPIED)  # compiled files are copied too
    else:
        folder.mkdir()
        files = subprocess.run(["git", "archive", revision], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", f"-j{os.cpu_count() or 1}"]
    process = subprocess.run(
        build, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{process.stdout[-4000:]}\n{revision} cannot be built; its output is above")
    return folder


def _is_folder(revision: str) -> bool:
    return Path(revision, "setup.py").is_file()  # a branch may have the name of a folder


def _commit(revision: str) -> str:
    if _is_folder(revision):
        return "sources"
    out = subprocess.run(["git", "rev-parse", "--short", revision], capture_output=True, text=True, check=True)
    return out.stdout.strip()


def _run(folders: list[Path], name: str, number: int, passes: int) -> tuple[float, ...]:
    """Return the median pass of each folder, in seconds; the number of the run decides which one starts."""
    first = number % len(folders)
    order = [*range(first, len(folders)), *range(first)]
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(folder, name)) for folder in folders]
        seconds: list[list[float]] = [[] for _ in workers]
        for _ in range(passes):
            for index in order:
                seconds[index].append(_pass(workers[index]))
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
    seconds = worker.stdout.readline()
    if not seconds:
        raise SystemExit("a worker ended early; its error is above")
    return float(seconds)


if __name__ == "__main__":
    main()
