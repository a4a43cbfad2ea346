"""Run the benchmarks, each in a process of its own, and print one table of their figures beside limits and goals.

``python -m bench`` runs all, ``python -m bench NAME …`` some, ``python -m bench --show`` none: the table is made from
``results/*.json``, whoever wrote them.
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
    """What was measured, the figure, what it is compared with, their ratio, and whether the goal is met, if any."""

    what: str
    figure: str
    beside: str
    ratio: float | None
    met: bool | None


Results = dict[str, Any]
#: Modules that measure, by the name of the results that they write.
SUITES = {
    "limit": "compare_limit", "operators": "operators", "memory": "memory", "kernels": "kernels",
    "many_queries": "many_queries", "windows": "windows", "io": "io", "sweeps": "sweeps", "send": "send",
    "threads": "threads",
}  # fmt: skip
LIMIT_GOALS = {"Q1": 0.5, "Q1s": 0.6, "QS": 1.0, "QK": 0.5}


def limit(found: Results) -> Iterator[Row]:
    """The limit queries beside hand-written C."""
    for name, row in found["million_events_per_cpu_second"].items():
        goal = LIMIT_GOALS[name]
        beside = f"C {row['limit']} M/s, goal {goal} of it"
        yield Row(f"{name}, in memory", f"{row['fastcep']} M events/s", beside, row["ratio"], row["ratio"] >= goal)


def io(found: Results) -> Iterator[Row]:
    """QS from files; CSV has a goal."""
    for name, row in found["formats"].items():
        speed = row["million_events_per_cpu_second"]
        csv = name == "csv"
        ratio, beside = (round(speed / 4, 2), "goal 4 M/s") if csv else (None, "")
        yield Row(f"QS from {name}", f"{speed} M events/s", beside, ratio, speed >= 4 if csv else None)
    row = found["fastcep_run"]
    seconds = row["cpu_seconds_by_events"]["0"]
    yield Row("fastcep run without an event", f"{seconds} CPU s", "", None, None)


def sweeps(found: Results) -> Iterator[Row]:
    """Growth with the window beside that of C, and what keys and rows take."""
    by_name = found["sweeps"]
    if "window" in by_name:
        ours, c = by_name["window"]["series"]["fastcep"], by_name["window"]["series"]["C"]
        for kind, words in (("growth", ""), ("growth_without_system", ", without the system's part")):
            ratio = round(ours[-1][kind] / c[-1][kind], 2)
            what = f"Q1, time of {ours[-1]['x']:g} ms over {ours[0]['x']:g} ms{words}"
            yield Row(what, f"{ours[-1][kind]} times", f"C {c[-1][kind]} times, goal 2 of it", ratio, ratio <= 2)
    if "keys" in by_name:
        for point in by_name["keys"]["series"]["fastcep"][1::5]:
            for kind, goal in (("key", 128), ("row", 48)):
                size = point[f"bytes_per_{kind}"]
                what = f"bytes a {kind}, {point['x']:,.0f} keys"
                yield Row(what, f"{size} B", f"goal {goal} B", round(size / goal, 2), size <= goal)


def memory(found: Results) -> Iterator[Row]:
    """Growth of the resident set."""
    for name, row in found["queries"].items():
        yield Row(
            f"{name}, memory from 5 M to 20 M events", f"{row['growth']:+.2%}", "goal 2 %", None, row["growth"] < 0.02
        )


def many_queries(found: Results) -> Iterator[Row]:
    """A hundred queries beside one."""
    for name, row in found["filters"].items():
        yield Row(
            f"{found['queries']} queries on {name}",
            f"{row['all_ms']} ms",
            f"one {row['one_ms']} ms",
            row["ratio"],
            None,
        )


def windows(found: Results) -> Iterator[Row]:
    """Overlapping windows beside one at a time."""
    for name, row in found["open"].items():
        what = "sliding window" if name == "sliding" else f"{name} windows open at a time"
        yield Row(what, f"{row['ms']} ms", "one at a time", row["ratio"], None)


def operators(found: Results) -> Iterator[Row]:
    """Throughput by operator."""
    for name, row in found["queries"].items():
        yield Row(f"operator {name}", f"{row['million_events_per_cpu_second']} M events/s", "", None, None)


def kernels(found: Results) -> Iterator[Row]:
    """Generated kernels beside the interpreter, and the first start."""
    row = found["nanoseconds_per_row"]["1000"]
    yield Row(
        "condition, generated", f"{row['tier_1']} ns/row", f"interpreted {row['tier_0']} ns/row", row["ratio"], None
    )
    for name in ("cold", "warm"):
        seconds = found["seconds_for_q1"][name]["kernels_in_use"]
        yield Row(f"Q1's kernels in use, {name} cache", f"{seconds} s", "", None, None)


def send(found: Results) -> Iterator[Row]:
    """One event at a time, and small batches."""
    row = found["send"]["all"]
    for kind, goal in (("median_ns", 600), ("p99_ns", 3000)):
        ratio = round(row[kind] / goal, 2)
        yield Row(f"send, {kind.removesuffix('_ns')}", f"{row[kind]} ns", f"goal {goal} ns", ratio, ratio <= 1)
    ratio = max(row["ratio"] for row in found["batches"] if row["batch"] == 256)
    yield Row("batches of 256 events", f"{ratio:.0%} of the best", "goal 80 %", ratio, ratio >= 0.8)


def threads(found: Results) -> Iterator[Row]:
    """Two threads beside one."""
    for name, row in found["queries"].items():
        ratio = row["faster"]["median"]
        yield Row(f"{name}, two threads", f"{ratio} times faster", "goal 1.7", ratio, ratio >= 1.7)


TABLES: dict[str, Callable[[Results], Iterator[Row]]] = {
    "limit": limit, "io": io, "send": send, "threads": threads, "sweeps": sweeps, "memory": memory,
    "many_queries": many_queries, "windows": windows, "operators": operators, "kernels": kernels,
}  # fmt: skip


def rows() -> Iterator[tuple[str, str, Row]]:
    """All rows there are results for, with the suite and its date and commit."""
    for name, rows_of in TABLES.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            found = json.loads(path.read_text())
            where = found["environment"]
            for row in rows_of(found):
                yield name, f"{where['date']} {where['commit']}", row


def show(console: Console) -> None:
    """Print the table."""
    table = Table(title="Benchmarks: CPU time, ratios to the limit, the goal or the side beside it")
    for column in ("what", "figure", "beside", "ratio", "goal", "measured"):
        table.add_column(column, justify="right" if column in ("figure", "ratio") else "left")
    last = ""
    for suite, measured, row in rows():
        if last and suite != last:
            table.add_section()
        last = suite
        goal = "" if row.met is None else "[green]met[/green]" if row.met else "[red]missed[/red]"
        table.add_row(row.what, row.figure, row.beside, "" if row.ratio is None else f"{row.ratio:g}", goal, measured)
    console.print(table)


def main() -> None:
    """Run what is asked for, print the table."""
    there = [name for name, module in SUITES.items() if importlib.util.find_spec(f"bench.{module}") is not None]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"which; by default all: {', '.join(there)}")
    parser.add_argument("--show", action="store_true", help="only print the table of what was measured before")
    given = parser.parse_args()
    unknown = [name for name in given.suites if name not in there]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; there are {', '.join(there)}")
    for name in [] if given.show else given.suites or there:
        print(f"--- {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"bench.{SUITES[name]}"], check=True)
    show(Console(width=None if sys.stdout.isatty() else 140))


if __name__ == "__main__":
    main()
