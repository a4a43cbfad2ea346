"""Fixtures for tests of evaluations: a small stream of DS1, Q1 over it, and strategies that learn and refer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.evaluation import Outcome, Reference, Report, ShedderFit, Target, Trial
from fastcep.shedding import Classes, FixedClasses, Shedder
from support.shedding.shed_runs import SCHEMA, query

EVENTS = 20_000
PAPER: dict[str, Any] = {"cost_table": "paper", "index": "key"}


@cache
def stream(events: int = EVENTS) -> pa.Table:
    return ds1(events, seed=7)


def evaluated(shedders: Any, events: Any = None, queries: Any = None, **options: Any) -> Report:
    """Evaluate shedders on the small stream, with the paper's cost table."""
    own = query() if queries is None else queries
    return fc.evaluate(own, stream() if events is None else events, shedders=shedders, **PAPER | options)


class Sums(ShedderFit):
    """Learns from Q1 which sums a.V + b.V were in a match, and how often.

    It rejects all other sums, and of these all but the most frequent.
    """

    name = "sums"

    def __init__(self, keep: int = 4) -> None:
        self.keep, self.seen = keep, list[int]()

    def fit(
        self, queries: Sequence[fc.Query], history: pa.Table, *, cost_table: fc.CostTable, index: str
    ) -> Callable[[int], Shedder]:
        self.seen.append(len(history))
        assert (cost_table.name, index) == (PAPER["cost_table"], PAPER["index"])
        table = fc.Engine(queries[0]).process(history).to_arrow()
        values = history["V"].to_numpy()
        sums = values[table["a"].to_numpy()] + values[table["b"].to_numpy()]
        kept = np.argsort(np.bincount(sums, minlength=21))[-self.keep :]
        refuse = [float(total not in kept) for total in range(2, 21)]
        return partial(fixed, refuse)


def fixed(refuse: Sequence[float], seed: int) -> Shedder:
    classes = Classes(("a.V + b.V",), (2,), np.arange(19, dtype=np.uint8))
    return FixedClasses({"b": classes}, {"b": refuse}, seed)


class Everything(Reference):
    """Finds all matches in no time."""

    name, label = "everything", "all that there is"

    def outcome(self, trial: Trial, target: Target, seed: int) -> Outcome:
        matches = len(trial.truth.identities)
        return Outcome(matches, matches, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0, 1, 1, 1)


__all__ = ["EVENTS", "PAPER", "SCHEMA", "Everything", "Sums", "evaluated", "query", "stream"]
