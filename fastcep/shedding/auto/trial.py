"""Fit a model on the earlier part of a recorded history, and compare its recall with others on the later part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fastcep.engine import Engine, Matches
from fastcep.errors import FastcepError
from fastcep.events.batch import as_table
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Shedder
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.events import RandomEvents
from fastcep.shedding.fit import fit
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.matches import RandomMatches
from fastcep.shedding.model import Model

__all__ = ["Trial", "try_models"]

#: Share of the history that models are fitted on; the rest is held out. Share of the mean latency that is the bound.
_FITTED, _BOUND = 2 / 3, 0.5

#: Number of matches that the held-out part must have; with fewer, a recall is mostly chance.
_LEAST_MATCHES = 20


@dataclass(frozen=True)
class Trial:
    """Result for one query.

    Attributes
    ----------
    model
        The new model, if its held-out recall is the best; otherwise None.
    recall
        Held-out recall by shedder: ``baseline``, ``model`` and, if one is in use, ``current``.
    why
        The reason why there is no model, or empty.
    """

    model: Model | None = None
    recall: Mapping[str, float] = field(default_factory=dict)
    why: str = ""


def try_models(
    queries: Sequence[ast.Query], history: pa.Table, current: Mapping[str, Model], costs: CostTable, index: str,
    seed: int,
) -> dict[str, Trial]:  # fmt: skip
    """Fit a model for each query, and return it by the name of the query if it is better than what there is.

    Parameters
    ----------
    queries
        The queries.
    history
        Events in order.
    current
        Models in use, by name of the query.
    costs, index
        Cost table and index option of the engine.
    seed
        Seed of all random decisions.
    """
    options = {"cost_table": costs, "index": index}
    return {query.name: _try_model(query, history, current.get(query.name), options, seed) for query in queries}


def _try_model(
    query: ast.Query, history: pa.Table, current: Model | None, options: Mapping[str, Any], seed: int
) -> Trial:
    table = as_table(history, "history")
    end = int(len(table) * _FITTED)
    later = table.slice(end)
    try:
        model = fit(query, table.slice(0, end), seed=seed, **options)
        truth, mean = _run(query, later, None, None, options)
        if truth.total() < _LEAST_MATCHES:
            return Trial(why=f"the later part of the history has {truth.total()} matches, fewer than {_LEAST_MATCHES}")
        bound = max(_BOUND * mean, 1.01 * options["cost_table"].event)
        baseline = RandomEvents if is_monotonic(query) else RandomMatches
        shedders: dict[str, Shedder] = {"baseline": baseline(seed), "model": Hybrid(model, seed)}
        if current is not None:
            shedders["current"] = Hybrid(current, seed)
        recall = {}
        for name, shedder in shedders.items():
            matches, _ = _run(query, later, shedder, bound, options)
            recall[name] = (matches & truth).total() / truth.total()
    except FastcepError as error:
        return Trial(why=str(error))
    best = max(value for name, value in recall.items() if name != "model")
    if recall["model"] <= best:
        return Trial(recall=recall, why=f"its held-out recall is {recall['model']:.3f}, without it {best:.3f}")
    return Trial(model, recall)


def _run(
    query: ast.Query, events: pa.Table, shedder: Shedder | None, bound: float | None, options: Mapping[str, Any]
) -> tuple[Counter[Any], float]:
    """Return the matches, and the mean latency of an event in ns."""
    engine = Engine(query, clock="virtual", store="rows", shedder=shedder, latency_bound=bound, **options)
    matches = engine.process(events)
    found = _counted(query, matches) + _counted(query, engine.flush())
    return found, engine.metrics()["shedding"]["processing_latency"]["mean"]


def _counted(query: ast.Query, matches: Matches) -> Counter[Any]:
    """Count the matches; all matches of a monotonic query are true, so their number is enough."""
    if is_monotonic(query):
        return Counter({"match": len(matches)}) if len(matches) else Counter()
    return Counter(map(repr, matches.to_arrow().to_pylist()))
