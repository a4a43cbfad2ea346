"""Fig. 10: the time that look-ups and decisions take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.papers.data import HISTORY, HISTORY_SEED, SEED
from bench.papers.espice.findings_fig7_10 import overheads
from bench.papers.espice.operator import RATES
from bench.papers.espice.streams import SYMBOLS, q2, quotes
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.results import measured_part
from bench.papers.strategies import ESPICE, strategies
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.evaluation.setting import UNREACHABLE_BOUND
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import QueryView, Shedder
from fastcep.shedding.events import PatternWeightedEvents

__all__ = ["FIG10", "lookup_times"]

#: Windows in seconds and events of the runs, by the number of events in a window; and size of a match.
WINDOWS = {"2000": 240, "4000": 480, "8000": 960, "16000": 1_920}
_EVENTS = {"2000": 100_000, "4000": 60_000, "8000": 40_000, "16000": 24_000}
_N = 20
_REPEATS = 7
#: Probability of dropping an event where eSPICE would drop it: there is a look-up and a draw, but the work stays.
_NEVER = 1e-9


class _Nothing(PatternWeightedEvents):
    """Shedder that never drops anything, and that looks nothing up."""

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return empty drop plans."""
        return [DropPlan() for _ in views]


def without_effect(shedder: Shedder) -> Shedder:
    """Return the shedder, whose decisions and look-ups take their time but drop nothing.

    A drop plan that the shedder repeats is repeated, as the engine does not apply it again.
    """
    decide, last = shedder.decide, DropPlan()
    without = last

    def never(demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        nonlocal last, without
        (plan,) = decide(demand, before, views)
        if plan is not last:
            last = without = plan
            if plan.windows is not None:
                without = replace(plan, windows=np.where(plan.windows > 0, _NEVER, 0.0))
        return [without]

    shedder.decide = never  # type: ignore[method-assign]
    return shedder


def unlimited(seconds: int) -> fc.Query:
    """Return Q2 without a limit of matches, so that a window stays open until its end, as in the paper."""
    return replace(q2(_N, "first", seconds), limit=None)


def lookup_times(target: str, events: int, seeds: int) -> dict[str, Any]:
    """Measure the share of the time that look-ups and decisions take, and return it as the result of a part.

    Parameters
    ----------
    target
        Number of events in a window, a key of `WINDOWS`.
    events
        Number of events.
    seeds
        Number of streams.
    """
    query = unlimited(WINDOWS[target])
    (strategy,) = strategies([ESPICE], {})
    history = quotes(min(events, HISTORY), HISTORY_SEED)
    factory = strategy.fit([query], history, cost_table=fc.CostTable.named("measured"), index="full")
    measured = [_overhead(query, quotes(events, SEED + 100 * seed), factory) for seed in range(seeds)]
    rows = [
        {"shedder": ESPICE, "target": target, "seed": seed, "overhead": round(share, 6), "why": ""}
        for seed, (share, _) in enumerate(measured)
    ]
    return measured_part(rows, events, measured[0][1])


def _overhead(query: fc.Query, table: pa.Table, factory: Callable[[int], Shedder]) -> tuple[float, int]:
    """Return the time for look-ups and decisions as a share of that for matching, and the number of matches."""
    demand = next(iter(RATES.values()))
    ratios, matches = [], 0
    for _ in range(_REPEATS):
        plain, matches = _pass(query, table, _Nothing(), demand)
        ratios.append(_pass(query, table, without_effect(factory(0)), demand)[0] / plain)
    return median(ratios) - 1, matches


def _pass(query: fc.Query, table: pa.Table, shedder: Shedder, demand: float) -> tuple[float, int]:
    """Return the CPU time of a run with a constant demand, and its number of matches."""
    engine = fc.Engine(
        query, clock="wall", store="rows", latency_bound=UNREACHABLE_BOUND, shedder=ConstantDemand(shedder, demand),
        detector=SameDemand(demand),
    )  # fmt: skip
    begin = time.process_time()
    matches = len(engine.process(table).to_arrow())
    return time.process_time() - begin, matches


_PART = Part(
    "overhead",
    "overhead",
    partial(unlimited, 240),
    partial(quotes, symbols=SYMBOLS),
    _EVENTS["2000"],
    (ESPICE,),
    {"demands": f"{100 * RATES['120%']}%"},
    history=partial(quotes, seed=HISTORY_SEED),
    points={target: {"measure": partial(lookup_times, target), "size": _EVENTS[target]} for target in WINDOWS},
)
FIG10 = Figure(
    "espice", "fig10", "Fig. 10: overhead",
    "For Q2, “the overhead increases from less than 1% with the window of size 240 seconds (≈ 2000 events) to ≈ 5% "
    "with the window of size 1960 seconds (≈ 16000 events)”, with 500 symbols.",
    f"Q2 with n = {_N} over generated quotes of {SYMBOLS} symbols, in windows of 240 to 1,920 s, without a limit of "
    "matches, so that a window stays open until its end. A run in which eSPICE decides and looks up every event in "
    "every window, but drops none, is compared with a run without eSPICE: CPU time, the median of seven ratios. The "
    "number of events falls with the window, to 24,000.",
    (_PART,),
    (
        Picture(
            "overhead", "Time for look-ups and decisions, relative to that for matching",
            (Panel("overhead", "target", "overhead", "events in a window", "overhead, share"),), columns=1,
        ),
    ),
    (Table("overhead", "Time for look-ups and decisions, relative to that for matching; columns are windows",
           ("overhead",)),),
    overheads,
    runs_alone=True,
)  # fmt: skip
