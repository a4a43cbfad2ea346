"""What shedding itself costs on this machine: a birth that is refused, a row that is looked at, a decision."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep._core.matcher.shedding_controls import Shedding
from fastcep.engine.engine import Engine
from fastcep.events import Schema
from fastcep.overload.protocols import Detector, DetectorReading, DropPlan, Load, QueryView, Shedder
from fastcep.query import parse

__all__ = ["relief"]

_SCHEMA = Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCDE"}, time="ts", type="type", time_unit="us")
_PAIRS = "PATTERN SEQ(A a, B b, E c) WHERE a.ID = b.ID AND a.ID = c.ID WITHIN 4ms"
_NONE = "PATTERN SEQ(A a, B b, E c) WHERE a.ID = b.ID AND a.ID = c.ID AND b.V = 11 WITHIN 4ms"
_ROWS = "PATTERN SEQ(A a, E b) WHERE a.ID = b.ID WITHIN 1h"
_TURNS = 5
_ALWAYS = 1 << 32


def relief(stream: pa.Table, visited: float, created: float) -> dict[str, float]:
    """Measure the nanoseconds of ``refused``, ``purged`` and ``decision``.

    Parameters
    ----------
    stream
        DS1.
    visited, created
        Nanoseconds of a partial match that is looked at, and of one that is stored. Which share of both it costs to
        look at one and refuse its child is measured.
    """
    sides = ((_NONE, 0), (_PAIRS, 0), (_PAIRS, _ALWAYS))
    turns = [[_pairs(stream, *side) for side in sides] for _ in range(_TURNS)]
    none, stored, refused = (min(side) for side in zip(*turns, strict=True))
    share = max(refused - none, 0) / max(stored - none, 1)
    return {
        "refused": round(max(share * (visited + created) - visited, 0.0), 3),
        "purged": round(min(_walked(stream) for _ in range(_TURNS)), 3),
        "decision": round(min(_decided(stream) for _ in range(_TURNS))),
    }


def _pairs(stream: pa.Table, query: str, chance: int) -> int:
    """Nanoseconds of a run in which births of pairs are refused with a chance."""
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


def _walked(stream: pa.Table) -> float:
    """Nanoseconds per row of looking at all."""
    engine = Engine(parse(_ROWS, _SCHEMA), store="rows")
    engine.process(stream)
    matcher = engine._stream.queries.matchers[0]
    shedding = Shedding(matcher)  # type: ignore[arg-type]
    shedding.begin([None] * len(matcher.plan.states), 0)
    start = perf_counter_ns()
    rows = int(shedding.count_rows(4).sum())
    return (perf_counter_ns() - start) / rows


def _decided(stream: pa.Table) -> float:
    """Nanoseconds of a decision, but for what it looks at."""
    engine = Engine(parse(_PAIRS, _SCHEMA), latency_bound="1s", shedder=_Half(), detector=_Always())
    engine.compile()
    engine.process(stream)
    told = engine.metrics()["shedding"]
    return float(told["overhead"] / told["decisions"])


class _Always(Detector):
    """A detector that always asks for the same."""

    name = "always"

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=0.5, why="calibration")

    def spec(self) -> dict[str, Any]:
        return {}


class _Half(Shedder):
    """A shedder that refuses half of all births."""

    name, drops_matches = "half", True

    def detector(self, of: str) -> Detector:
        return _Always()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        return [DropPlan(births=np.full((len(view.plan.states), view.classes), 0.5), kept=0.25) for view in views]

    def spec(self) -> dict[str, Any]:
        return {}
