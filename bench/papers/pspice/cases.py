"""Building blocks of the pSPICE figures: the queries on their streams, and the options of all runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.data import history_of
from bench.papers.figures import Part
from bench.papers.pspice.streams import (
    BUS_REPORTS,
    buses,
    positions,
    q1,
    q2,
    q3,
    q4,
    quotes,
    real_buses,
)
from bench.papers.real_streams import POSITIONS, QUOTES, real_positions, real_quotes
from bench.papers.strategies import HYBRID, PSPICE, PSPICE_PROBABILITY

__all__ = ["BOUND", "CASES", "EVERY", "PREDICTION", "QUEUE", "STRATEGIES", "Case", "part_of"]

EVENTS = 60_000
#: Latency bound, and number of events that take as long without shedding.
BOUND, QUEUE = "1s", 2_000
#: Share of the events at the start in which the queue fills.
SKIP = 0.3
#: Detectors of the runs. `prediction` is the paper's Algorithm 1, with a part of the bound for what it cannot predict.
PREDICTION = fc.shedding.PredictedLatency(buffer="80ms")
DETECTOR = fc.shedding.QueueLength(f=0.6, q_max=QUEUE)
#: Operations on partial matches have costs, and decisions take their measured time.
TABLE = fc.CostTable("paper", visited=1.0, created=1.0, decision=fc.CostTable.named("measured").decision)
STRATEGIES = (PSPICE, PSPICE_PROBABILITY, "pm-bl", "e-bl", HYBRID)
#: Options of all runs; some runs have other rates or another detector.
EVERY: Mapping[str, Any] = {
    "rates": "120%", "latency_bound": BOUND, "cost_table": TABLE, "detector": DETECTOR, "skip": SKIP,
}  # fmt: skip

#: Function that returns the query or queries of a part.
QueryOf = Callable[[], fc.Query | tuple[fc.Query, ...]]


@dataclass(frozen=True)
class Case:
    """A query on a stream.

    Attributes
    ----------
    name, title
        Key of its parts, and its description in Markdown.
    query
        Function from the size to the query.
    events, history
        Functions from the number of events to the stream, and to the history.
    sizes
        Sizes with different match probabilities: numbers of events in a window (Q1, Q2), or of players or buses.
    middle
        Size for runs with different rates.
    length
        Number of events of the runs.
    required_path
        Data that does not ship.
    """

    name: str
    title: str
    query: Callable[[int], fc.Query]
    events: Callable[[int], pa.Table]
    history: Callable[[int], pa.Table]
    sizes: tuple[int, ...]
    middle: int
    length: int = EVENTS
    required_path: Path | None = None

    @property
    def middle_query(self) -> Callable[[], fc.Query]:
        """Function that returns the query of the middle size."""
        return partial(self.query, self.middle)

    @property
    def counts_windows(self) -> bool:
        """True if the size is the number of events in a window."""
        return self.name.startswith(("q1", "q2"))


def _generated(
    name: str, query: Callable[[int], fc.Query], generate: Callable[..., Any], sizes: tuple[int, ...], middle: int,
    length: int = EVENTS,
) -> Case:  # fmt: skip
    return Case(name, "generated", query, generate, history_of(generate), sizes, middle, length)


def _real(
    name: str, query: Callable[[int], fc.Query], read: Callable[..., Any], path: Path, sizes: tuple[int, ...],
    middle: int,
) -> Case:  # fmt: skip
    return Case(f"{name}_real", "real", query, read, partial(read, history=True), sizes, middle, required_path=path)


_ALL = (
    _generated("q1", q1, quotes, (100, 150, 350, 600, 1_000, 2_500), 250),
    _generated("q2", q2, quotes, (350, 600, 800, 1_400, 2_000, 4_000), 800),
    _generated("q3", q3, positions, (5, 4, 3, 2), 4, 200_000),
    _generated("q4", q4, buses, (12, 10, 8, 7, 4, 3), 7),
    _real("q1", q1, real_quotes, QUOTES, (150, 350, 500, 700, 1_000, 3_000), 350),
    _real("q2", q2, real_quotes, QUOTES, (600, 700, 1_000, 1_400, 2_000, 4_000), 1_000),
    _real("q3", q3, real_positions, POSITIONS, (6, 5, 4, 3, 2), 5),
    _real("q4", q4, real_buses, BUS_REPORTS, (3, 2), 2),
)
#: Cases by name.
CASES: Mapping[str, Case] = {case.name: case for case in _ALL}


def part_of(case: Case, query: QueryOf, strategies: tuple[str, ...] = STRATEGIES, **fields: Any) -> Part:
    """Return a part over a case, by default at 120 % of the maximum rate.

    Parameters
    ----------
    case
        Stream and history.
    query
        Function that returns the query.
    strategies
        Strategies to run.
    **fields
        Fields of the part that differ.
    """
    defaults: dict[str, Any] = {
        "name": case.name, "title": case.title, "query": query, "events": case.events, "size": case.length,
        "options": EVERY, "history": case.history, "queue": QUEUE, "required_path": case.required_path,
    }  # fmt: skip
    return Part(**{**defaults, "strategies": strategies, **fields})
