"""Engines with drop plans set by hand, and the random draws of the matcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fastcep as fc
from fastcep.overload.protocols import Tree
from fastcep.overload.query_shedding import QueryShedding
from fastcep.query import ast
from fastcep.shedding import Classes, Detector, DropPlan, QueryView, Shedder
from support.shedding.chaos import Always
from support.state_transfer import quiet

WORD = (1 << 64) - 1
SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64", "x": "float64"} for name in "ABCD"}, time="ts", type="type")

Told = Mapping[str, Classes | Tree]


class Quiet(Shedder):
    """Shedder with classes that drops nothing."""

    name, drops_matches = "quiet", True

    def __init__(self, classes: Told | None = None, event_classes: Told | None = None, slices: int = 1, seed: int = 0):
        self._classes, self._event_classes, self.slices, self.seed = classes or {}, event_classes or {}, slices, seed

    def classes(self, query: ast.Query) -> Told:
        return self._classes

    def event_classes(self, query: ast.Query) -> Told:
        return self._event_classes

    def detector(self, of: str) -> Detector:
        return Always(0.0)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        return [DropPlan() for _ in views]

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "seed": self.seed}


def made(query: fc.Query, shedder: Shedder, **options: Any) -> fc.Engine:
    all_options = {"clock": "virtual", "cost_table": "paper", "latency_bound": "1s"} | options
    return quiet(fc.Engine, query, shedder=shedder, **all_options)


def controlled(engine: fc.Engine) -> QueryShedding:
    (query,) = engine._stream.queries.control.queries
    return query


def mixed(word: int) -> int:
    """Apply the finaliser of SplitMix64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def drawn(seed: int, first: int, last: int) -> float:
    """Return the draw from 0 to 1 for a partial match, by its first and last event."""
    start = mixed(seed + 0x9E3779B97F4A7C15 & WORD)
    return (mixed(mixed((~start & WORD) ^ first) ^ last) >> 32) / 2**32


def stream(events: int, seed: int, gap: int = 10, keys: int = 2, values: int = 3) -> Any:
    """Return events of types A to D with few keys and values, and some equal times."""
    import pyarrow as pa

    random = np.random.default_rng(seed)
    return pa.table({
        "type": random.choice(list("ABCD"), events),
        "ID": random.integers(0, keys, events),
        "V": random.integers(0, values, events),
        "x": random.random(events),
        "ts": np.cumsum(random.integers(0, 2 * gap, events)),
    })  # fmt: skip
