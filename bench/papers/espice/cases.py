"""Building blocks of the eSPICE figures: the queries on their streams, and the options of all runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastcep as fc
from bench.papers.data import history_of
from bench.papers.espice.operator import RATES, EqualCosts
from bench.papers.espice.streams import (
    Q3_SYMBOLS,
    Q4_SYMBOLS,
    REAL_SYMBOLS,
    positions,
    q1,
    q2,
    q3,
    q4,
    quotes,
    real_positions,
    real_q1,
    real_quotes,
)
from bench.papers.figures import Part
from bench.papers.real_streams import POSITIONS, QUOTES
from bench.papers.strategies import ESPICE, ESPICE_LITERAL, HYBRID

__all__ = ["BOUND", "CASES", "EVERY", "QUEUE", "STRATEGIES", "Case", "F", "equal_costs_part", "own_costs_part"]

#: Latency bound, number of events that take as long without shedding, and share of them that may wait.
BOUND, QUEUE, F = "1s", 2_000, 0.8
#: Share of the events at the start in which the queue fills.
SKIP = 0.3
DETECTOR = fc.shedding.QueueLength(f=F, q_max=QUEUE)
#: Operations on partial matches have costs, and decisions take their measured time.
TABLE = fc.CostTable("paper", visited=1.0, created=1.0, decision=fc.CostTable.named("measured").decision)
STRATEGIES = (ESPICE, ESPICE_LITERAL, "bl", HYBRID)
#: Options of the runs with the costs of fastcep.
EVERY: Mapping[str, Any] = {
    "rates": tuple(RATES), "latency_bound": BOUND, "cost_table": TABLE, "detector": DETECTOR, "skip": SKIP,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query on a stream.

    Attributes
    ----------
    name, title
        Key of its parts, and its description in Markdown.
    query
        Function from the size and the selection to the query.
    events, history
        Functions from the number of events to the stream, and to the history.
    sizes
        Numbers of symbols or players in a match (Q1, Q2), or of events in a window (Q3, Q4).
    middle
        Size for runs with one size.
    length
        Number of events of the runs.
    required_path
        Data that does not ship.
    """

    name: str
    title: str
    query: Callable[..., fc.Query]
    events: Callable[[int], pa.Table]
    history: Callable[[int], pa.Table]
    sizes: tuple[int, ...]
    middle: int
    length: int
    required_path: Path | None = None


def _generated(
    name: str, query: Callable[..., fc.Query], generate: Callable[..., Any], sizes: tuple[int, ...], middle: int,
    length: int, **options: Any,
) -> Case:  # fmt: skip
    return Case(
        name, "generated", query, partial(generate, **options), history_of(generate, **options), sizes, middle, length
    )


def _real(
    name: str, query: Callable[..., fc.Query], read: Callable[..., Any], path: Path, sizes: tuple[int, ...],
    middle: int, length: int,
) -> Case:  # fmt: skip
    return Case(
        f"{name}_real", "real", query, read, partial(read, history=True), sizes, middle, length, required_path=path
    )


_ALL = (
    _generated("q1", q1, positions, (2, 3, 4, 5, 6), 4, 130_000),
    _generated("q2", q2, quotes, (10, 20, 40, 80), 20, 110_000),
    _generated("q3", q3, quotes, (300, 600, 1_200, 2_000), 600, 80_000, symbols=Q3_SYMBOLS),
    _generated("q4", q4, quotes, (600, 1_200, 2_000), 600, 120_000, symbols=Q4_SYMBOLS),
    _real("q1", real_q1, real_positions, POSITIONS, (2, 4, 6), 4, 45_000),
    _real("q2", partial(q2, symbols=REAL_SYMBOLS), real_quotes, QUOTES, (10, 20, 40), 20, 30_000),
    _real("q3", partial(q3, symbols=REAL_SYMBOLS), real_quotes, QUOTES, (600, 2_000), 600, 48_000),
    _real("q4", partial(q4, symbols=REAL_SYMBOLS), real_quotes, QUOTES, (1_200, 2_000), 1_200, 120_000),
)
#: Cases by name.
CASES: Mapping[str, Case] = {case.name: case for case in _ALL}


def equal_costs_part(
    case: Case, select: str, rate: str, strategies: tuple[str, ...] = STRATEGIES, **fields: Any
) -> Part:
    """Return a part with a point for each size, on the paper's operator.

    Parameters
    ----------
    case
        Query, stream and history.
    select
        Selection of the query, ``first`` or ``last``.
    rate
        Arrival rate, a key of `RATES`.
    strategies
        Strategies to run.
    **fields
        Fields of the part that differ.
    """

    def run(size: int) -> EqualCosts:
        return EqualCosts(partial(case.query, size, select), case.events, case.history, rate, strategies)

    name = f"{case.name}_{select}_{rate.rstrip('%')}"
    defaults: dict[str, Any] = {
        "name": name, "title": f"{case.title}, `{select}`, {rate.replace('%', ' %')}",
        "query": partial(case.query, case.sizes[0], select), "events": case.events, "size": case.length,
        "options": {"demands": f"{100 * RATES[rate]}%", "cost_table": "paper"}, "history": case.history,
        "points": {f"{size}": {"measure": run(size)} for size in case.sizes}, "required_path": case.required_path,
    }  # fmt: skip
    return Part(**{**defaults, "strategies": strategies, **fields})


def own_costs_part(case: Case, strategies: tuple[str, ...] = STRATEGIES, **fields: Any) -> Part:
    """Return a part at both rates with the costs of fastcep and a queue, at the middle size."""
    defaults: dict[str, Any] = {
        "name": case.name, "title": f"{case.name[:2].upper()}, {case.middle:,}, {case.title}",
        "query": partial(case.query, case.middle, "first"), "events": case.events, "size": case.length,
        "options": EVERY, "history": case.history, "queue": QUEUE, "required_path": case.required_path,
    }  # fmt: skip
    return Part(**{**defaults, "strategies": strategies, **fields})
