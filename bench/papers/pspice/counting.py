"""Time for counting the children of partial matches, by which pSPICE sees that the stream changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.data import HISTORY, SEED
from bench.papers.figures import Part
from bench.papers.pspice.cases import CASES, Case
from bench.papers.strategies import PSPICE
from fastcep.evaluation.constant import ConstantDemand, SameDemand
from fastcep.evaluation.setting import UNREACHABLE_BOUND
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import without_warnings
from fastcep.overload.protocols import QueryView
from fastcep.shedding import PSpice

__all__ = ["COUNTING", "counting_times"]

EVENTS = 300_000
#: Share of the work to save, about that of a rate of 120 %.
_DEMAND = 1 - 1 / 1.2
#: Number of pairs of runs, in alternating order.
_PAIRS = 5
#: Seconds after the first third in which a thread may finish the drop order.
_PAUSE = 0.3
#: Number of events after which models are fitted again: never.
_NEVER = 1_000_000_000


class _Counted(PSpice):
    """pSPICE that notes whether it counted."""

    counts = False

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plans."""
        plans = super().decide(demand, before, views)
        self.counts = self.counts or any(plan.counts > 0 for plan in plans)
        return plans


class _Uncounted(PSpice):
    """pSPICE that counts nothing and so never sees a change."""

    def _count(self, view: QueryView) -> None:
        """Read no counts."""

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the same drop plans, without counting."""
        return [replace(plan, counts=0.0) for plan in super().decide(demand, before, views)]


def counting_times(case: Case, size: int, events: int, seeds: int) -> dict[str, Any]:
    """Measure the share of the time that counting takes, and return it as the result of a part.

    Parameters
    ----------
    case, size
        Query, its streams, and its size.
    events, seeds
        Numbers of events and of streams.

    Raises
    ------
    ValueError
        If a run counted nothing.
    """
    query, history = case.query(size), case.history(min(events, HISTORY))
    model = fc.fit(query, history, kind=PSPICE)
    rows, matches = [], 0
    for seed in range(seeds):
        share, matches = _share(query, model, case.events(events, SEED + 100 * seed))  # type: ignore[call-arg]
        rows.append({"shedder": PSPICE, "target": f"{size}", "seed": seed, "overhead": round(share, 6), "why": ""})
    return {
        "events": events,
        "truth": {"matches": matches},
        "rows": rows,
        "series": [],
        "check": "",
        "setting": {
            "mode": "time",
            "targets": [f"{size}"],
            "strategies": [{"name": PSPICE, "label": PSPICE, "reference": False}],
            "seeds": list(range(seeds)),
            "cost_table": "measured",
        },
    }


def _share(query: fc.Query, model: fc.Model, table: pa.Table) -> tuple[float, int]:
    """Return the time for counting as a share of that of the run, and the number of matches that are found."""
    ratios, matches = [], 0
    for pair in range(_PAIRS):
        seconds: dict[type[PSpice], float] = {}
        for kind in (_Counted, _Uncounted) if pair % 2 else (_Uncounted, _Counted):
            seconds[kind], matches = _pass(query, table, kind(model, renew=_NEVER))
        ratios.append(1 - seconds[_Uncounted] / seconds[_Counted])
    return median(ratios), matches


def _pass(query: fc.Query, table: pa.Table, shedder: PSpice) -> tuple[float, int]:
    """Return the CPU time of a run with a constant demand after its first third, and its number of matches.

    In the first third the drop order is computed, and all children are counted until the time for it is known.
    """
    engine = fc.Engine(
        query, clock="wall", store="rows", latency_bound=UNREACHABLE_BOUND, detector=SameDemand(_DEMAND),
        shedder=ConstantDemand(shedder, _DEMAND),
    )  # fmt: skip
    with without_warnings():
        first = len(table) // 3
        matches = len(engine.process(table.slice(0, first)))
        time.sleep(_PAUSE)
        begin = time.process_time()
        matches += len(engine.process(table.slice(first)).to_arrow())
        seconds = time.process_time() - begin
    if isinstance(shedder, _Counted) and not shedder.counts:
        raise ValueError(f"{query.name}: no event of {len(table):,} was counted; expected some; give more events")
    return seconds, matches


def _part(name: str, sizes: tuple[int, ...], title: str) -> Part:
    case = CASES[name]
    points = {f"{size}": {"measure": partial(counting_times, case, size)} for size in sizes}
    return Part(
        f"counting_{name}", title, partial(case.query, sizes[0]), case.events, EVENTS, (PSPICE,),
        {"demands": f"{100 * _DEMAND:.3g}%"}, history=case.history, points=points,
    )  # fmt: skip


COUNTING = (_part("q1", (3_500, 10_000), "counting, Q1"), _part("q4", (7,), "counting, Q4"))
