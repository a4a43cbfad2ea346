"""Fit models on the earlier part of a recorded history, and compare their recall with others on the later part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.engine import Engine
from fastcep.engine.results.match_identity import Identities, count_found, identities_of
from fastcep.errors import FastcepError
from fastcep.events.batch import as_table
from fastcep.overload.protocols import Floats, Shedder
from fastcep.plan import make_plan
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.espice import ESpice
from fastcep.shedding.events import RandomEvents
from fastcep.shedding.fit import fit
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.matches import RandomMatches
from fastcep.shedding.model import Model
from fastcep.shedding.pspice import PSpice
from fastcep.shedding.refit.result import FitJob, FitResult

__all__ = ["has_isolated_windows", "shedder_of", "try_models"]

#: Share of the history that models are fitted on; the rest is held out. Share of the mean latency that is the bound.
_FITTED, _BOUND = 2 / 3, 0.5

#: Largest mean latency, as a share of the bound, with which the bound counts as held. What it is above that counts as
#: much as a share of the recall. The first events, in which a shedder finds its level, are not judged.
_HELD, _START = 1.02, 0.25

#: Kinds of models to fit, and whether their fit depends on a seed.
_KINDS = {"hybrid": True, "pspice": False, "espice": False}

#: Number of matches that the held-out part must have; with fewer, a recall is mostly chance.
_LEAST_MATCHES = 20


def shedder_of(model: Model, seed: int) -> Hybrid | PSpice | ESpice:
    """Return the shedder for a model."""
    if model.kind == ESpice.name:
        return ESpice(model, seed)
    return PSpice(model, seed) if model.kind == PSpice.name else Hybrid(model, seed)


def has_isolated_windows(query: ast.Query) -> bool:
    """Return whether a query isolates its windows without a shedder.

    Only then may `Auto` drop events from single windows. Otherwise it would have to isolate them from the start, which
    costs more where windows overlap, also while nothing is shed.
    """
    windows = make_plan(query).windows
    return windows is not None and windows.isolated


def try_models(job: FitJob) -> dict[str, FitResult]:
    """Fit models for each query, and return the best one, by name of the query, if it is better than what there is."""
    return {query.name: _try_models(query, job) for query in job.queries}


def _try_models(query: ast.Query, job: FitJob) -> FitResult:
    current, seed = job.current.get(query.name), job.seed
    options: dict[str, Any] = {"cost_table": job.costs, "index": job.index}
    table = as_table(job.history, "history")
    end = int(len(table) * _FITTED)
    later = table.slice(end)
    models, errors = _fitted(query, table.slice(0, end), options, seed)
    if not models:
        return FitResult(why="; ".join(errors))
    try:
        truth, mean = _run(query, later, None, None, options)
        if len(truth) < _LEAST_MATCHES:
            few = f"the later part of the history has {len(truth)} matches, fewer than {_LEAST_MATCHES}"
            return FitResult(why=few)
        bound = max(_BOUND * mean, 1.01 * job.costs.event)
        shedders: dict[str, Shedder] = {"baseline": RandomEvents(seed) if is_monotonic(query) else RandomMatches(seed)}
        if current is not None:
            shedders["current"] = shedder_of(current, seed)
        shedders |= {kind: shedder_of(model, seed) for kind, model in models.items()}
        recall, excess = {}, {}
        for name, shedder in shedders.items():
            matches, latency = _run(query, later, shedder, bound, options)
            recall[name] = count_found(matches, truth) / len(truth)
            excess[name] = max(0.0, latency / bound - _HELD)
    except FastcepError as error:
        return FitResult(why=str(error))
    value = {name: recall[name] - excess[name] for name in recall}
    best = max(models, key=lambda kind: value[kind])
    known = max((name for name in value if name not in models), key=lambda name: value[name])
    if value[best] > value[known]:
        return FitResult(models[best], recall)
    missed = f", with a latency {excess[best]:.0%} above the bound" if excess[best] > 0 else ""
    return FitResult(None, recall, f"its held-out recall is {recall[best]:.3f}{missed}, without it {recall[known]:.3f}")


def _fitted(
    query: ast.Query, history: pa.Table, options: Mapping[str, Any], seed: int
) -> tuple[dict[str, Model], list[str]]:
    """Fit a model of each kind that the query allows; return them by kind, and the errors of the others."""
    models, errors = {}, []
    for kind, more in _KINDS.items():
        if kind == ESpice.name and not has_isolated_windows(query):
            continue
        try:
            models[kind] = fit(query, history, kind=kind, **options, **({"seed": seed} if more else {}))
        except FastcepError as error:
            errors.append(str(error))
    return models, errors


def _run(
    query: ast.Query, events: pa.Table, shedder: Shedder | None, bound: float | None, options: Mapping[str, Any]
) -> tuple[Identities, float]:
    """Return the identities of the matches, sorted, and the mean latency of an event after the start, in ns."""
    engine = Engine(query, clock="virtual", store="rows", shedder=shedder, latency_bound=bound, **options)
    latencies: list[Floats] = []
    engine.listen(lambda processing, _: latencies.append(processing.copy()))
    parts = [identities_of(matches.to_arrow(), query) for matches in (engine.process(events), engine.flush())]
    judged = np.concatenate(latencies)[int(_START * len(events)) :]
    return np.sort(np.concatenate(parts)), float(judged.mean())
