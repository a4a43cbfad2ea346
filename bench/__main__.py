"""Run the benchmarks, each in its own process, and print one table of their results, references and goals.

``python -m bench`` runs all, ``python -m bench NAME …`` some of them. ``python -m bench --show`` runs none and only
prints the table of the stored results, ``results/*.json``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.queries import RESULTS


class Row(NamedTuple):
    """A benchmark, its result, the reference that it is compared with, their ratio, and whether a goal is met."""

    benchmark: str
    result: str
    reference: str
    ratio: float | None
    met: bool | None


Results = dict[str, Any]
#: From the name of a file of results to the module that writes it.
SUITES = {
    "limit": "compare_limit", "operators": "operators", "memory": "memory", "kernels": "kernels",
    "many_queries": "many_queries", "windows": "windows", "io": "io", "sweeps": "sweeps", "send": "send",
    "threads": "threads",
}  # fmt: skip
LIMIT_GOALS = {"Q1": 0.9, "Q1s": 1.3, "QS": 2.5, "QK": 1.0}


def limit(results: Results) -> Iterator[Row]:
    """Yield the limit queries against hand-written C."""
    for name, row in results["million_events_per_cpu_second"].items():
        goal = LIMIT_GOALS[name]
        reference = f"C {row['limit']} M/s, goal {goal} of it"
        yield Row(f"{name}, in memory", f"{row['fastcep']} M events/s", reference, row["ratio"], row["ratio"] >= goal)


def io(results: Results) -> Iterator[Row]:
    """Yield QS over files; CSV has a goal."""
    for name, row in results["formats"].items():
        speed = row["million_events_per_cpu_second"]
        csv = name == "csv"
        ratio, reference = (round(speed / 4, 2), "goal 4 M/s") if csv else (None, "")
        yield Row(f"QS from {name}", f"{speed} M events/s", reference, ratio, speed >= 4 if csv else None)
    row = results["fastcep_run"]
    seconds = row["cpu_seconds_by_events"]["0"]
    yield Row("fastcep run without an event", f"{seconds} CPU s", "", None, None)


def sweeps(results: Results) -> Iterator[Row]:
    """Yield the growth of the time with the window, relative to C, and the memory of keys and rows."""
    by_name = results["sweeps"]
    if "window" in by_name:
        ours, c = by_name["window"]["series"]["fastcep"], by_name["window"]["series"]["C"]
        for kind, suffix in (("growth", ""), ("growth_without_system", ", without system time")):
            ratio = round(ours[-1][kind] / c[-1][kind], 2)
            benchmark = f"Q1, time of {ours[-1]['x']:g} ms over {ours[0]['x']:g} ms{suffix}"
            yield Row(benchmark, f"{ours[-1][kind]} times", f"C {c[-1][kind]} times, goal 2 of it", ratio, ratio <= 2)
    if "keys" in by_name:
        for point in by_name["keys"]["series"]["fastcep"][1::5]:
            for kind, goal in (("key", 128), ("row", 48)):
                size = point[f"bytes_per_{kind}"]
                benchmark = f"bytes per {kind}, {point['x']:,.0f} keys"
                yield Row(benchmark, f"{size} B", f"goal {goal} B", round(size / goal, 2), size <= goal)


def memory(results: Results) -> Iterator[Row]:
    """Yield the growth of the resident memory."""
    for name, row in results["queries"].items():
        yield Row(
            f"{name}, memory from 5 M to 20 M events", f"{row['growth']:+.2%}", "goal 2 %", None, row["growth"] < 0.02
        )


def many_queries(results: Results) -> Iterator[Row]:
    """Yield a hundred queries against one."""
    for name, row in results["filters"].items():
        yield Row(
            f"{results['queries']} queries on {name}",
            f"{row['all_ms']} ms",
            f"one {row['one_ms']} ms",
            row["ratio"],
            None,
        )


def windows(results: Results) -> Iterator[Row]:
    """Yield overlapping windows against one window at a time."""
    for name, row in results["open"].items():
        benchmark = "sliding window" if name == "sliding" else f"{name} windows open at a time"
        yield Row(benchmark, f"{row['ms']} ms", "one at a time", row["ratio"], None)


def operators(results: Results) -> Iterator[Row]:
    """Yield the throughput of each operator."""
    for name, row in results["queries"].items():
        yield Row(f"operator {name}", f"{row['million_events_per_cpu_second']} M events/s", "", None, None)


def kernels(results: Results) -> Iterator[Row]:
    """Yield generated kernels against the interpreter, and the time until they are in use."""
    row = results["nanoseconds_per_row"]["1000"]
    yield Row(
        "condition, generated", f"{row['tier_1']} ns/row", f"interpreted {row['tier_0']} ns/row", row["ratio"], None
    )
    for name in ("cold", "warm"):
        seconds = results["seconds_for_q1"][name]["kernels_in_use"]
        yield Row(f"Q1's kernels in use, {name} cache", f"{seconds} s", "", None, None)


def send(results: Results) -> Iterator[Row]:
    """Yield the latency of ``send`` and the throughput of small batches."""
    row = results["send"]["all"]
    for kind, goal in (("median_ns", 600), ("p99_ns", 3000)):
        ratio = round(row[kind] / goal, 2)
        yield Row(f"send, {kind.removesuffix('_ns')}", f"{row[kind]} ns", f"goal {goal} ns", ratio, ratio <= 1)
    ratio = max(row["ratio"] for row in results["batches"] if row["batch"] == 256)
    yield Row("batches of 256 events", f"{ratio:.0%} of the best", "goal 80 %", ratio, ratio >= 0.8)


def threads(results: Results) -> Iterator[Row]:
    """Yield two threads against one."""
    for name, row in results["queries"].items():
        ratio = row["faster"]["median"]
        yield Row(f"{name}, two threads", f"{ratio} times faster", "goal 1.7", ratio, ratio >= 1.7)


TABLES: dict[str, Callable[[Results], Iterator[Row]]] = {
    "limit": limit, "io": io, "send": send, "threads": threads, "sweeps": sweeps, "memory": memory,
    "many_queries": many_queries, "windows": windows, "operators": operators, "kernels": kernels,
}  # fmt: skip


def rows() -> Iterator[tuple[str, str, Row]]:
    """Yield the rows of all stored results, each with its suite and the date and commit of the measurement."""
    for name, rows_of in TABLES.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            results = json.loads(path.read_text())
            environment = results["environment"]
            for row in rows_of(results):
                yield name, f"{environment['date']} {environment['commit']}", row


def show(console: Console) -> None:
    """Print the table."""
    table = Table(title="Benchmarks: CPU time, and ratio of each result to its reference or goal")
    for column in ("benchmark", "result", "reference", "ratio", "goal", "measured"):
        table.add_column(column, justify="right" if column in ("result", "ratio") else "left")
    last = ""
    for suite, measured, row in rows():
        if last and suite != last:
            table.add_section()
        last = suite
        goal = "" if row.met is None else "[green]met[/green]" if row.met else "[red]missed[/red]"
        ratio = "" if row.ratio is None else f"{row.ratio:g}"
        table.add_row(row.benchmark, row.result, row.reference, ratio, goal, measured)
    console.print(table)


def main() -> None:
    """Run the named suites and print the table."""
    available = [name for name, module in SUITES.items() if importlib.util.find_spec(f"bench.{module}") is not None]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"suites to run; by default all: {', '.join(available)}")
    parser.add_argument("--show", action="store_true", help="only print the table of the stored results")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in available]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; the suites are {', '.join(available)}")
    for name in [] if options.show else options.suites or available:
        print(f"--- {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{SUITES[name]}"], check=True)
    show(Console(width=None if sys.stdout.isatty() else 140))


if __name__ == "__main__":
    main()
