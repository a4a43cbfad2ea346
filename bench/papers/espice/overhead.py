"""Fig. 10: the time that look-ups and decisions take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import trim_mean

import fastcep as fc
from bench.papers.data import HISTORY, HISTORY_SEED, SEED
from bench.papers.espice.findings_fig7_10 import overheads
from bench.papers.espice.operator import RATES
from bench.papers.espice.streams import SYMBOLS, q2, quotes
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.results import measured_part
from bench.papers.strategies import ESPICE, strategies
from bench.papers.timing import constant_engine, no_garbage_collection
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import QueryView, Shedder
from fastcep.shedding.events import PatternWeightedEvents

__all__ = ["FIG10", "lookup_times"]

#: Windows in seconds and events of the runs, by the number of events in a window; and size of a match.
WINDOWS = {"2000": 240, "4000": 480, "8000": 960, "16000": 1_920}
_EVENTS = {"2000": 100_000, "4000": 60_000, "8000": 40_000, "16000": 24_000}
_N = 20
#: Number of passes over the stream, and of events that each engine takes before the next one takes the same ones.
_PASSES, _STRETCH = 8, 2_000
#: Share of the events at the start that are not measured.
_START = 0.2
#: Probability of dropping an event where eSPICE would drop it: there is a look-up and a draw, but the work stays.
_NEVER = 1e-9
#: Drop plan that drops nothing and looks nothing up, but with which the recall is estimated.
_ESTIMATED = DropPlan(whole_windows=1e-12)


class _Constant(PatternWeightedEvents):
    """Shedder that has the same drop plan at every decision."""

    def __init__(self, plan: DropPlan) -> None:
        super().__init__()
        self._plan = plan

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan."""
        return [self._plan for _ in views]


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
    """Measure the time that look-ups and decisions take, and return it as the result of a part.

    ``overhead`` is that time, and ``estimate`` the time for the estimated recall, both relative to that for matching.

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
    rows, matches = [], 0
    for seed in range(seeds):
        plain, estimated, looked_up, matches = _seconds(query, quotes(events, SEED + 100 * seed), factory)
        overhead, estimate = _added(looked_up, estimated), _added(estimated, plain)
        rows.append({
            "shedder": ESPICE, "target": target, "seed": seed, "overhead": round(overhead, 6),
            "estimate": round(estimate, 6), "why": "",
        })  # fmt: skip
    return measured_part(rows, events, matches)


def _added(seconds: Sequence[float], without: Sequence[float]) -> float:
    """Return by what share stretches take longer, as a mean without the tenths of the largest and smallest shares."""
    return float(trim_mean(np.divide(seconds, without), 0.1)) - 1


def _seconds(
    query: fc.Query, table: pa.Table, factory: Callable[[int], Shedder]
) -> tuple[list[float], list[float], list[float], int]:
    """Return the CPU times of three engines for stretches of the events, and the number of matches.

    They drop nothing; with a shedder that does nothing, while the recall is estimated, and with eSPICE besides. They
    take short stretches of the same events in turn, so a change of the processor's speed affects all.
    """
    seconds: list[list[float]] = [[], [], []]
    first, matches = int(_START * len(table)), 0
    for number in range(_PASSES):
        shedders = (_Constant(DropPlan()), _Constant(_ESTIMATED), without_effect(factory(0)))
        engines = [constant_engine(query, shedder) for shedder in shedders]
        for engine in engines:
            matches = len(engine.process(table.slice(0, first)))
        with no_garbage_collection():
            for start in range(first, len(table) - _STRETCH + 1, _STRETCH):
                stretch = table.slice(start, _STRETCH)
                turn = number + start // _STRETCH
                for place in (turn % 3, (turn + 1) % 3, (turn + 2) % 3):
                    begin = time.process_time()
                    found = engines[place].process(stretch)
                    seconds[place].append(time.process_time() - begin)
                    matches += len(found) if place == 2 else 0
    return seconds[0], seconds[1], seconds[2], matches


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
    "matches, so that a window stays open until its end. Three engines that drop nothing take the same events in turn, "
    f"{_STRETCH:,} at a time: one without eSPICE, one that estimates its recall besides, and one in which eSPICE "
    "decides, too, and looks up every event in every window. *Overhead* is what eSPICE adds to the CPU time, as a mean "
    "over all stretches of several passes without the highest and the lowest tenth. The number of events falls with "
    "the window, to 24,000.",
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
