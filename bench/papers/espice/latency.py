"""Fig. 7: the event latency stays below its bound, on the virtual and on the wall clock."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa

import fastcep as fc
from bench.papers.data import HISTORY_SEED, SEED
from bench.papers.espice.cases import BOUND, CASES, EVERY, QUEUE, SKIP, F, own_costs_part
from bench.papers.espice.findings_fig7_10 import bound_kept, bound_kept_on_the_wall
from bench.papers.espice.operator_queue import queue_of_operator
from bench.papers.espice.streams import Q3_SYMBOLS, q3, quotes
from bench.papers.figures import Figure, Panel, Part, Picture, Table
from bench.papers.real_streams import repeated
from bench.papers.strategies import ESPICE

__all__ = ["FIG7", "WALL"]

RATES = ("120%", "140%")
_SERIES = tuple((ESPICE, rate) for rate in RATES)
_LATENCY = "event latency, ms (largest)"
_STATEMENT = (
    "For Q1 at 120 and 140 % of the maximum rate, “eSPICE never violated the given latency bound (LB = 1 second) and "
    "it always keeps the event latency around (f ∗ LB) which is 800 milliseconds”; the other queries are similar."
)
#: How the longest queue is found by default.
_OF_BOUND = "`q_max` from the bound"
#: On the wall clock: a window of Q3, the bound, and the numbers of events of the stream, its period and the history.
_WALL_WINDOW, _WALL_BOUND, _WALL_EVENTS, _WALL_PERIOD, _WALL_HISTORY = 2_000, "200ms", 600_000, 200_000, 60_000
#: Number of events if the queue may hold what the bound allows: it fills only after several hundred thousand.
_WALL_LONG = 2_000_000


def _picture(caption: str, parts: tuple[Part, ...], name: str = "latency") -> Picture:
    panels = (Panel(part.name, "series", "latency", f"event ({part.title})", _LATENCY) for part in parts)
    return Picture(name, caption, tuple(panels))


_QUERIES = ("q1", "q2", "q3", "q4")
_FIXED = tuple(own_costs_part(CASES[name], (ESPICE,), series=_SERIES) for name in _QUERIES)
_COMPUTED = tuple(
    replace(
        part, name=f"{part.name}_bound", title=f"{part.title}, {_OF_BOUND}",
        options={**part.options, "detector": fc.shedding.QueueLength(f=F)},
    )
    for part in _FIXED
)  # fmt: skip
_ON_OPERATOR = tuple(
    replace(
        part, name=f"{part.name}_operator", title=f"{part.title}, paper's operator", seeds=1, queue=0,
        measure=partial(queue_of_operator, CASES[part.name], RATES, F),
    )
    for part in _FIXED
)  # fmt: skip
_PARTS = _FIXED + _COMPUTED + _ON_OPERATOR
FIG7 = Figure(
    "espice", "fig7", "Fig. 7: event latency", _STATEMENT,
    "All queries with `first` and one size: in an engine on the virtual clock, with the costs of fastcep; and in a "
    "simulated queue on the paper's operator, which the same detector and control keep short. "
    f"{F * QUEUE:,.0f} events may wait before load is shed. Without shedding they take {F:g} of the bound, as a mean "
    f"over the stream. The longest queue is given as {QUEUE:,} events, or, as by default and always on the paper's "
    "operator, computed from the bound and the recent time of an event, as in the paper (`LB / l(p)`). While load is "
    "shed, more may wait, as what is dropped takes no time. The "
    f"mean latency of all events after the first {SKIP:.0%} includes those that arrive while the stream is below the "
    "throughput; the statement is compared with the mean between decisions that shed load.",
    _PARTS,
    (
        _picture("Largest event latency in each part of the stream", _FIXED + _COMPUTED),
        _picture("Largest event latency in each part of the stream, paper's operator", _ON_OPERATOR, "operator"),
    ),
    tuple(
        Table(part.name,
              f"Late events, mean latency of all events and while load is shed, as shares of the bound: {part.title}",
              ("share_over_bound", "used", "used_while_shedding"))
        for part in _PARTS
    ),
    bound_kept,
)  # fmt: skip


def many_quotes(events: int, seed: int = SEED) -> pa.Table:
    """Repeat generated quotes."""
    return repeated(quotes(min(events, _WALL_PERIOD), seed, Q3_SYMBOLS), events)


def past_quotes(events: int) -> pa.Table:
    """Generate the quotes that the model is fitted on, at most 60,000."""
    return quotes(min(events, _WALL_HISTORY), HISTORY_SEED, Q3_SYMBOLS)


def _wall(name: str, title: str, detector: fc.shedding.QueueLength, events: int) -> Part:
    return replace(
        own_costs_part(CASES["q3"], (ESPICE,), series=_SERIES),
        name=name, title=title, query=partial(q3, _WALL_WINDOW), events=many_quotes, size=events, seeds=1, queue=0,
        history=past_quotes,
        options={"rates": RATES, "latency_bound": _WALL_BOUND, "clock": "wall", "detector": detector, "skip": 0.4,
                 "repeats": 3},
    )  # fmt: skip


_WALL_PARTS = (
    _wall("wall", f"`q_max` = {QUEUE:,}", EVERY["detector"], _WALL_EVENTS),
    _wall("wall_bound", _OF_BOUND, fc.shedding.QueueLength(f=F), _WALL_LONG),
)
WALL = Figure(
    "espice", "wall", "Fig. 7 on the wall clock", _STATEMENT,
    f"Q3 with windows of {_WALL_WINDOW:,} events, about 95 of which are open at a time, over generated quotes that "
    f"arrive in real time. The bound is {_WALL_BOUND.replace('ms', ' ms')} instead of {BOUND.replace('s', ' s')}, "
    f"because events take less time than in the paper; f = {F:g}. The longest queue is either the {QUEUE:,} events of "
    f"the paper, which take some 4 ms here, or computed from the bound and the measured service time, as it is by "
    "default. The first 40 % of the events, in which the queue fills, are not judged for latencies. Each run is "
    "repeated three times; values are medians. These runs need a machine that is otherwise idle: `python -m "
    "bench.papers.espice wall` runs them alone.",
    _WALL_PARTS,
    (_picture("Largest event latency in each part of the stream, wall clock", _WALL_PARTS),),
    tuple(
        Table(part.name, f"Late events, mean latency as a share of the bound, and time for decisions: {part.title}",
              ("share_over_bound", "used", "overhead"))
        for part in _WALL_PARTS
    ),
    bound_kept_on_the_wall,
    runs_alone=True,
)  # fmt: skip
