"""Measure the cost of shedding itself on this machine: rejecting a new partial match, visiting a row, a decision."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep._core.matcher.shedding_controls import Shedding
from fastcep.engine.engine import Engine
from fastcep.events import Schema
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.protocols import Detector, QueryView, Shedder
from fastcep.query import parse

__all__ = ["measure_shedding"]

_SCHEMA = Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCDE"}, time="ts", type="type", time_unit="us")
_PAIRS = "PATTERN SEQ(A a, B b, E c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 4ms"
_NONE = "PATTERN SEQ(A a, B b, E c) WHERE a.ID = b.ID AND a.ID = c.ID AND b.V = 11 WITHIN 4ms"
_ROWS = "PATTERN SEQ(A a, E b) WHERE a.ID = b.ID WITHIN 1h"
_ROUNDS = 5
_ALWAYS = 1 << 32


def measure_shedding(stream: pa.Table, visited: float, created: float) -> dict[str, float]:
    """Measure the nanoseconds of ``refused``, ``purged`` and ``decision``.

    Parameters
    ----------
    stream
        Events of DS1.
    visited, created
        Cost in nanoseconds of visiting a partial match, and of creating one. The measurement gives the cost of
        visiting one and rejecting its child as a share of their sum.
    """
    cases = ((_NONE, 0), (_PAIRS, 0), (_PAIRS, _ALWAYS))
    rounds = [[_time_pairs(stream, *case) for case in cases] for _ in range(_ROUNDS)]
    none, stored, refused = (min(times) for times in zip(*rounds, strict=True))
    share = max(refused - none, 0) / max(stored - none, 1)
    return {
        "refused": round(max(share * (visited + created) - visited, 0.0), 3),
        "purged": round(min(_time_row_visit(stream) for _ in range(_ROUNDS)), 3),
        "decision": round(min(_time_decision(stream) for _ in range(_ROUNDS))),
    }


def _time_pairs(stream: pa.Table, query: str, chance: int) -> int:
    """Return the nanoseconds of a run that rejects new pairs with a probability of chance / 2^32."""
    engine = Engine(parse(query, _SCHEMA), store="rows")
    engine.compile()
    matcher = engine._stream.queries.matchers[0]
    shedding = Shedding(matcher)  # type: ignore[arg-type]  # there are no threads
    states = matcher.plan.states
    shedding.begin([None] * len(states), 0)
    chances = np.zeros((len(states), 1, 1), np.int64)
    chances[1] = chance
    shedding.refuse_births(chances)
    start = perf_counter_ns()
    engine.process(stream)
    return perf_counter_ns() - start


def _time_row_visit(stream: pa.Table) -> float:
    """Return the nanoseconds per row of visiting all rows."""
    engine = Engine(parse(_ROWS, _SCHEMA), store="rows")
    engine.process(stream)
    matcher = engine._stream.queries.matchers[0]
    shedding = Shedding(matcher)  # type: ignore[arg-type]
    shedding.begin([None] * len(matcher.plan.states), 0)
    start = perf_counter_ns()
    rows = int(shedding.count_rows(4).sum())
    return (perf_counter_ns() - start) / rows


def _time_decision(stream: pa.Table) -> float:
    """Return the nanoseconds of a decision, without visiting rows."""
    engine = Engine(parse(_PAIRS, _SCHEMA), latency_bound="1s", shedder=_Half(), detector=_Always())
    engine.compile()
    engine.process(stream)
    shedding = engine.metrics()["shedding"]
    return float(shedding["overhead"] / shedding["decisions"])


class _Always(Detector):
    """Detector with a constant demand."""

    name = "always"

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=0.5, why="calibration")

    def spec(self) -> dict[str, Any]:
        return {}


class _Half(Shedder):
    """Shedder that rejects half of all new partial matches."""

    name, drops_matches = "half", True

    def detector(self, of: str) -> Detector:
        return _Always()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        return [DropPlan(births=np.full((len(view.plan.states), view.classes), 0.5), kept=0.25) for view in views]

    def spec(self) -> dict[str, Any]:
        return {}
