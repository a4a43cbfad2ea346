"""Sides that are measured against each other: in one process they take turns, and there are several processes."""

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
#: A pass over a side: seconds of CPU time, and facts about it, such as ``matches``.
Side = Callable[[], tuple[float, Facts]]
Sides = Mapping[str, Side]
#: Of one process, per side: the median pass in milliseconds (``ms``), and the facts.
Run = dict[str, Facts]


def engine_side(asked: fc.Query | Sequence[fc.Query], table: pa.Table | None = None) -> Side:
    """Arrow in to Arrow out, with generated kernels, the engine made before; by default over DS1.

    Facts are matches, what the system took of the time (``system_ms``: mostly the pages of large outputs, which the C
    program gets once), and what `Engine.metrics` says about rows and keys.
    """
    assert fc.Engine(asked).compile("5min"), "the generated kernels are not in use"
    return partial(_engine_pass, asked, _ds1() if table is None else table)


def _engine_pass(asked: fc.Query | Sequence[fc.Query], table: pa.Table) -> tuple[float, Facts]:
    engine = fc.Engine(asked)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_stime
    matches = len(engine.process(table).to_arrow())
    seconds, system = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_stime - before
    found = engine.metrics()
    names = ("rows_visited", "keys", "stored_rows", "bytes_per_key", "bytes_per_row")
    return seconds, {"matches": matches, "system_ms": round(system * 1e3, 1)} | {
        name: round(found[name], 1) for name in names
    }


def limit_side(program: CLimit, query: str, window_us: int) -> Side:
    """The same query in C, from rows in memory to matches there."""

    def once() -> tuple[float, Facts]:
        run = program.run(query, window_us=window_us)
        return run.seconds, {"matches": run.matches}

    return once


def runs_of(
    module: str, title: str, cases: Mapping[str, Callable[[], Sides]], passes: int, runs: int = 5
) -> Iterator[tuple[str, list[Run]]]:
    """Measure every case, a set of sides, or those that are named, in ``--runs`` new processes; yield what they found.

    These are told by ``--measure CASE`` to measure it, print the run as JSON and end.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("cases", nargs="*", choices=[[], *cases], default=[], help="which; by default all")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--measure", choices=cases, help="one run of this case, as JSON")
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(_take_turns(cases[given.measure](), passes)))
        raise SystemExit
    for name in given.cases or cases:
        command = [sys.executable, "-m", module, "--measure", name]
        outputs = [subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout for _ in range(given.runs)]
        yield name, [json.loads(output) for output in outputs]


def median_ms(runs: Sequence[Run], side: str) -> float:
    """The median of a side's runs."""
    return statistics.median(run[side]["ms"] for run in runs)


def median_facts(facts: Sequence[Facts]) -> Facts:
    """The median of each fact."""
    return {name: statistics.median_low([each[name] for each in facts]) for name in facts[0]}


def _take_turns(sides: Sides, passes: int) -> Run:
    found: dict[str, list[tuple[float, Facts]]] = {name: [] for name in sides}
    for _ in range(passes):
        for name, side in sides.items():
            found[name].append(side())
    return {
        name: {"ms": round(statistics.median(seconds for seconds, _ in passed) * 1e3, 3)}
        | median_facts([facts for _, facts in passed])
        for name, passed in found.items()
    }


@lru_cache(1)
def _ds1() -> pa.Table:
    return events()
