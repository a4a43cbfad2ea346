"""Time for counting the children of partial matches, by which pSPICE sees that the stream changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.data import HISTORY, SEED
from bench.papers.figures import Figure, Part, Table
from bench.papers.pspice.cases import CASES, Case
from bench.papers.pspice.findings import counting
from bench.papers.results import measured_part
from bench.papers.strategies import PSPICE
from bench.papers.timing import SAVED, constant_engine, no_garbage_collection
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.episodes import without_warnings
from fastcep.overload.protocols import QueryView
from fastcep.shedding import PSpice

__all__ = ["COUNTING", "counting_times"]

EVENTS = 300_000
#: Number of passes, each with a new pair of engines; an even number, as the one made first takes a little longer.
_PASSES = 40
#: Number of events that one engine takes before the other takes the same ones.
_STRETCH = 2_000
#: Seconds after the first third in which a thread may finish the drop order.
_PAUSE = 0.3
#: Number of events after which models are fitted again: never.
_NEVER = 1_000_000_000
#: Largest relative difference of the numbers of matches of the two engines: they decide at different events.
_SAME = 0.01


class _Timed(PSpice):
    """pSPICE that measures the CPU time and the time of learning in s, and notes whether it counted."""

    learned = learning = 0.0
    counts = False

    def learn(self, views: Sequence[QueryView]) -> None:
        """Learn."""
        cpu, begin = time.thread_time(), time.perf_counter()
        super().learn(views)
        self.learned += time.thread_time() - cpu
        self.learning += time.perf_counter() - begin

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plans."""
        plans = super().decide(demand, before, views)
        self.counts = self.counts or any(plan.counts > 0 for plan in plans)
        return plans


class _Counted(_Timed):
    """pSPICE that counts."""


class _Uncounted(_Timed):
    """pSPICE that counts nothing and so never sees a change."""

    def _counted_share(self, view: QueryView) -> float:
        return 0.0


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
    return measured_part(rows, events, matches)


def _share(query: fc.Query, model: fc.Model, table: pa.Table) -> tuple[float, int]:
    """Return the time for counting as a share of that of the run, and the number of matches that are found.

    The share is that of counting in the matcher, the median over all stretches, and that of reading the counts.
    """
    kernel, reading, matches = [], [], 0
    for number in range(_PASSES):
        kinds = (_Counted, _Uncounted) if number % 2 else (_Uncounted, _Counted)
        seconds, learning, matches = _pass(query, model, table, kinds)
        kernel += [1 - without / counted for counted, without in zip(*seconds.values(), strict=True)]
        reading.append(learning)
    return median(kernel) + median(reading), matches


def _pass(
    query: fc.Query, model: fc.Model, table: pa.Table, kinds: Sequence[type[_Timed]]
) -> tuple[dict[type[_Timed], list[float]], float, int]:
    """Return the CPU times of two engines for stretches of the last two thirds of the events; see `_share`.

    In the first third the drop order is computed, and all children are counted until the time for it is known. Then the
    engines take short stretches of the same events in alternating order, so a change of the processor's speed affects
    both.

    Returns
    -------
    seconds
        Times of the engines that count, and of those that do not, without learning.
    learning
        Share of the time that passes which the engine that counts spends on learning, to which learning is limited.
    matches
        Number of matches of the engine that counts.
    """
    shedders = {kind: kind(model, renew=_NEVER) for kind in kinds}
    engines = {kind: constant_engine(query, shedder) for kind, shedder in shedders.items()}
    seconds: dict[type[_Timed], list[float]] = {_Counted: [], _Uncounted: []}
    first, order = len(table) // 3, list(kinds)
    with without_warnings(), no_garbage_collection():
        matches = {kind: len(engine.process(table.slice(0, first))) for kind, engine in engines.items()}
        time.sleep(_PAUSE)
        before, began = shedders[_Counted].learning, time.perf_counter()
        for start in range(first, len(table), _STRETCH):
            stretch = table.slice(start, _STRETCH)
            order.reverse()
            for kind in order:
                begin = time.thread_time() - shedders[kind].learned
                found = engines[kind].process(stretch)
                seconds[kind].append(time.thread_time() - shedders[kind].learned - begin)
                matches[kind] += len(found)
        learning = (shedders[_Counted].learning - before) / (time.perf_counter() - began)
    if not shedders[_Counted].counts:
        raise ValueError(f"{query.name}: no event of {len(table):,} was counted; expected some; give more events")
    most, least = max(matches.values()), min(matches.values())
    if most - least > _SAME * most:
        raise ValueError(f"{query.name}: found {most:,} and {least:,} matches; expected the same work")
    return seconds, learning, matches[_Counted]


def _part(name: str, sizes: tuple[int, ...], title: str) -> Part:
    case = CASES[name]
    points = {f"{size}": {"measure": partial(counting_times, case, size)} for size in sizes}
    return Part(
        name, title, partial(case.query, sizes[0]), case.events, EVENTS, (PSPICE,),
        {"demands": f"{100 * SAVED:.3g}%"}, history=case.history, points=points,
    )  # fmt: skip


COUNTING = Figure(
    "pspice",
    "counting",
    "Section III-D: counting observations",
    "To build the model again, the operator collects observations while it runs. The paper does not give their cost.",
    f"Q1 in windows of two sizes and Q4, over generated events, on the wall clock, while {SAVED:.0%} of the work is "
    "saved. Two engines take the same events in turn, a few thousand at a time. They decide in the same way, but only "
    "one counts the children of partial matches and compares them with the model. *Overhead*: the share of the CPU "
    "time that counting adds to a stretch, the median over all pairs, plus the share of the time for comparing.",
    (_part("q1", (3_500, 10_000), "Q1, windows of a number of events"), _part("q4", (7,), "Q4, a number of buses")),
    (),
    (
        Table("q1", "Overhead of counting for Q1; columns are windows", ("overhead",)),
        Table("q4", "Overhead of counting for Q4; the column is the number of buses", ("overhead",)),
    ),
    counting,
    runs_alone=True,
)
