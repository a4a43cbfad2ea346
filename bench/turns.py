"""Sides that are measured against each other: in one process they take turns, and there are several processes."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import fastcep as fc
from bench.queries import events

#: Of one process, per side: the median pass in milliseconds (``ms``), ``matches`` and ``rows_visited``.
Run = dict[str, dict[str, float]]
Sides = Mapping[str, fc.Query | Sequence[fc.Query]]


def runs_of(
    module: str, title: str, cases: Mapping[str, Callable[[], Sides]], passes: int
) -> Iterator[tuple[str, list[Run]]]:
    """Measure every case, a set of sides, in ``--runs`` new processes, and yield what they found.

    These are told by ``--measure CASE`` to measure it, print the run as JSON and end.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", choices=cases, help="one run of this case, as JSON")
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(_take_turns(cases[given.measure](), passes)))
        raise SystemExit
    for name in cases:
        command = [sys.executable, "-m", module, "--measure", name]
        outputs = [subprocess.run(command, capture_output=True, check=True).stdout for _ in range(given.runs)]
        yield name, [json.loads(output) for output in outputs]


def median_ms(runs: Sequence[Run], side: str) -> float:
    """The median of a side's runs."""
    return statistics.median(run[side]["ms"] for run in runs)


def _take_turns(sides: Sides, passes: int) -> Run:
    """CPU time, Arrow in to Arrow out, with generated kernels and the engine made before."""
    table = events()
    for asked in sides.values():
        assert fc.Engine(asked).compile("5min"), "the generated kernels are not in use"
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    facts: Run = {}
    for _ in range(passes):
        for name, asked in sides.items():
            engine = fc.Engine(asked)
            start = time.process_time()
            matches = len(engine.process(table).to_arrow())
            seconds[name].append(time.process_time() - start)
            facts[name] = {"matches": matches, "rows_visited": engine.metrics()["rows_visited"]}
    return {name: {"ms": round(statistics.median(values) * 1e3, 1)} | facts[name] for name, values in seconds.items()}
