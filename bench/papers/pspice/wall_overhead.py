"""Fig. 9 on the wall clock: the share of the time that decisions take."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.data import HISTORY, HISTORY_SEED, SEED
from bench.papers.figures import Figure, Part, Table
from bench.papers.pspice.findings import overheads_on_the_wall
from bench.papers.pspice.overhead import QUOTED_SYMBOLS
from bench.papers.pspice.streams import q1, quotes
from bench.papers.results import measured_part
from bench.papers.strategies import PSPICE
from bench.papers.timing import constant_engine
from fastcep.overload.episodes import without_warnings
from fastcep.shedding import PSpice

__all__ = ["FIG9_WALL", "decision_times"]

WINDOWS = (3_500, 10_000)
EVENTS = 6_000_000
#: Share of the events at the start, in which the drop order is computed.
_WARM = 0.4


def decision_times(window: int, events: int, seeds: int) -> dict[str, Any]:
    """Measure the share of the busy time that decisions take, and return it as the result of a part.

    Parameters
    ----------
    window
        Number of events in a window of Q1.
    events, seeds
        Numbers of events and of streams.
    """
    query, label = q1(window), f"{window}"
    model = fc.fit(query, quotes(min(events, HISTORY), HISTORY_SEED, QUOTED_SYMBOLS), kind=PSPICE)
    rows, found = [], 0
    for seed in range(seeds):
        share, nanoseconds, found = _run(query, model, quotes(events, SEED + 100 * seed, QUOTED_SYMBOLS))
        rows.append({"shedder": PSPICE, "target": label, "seed": seed, "overhead": round(share, 6),
                     "seconds": round(nanoseconds / 1e9, 9), "why": ""})  # fmt: skip
    return measured_part(rows, events, found, mode="demands")


def _run(query: fc.Query, model: fc.Model, table: pa.Table) -> tuple[float, float, int]:
    """Return the share of the time that decisions take, the time of an event in ns, and the number of matches."""
    engine, first = constant_engine(query, PSpice(model)), int(_WARM * len(table))
    with without_warnings():
        matches = len(engine.process(table.slice(0, first)))
        before, began = engine.metrics()["shedding"]["overhead"], time.perf_counter_ns()
        matches += len(engine.process(table.slice(first)))
        busy = time.perf_counter_ns() - began
    overhead = float(engine.metrics()["shedding"]["overhead"]) - before
    return overhead / busy, busy / (len(table) - first), matches


_PART = Part(
    "wall",
    "decisions",
    partial(q1, WINDOWS[0]),
    partial(quotes, symbols=QUOTED_SYMBOLS),
    EVENTS,
    (PSPICE,),
    {"demands": "16.7%"},
    history=partial(quotes, seed=HISTORY_SEED, symbols=QUOTED_SYMBOLS),
    points={f"{window}": {"measure": partial(decision_times, window)} for window in WINDOWS},
)
FIG9_WALL = Figure(
    "pspice",
    "fig9_wall",
    "Fig. 9 on the wall clock",
    "For Q1 “the overhead of pSPICE is 1% in case the window size is 3.5K”, and 0.7 % at 10K.",
    "Q1 as in Fig. 9, without a queue: the events are there, and 17 % of the work is saved, as at 120 % of the maximum "
    f"rate. *Overhead*: the time for decisions as a share of the time of the run, after the first {_WARM:.0%} of the "
    "events, in which the drop order is computed. A decision measures the load, learns, chooses what to drop, and "
    "visits live partial matches if it drops some; that the matcher looks up what to refuse is not part of it. An "
    "event takes "
    "less than a microsecond here, a thousandth of what it takes in the paper, so a window passes in milliseconds, and "
    "a decision is made after several windows.",
    (_PART,),
    (),
    (
        Table("wall", "Overhead of decisions, and time of an event in s; columns are windows", ("overhead", "seconds")),
    ),
    overheads_on_the_wall,
    runs_alone=True,
)
