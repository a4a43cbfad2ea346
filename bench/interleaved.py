"""Measure alternatives ("sides") interleaved: they alternate pass by pass in one process, in several processes."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import pyarrow as pa

import fastcep as fc
from bench.c_limit import CLimit
from bench.queries import events

Facts = dict[str, float]
#: Function that runs one pass and returns the seconds of CPU time and facts, such as ``matches``.
Side = Callable[[], tuple[float, Facts]]
Sides = Mapping[str, Side]
#: Result of one process, for each side: the median pass in milliseconds (``ms``) and the facts.
Run = dict[str, Facts]


def engine_side(queries: fc.Query | Sequence[fc.Query], table: pa.Table | None = None) -> Side:
    """Return a side that runs an engine from Arrow to Arrow with generated kernels, by default over DS1.

    Facts are the matches, the system time (``system_ms``, mostly for the memory pages of large outputs, which the C
    program requests only once), and the metrics of `Engine.metrics` about rows and keys.
    """
    assert fc.Engine(queries).compile("5min"), "the generated kernels are not in use"
    return partial(_engine_pass, queries, _ds1() if table is None else table)


def _engine_pass(queries: fc.Query | Sequence[fc.Query], table: pa.Table) -> tuple[float, Facts]:
    engine = fc.Engine(queries)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_stime
    matches = len(engine.process(table).to_arrow())
    seconds, system = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_stime - before
    metrics = engine.metrics()
    names = ("rows_visited", "keys", "stored_rows", "bytes_per_key", "bytes_per_row")
    return seconds, {"matches": matches, "system_ms": round(system * 1e3, 1)} | {
        name: round(metrics[name], 1) for name in names
    }


def limit_side(program: CLimit, query: str, window_us: int) -> Side:
    """Return a side that runs a query in C, from rows in memory to matches in memory."""

    def once() -> tuple[float, Facts]:
        run = program.run(query, window_us=window_us)
        return run.seconds, {"matches": run.matches}

    return once


def runs_of(
    module: str, title: str, cases: Mapping[str, Callable[[], Sides]], passes: int, runs: int = 5
) -> Iterator[tuple[str, list[Run]]]:
    """Measure the cases named on the command line, by default all, and yield the runs of each.

    A case is a set of sides. Each of its ``--runs`` runs is a new process with the option ``--measure CASE``, which
    measures the case, prints the result as JSON and exits.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("cases", nargs="*", choices=[[], *cases], default=[], help="cases to measure; by default all")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--measure", choices=cases, help="measure this case once and print JSON")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(_interleave(cases[options.measure](), passes)))
        raise SystemExit
    for name in options.cases or cases:
        command = [sys.executable, "-m", module, "--measure", name]
        outputs = [subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout for _ in range(options.runs)]
        yield name, [json.loads(output) for output in outputs]


def median_ms(runs: Sequence[Run], side: str) -> float:
    """Return the median time of a side over runs, in milliseconds."""
    return statistics.median(run[side]["ms"] for run in runs)


def median_facts(facts: Sequence[Facts]) -> Facts:
    """Return the median of each fact."""
    return {name: statistics.median_low([pass_facts[name] for pass_facts in facts]) for name in facts[0]}


def _interleave(sides: Sides, passes: int) -> Run:
    results: dict[str, list[tuple[float, Facts]]] = {name: [] for name in sides}
    for _ in range(passes):
        for name, side in sides.items():
            results[name].append(side())
    return {
        name: {"ms": round(statistics.median(seconds for seconds, _ in side_results) * 1e3, 3)}
        | median_facts([facts for _, facts in side_results])
        for name, side_results in results.items()
    }


@lru_cache(1)
def _ds1() -> pa.Table:
    return events()
