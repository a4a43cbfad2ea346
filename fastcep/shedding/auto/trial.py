"""Choose models for queries by what they find in a part of a recorded history that they were not fitted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
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
from fastcep.shedding.auto.by_model import ByModel
from fastcep.shedding.espice import ESpice
from fastcep.shedding.fit import fit
from fastcep.shedding.model import Model
from fastcep.shedding.refit.result import FitJob, FitResult

__all__ = ["has_isolated_windows", "try_models"]

#: Share of the history that models are fitted on for the trial; the rest is held out. Which kind is best depends less
#: on the size of the first part than on chance in the second. Shares of the mean latency that are the bounds of the
#: trial.
_FITTED, _BOUNDS = 1 / 2, (0.8, 0.5, 0.25)

#: Largest mean latency, as a share of the bound, with which the bound counts as held. What it is above that counts as
#: much as a share of the recall. The first events, in which a shedder finds its level, are not judged.
_HELD, _START = 1.02, 0.25

#: Kinds of models to fit, and whether their fit depends on a seed.
_KINDS = {"hybrid": True, "pspice": False, "espice": False}

#: Number of matches that a query must have in the held-out part; with fewer, a recall is mostly chance.
_LEAST_MATCHES = 20

#: Names of what is compared with models of one kind: random shedding, the models in use, and for several queries the
#: kind that is best for each of them alone.
_BASELINE, _CURRENT, _MIXED = "baseline", "current", "mixed"

#: Models by name of the query.
Models = Mapping[str, Model]


def has_isolated_windows(query: ast.Query) -> bool:
    """Return whether a query isolates its windows without a shedder.

    Only then may `Auto` drop events from single windows. Otherwise it would have to isolate them from the start, which
    costs more where windows overlap, also while nothing is shed.
    """
    windows = make_plan(query).windows
    return windows is not None and windows.isolated


@dataclass(frozen=True)
class _Outcome:
    """Held-out recall of models; by how much they exceed a bound, as a share of it; and what both are worth, by which
    models are compared. All of them are for the demand of the job, or means over the bounds.
    """

    recall: float
    excess: float
    value: float


#: Outcome if nothing can be compared.
_NOTHING = _Outcome(0.0, 0.0, 0.0)


def try_models(job: FitJob) -> dict[str, FitResult]:
    """Choose models for the queries, and return them by name of the query, if they are better than what there is.

    1. For each query, a model of each kind is fitted on the first half of the history.
    2. The rest is matched with random shedding, with the models in use, and with the models of each kind, under bounds
       of 80, 50 and 25 % of the mean latency. Decisions are free there: a history is short compared with the stream,
       and expensive decisions would be rare in it. Several queries share an engine and its bound, as they do later; the
       kind that is best for each query alone is tried, too.
    3. Recall is interpolated between the bounds, for the share of the work that the demand leaves; without a known
       demand it is the mean. The kind that is best while little is shed is often not the best while much is. The models
       with the largest recall are fitted again, on the whole history. A latency above a bound counts as much as the
       same share of the recall.
    """
    queries = {query.name: query for query in job.queries}
    table = as_table(job.history, "history")
    end = int(len(table) * _FITTED)
    fitted, why = _fitted(queries, table.slice(0, end), job)
    if not any(fitted.values()):
        return {name: FitResult(why=why[name]) for name in queries}
    try:
        trial = _Trial(list(queries.values()), table.slice(end), job)
        for name, number in trial.matches.items():
            if number < _LEAST_MATCHES:
                why[name] = f"the later part of the history has {number} matches, fewer than {_LEAST_MATCHES}"
                fitted = {kind: {key: models[key] for key in models if key != name} for kind, models in fitted.items()}
        current = {name: model for name, model in job.current.items() if name in queries}
        candidates = {kind: models for kind, models in fitted.items() if models}
        if not candidates:
            return {name: FitResult(why=why[name]) for name in queries}
        if len(queries) > 1:
            mixed = _best_of_each(queries, candidates, current, table.slice(end), job)
            if mixed and mixed not in candidates.values():
                candidates[_MIXED] = mixed
        known: dict[str, Models] = {_BASELINE: {}, **({_CURRENT: current} if current else {})}
        outcomes = {name: trial.run(current | dict(models)) for name, models in candidates.items()}
        before = {name: trial.run(models) for name, models in known.items()}
    except FastcepError as error:
        return {name: FitResult(why=str(error)) for name in queries}
    best = max(outcomes, key=lambda name: outcomes[name].value)
    other = max(before.values(), key=lambda outcome: outcome.value)
    recall = {name: outcome.recall for name, outcome in (before | outcomes).items()}
    if outcomes[best].value <= other.value:
        missed = f", with a latency {outcomes[best].excess:.0%} above the bound" if outcomes[best].excess > 0 else ""
        text = f"its held-out recall is {outcomes[best].recall:.3f}{missed}, without it {other.recall:.3f}"
        tried = {name for models in candidates.values() for name in models}
        is_best = before[_BASELINE].value > max(outcomes[best].value, before.get(_CURRENT, _NOTHING).value)
        random = tried & current.keys() if is_best else set()
        return {
            name: FitResult(None, recall, text if name in tried else why[name], name in random) for name in queries
        }
    chosen = candidates[best]
    return {
        name: FitResult(_fitted_on_all(query, chosen[name], table, job), recall)
        if name in chosen
        else FitResult(None, recall, why.get(name, "what sheds it now is better"))
        for name, query in queries.items()
    }


def _fitted(
    queries: Mapping[str, ast.Query], history: pa.Table, job: FitJob
) -> tuple[dict[str, Models], dict[str, str]]:
    """Fit a model of each kind that a query allows; return them by kind and query, and the errors by query."""
    fitted: dict[str, dict[str, Model]] = {kind: {} for kind in _KINDS}
    errors: dict[str, list[str]] = {}
    for name, query in queries.items():
        for kind in _KINDS:
            if kind == ESpice.name and not has_isolated_windows(query):
                continue
            try:
                fitted[kind][name] = _fit(query, kind, history, job)
            except FastcepError as error:
                errors.setdefault(name, []).append(str(error))
    return dict(fitted), {name: "; ".join(texts) for name, texts in errors.items()}


def _fit(query: ast.Query, kind: str, history: pa.Table, job: FitJob) -> Model:
    seed = {"seed": job.seed} if _KINDS[kind] else {}
    return fit(query, history, kind=kind, cost_table=job.costs, index=job.index, **seed)


def _fitted_on_all(query: ast.Query, model: Model, history: pa.Table, job: FitJob) -> Model:
    """Return a model of the same kind, fitted on the whole history; the given one if that fails."""
    try:
        return _fit(query, model.kind, history, job)
    except FastcepError:
        return model


def _best_of_each(
    queries: Mapping[str, ast.Query], candidates: Mapping[str, Models], current: Models, events: pa.Table, job: FitJob
) -> dict[str, Model]:
    """Return for each query, tried alone, the model of the best kind; none if what sheds it now is better."""
    best: dict[str, Model] = {}
    for name, query in queries.items():
        own = [models[name] for models in candidates.values() if name in models]
        if not own:
            continue
        trial = _Trial([query], events, job)
        value = trial.run({name: current[name]} if name in current else {}).value
        for model in own:
            if (new := trial.run({name: model}).value) > value:
                best[name], value = model, new
    return best


class _Trial:
    """Queries and events that shedders are tried on.

    Attributes
    ----------
    matches
        Number of matches without shedding, by name of the query.
    """

    def __init__(self, queries: Sequence[ast.Query], events: pa.Table, job: FitJob) -> None:
        costs = replace(job.costs, name=f"{job.costs.name}, decisions free", decision=0.0)
        self._queries, self._events, self._seed = queries, events, job.seed
        self._options: dict[str, Any] = {"cost_table": costs, "index": job.index}
        self._truth, mean = _run(queries, events, None, None, self._options)
        bounds = [max(share * mean, 1.01 * costs.event) for share in _BOUNDS]
        self._bounds = [bound for bound in dict.fromkeys(bounds) if bound > 0]  # none if matching costs nothing
        self._allowed = None if job.demand is None else (1 - job.demand) * mean  # latency that the demand allows
        self.matches = {query.name: len(truth) for query, truth in zip(queries, self._truth, strict=True)}

    def run(self, models: Models) -> _Outcome:
        """Shed by these models, and at random for queries without one."""
        if not self._bounds:
            return _NOTHING
        recalls, excesses = [], []
        every = sum(query.weight * len(truth) for query, truth in zip(self._queries, self._truth, strict=True))
        for bound in self._bounds:
            shedder = ByModel("auto", self._seed, models)
            matches, latency = _run(self._queries, self._events, shedder, bound, self._options)
            found = sum(
                query.weight * count_found(own, truth)
                for query, own, truth in zip(self._queries, matches, self._truth, strict=True)
            )
            recalls.append(found / every if every else 0.0)
            excesses.append(max(0.0, latency / bound - _HELD))
        values = [max(0.0, recall - excess) for recall, excess in zip(recalls, excesses, strict=True)]
        return _Outcome(*map(self._for_demand, (recalls, excesses, values)))

    def _for_demand(self, by_bound: Sequence[float]) -> float:
        """Return the value for the demand, from those under each bound; their mean if the demand is unknown."""
        if self._allowed is None:
            return fmean(by_bound)
        return float(np.interp(self._allowed, self._bounds[::-1], by_bound[::-1]))  # the bounds descend


def _run(
    queries: Sequence[ast.Query], events: pa.Table, shedder: Shedder | None, bound: float | None,
    options: Mapping[str, Any],
) -> tuple[list[Identities], float]:  # fmt: skip
    """Return the identities of the matches of each query, sorted, and the mean latency of an event after the start, in
    ns.
    """
    engine = Engine(queries, clock="virtual", store="rows", shedder=shedder, latency_bound=bound, **options)
    latencies: list[Floats] = []
    engine.listen(lambda processing, _: latencies.append(processing.copy()))
    results = [engine.process(events), engine.flush()]
    identities = [
        np.sort(np.concatenate([identities_of(matches.query(query.name).to_arrow(), query) for matches in results]))
        for query in queries
    ]
    judged = np.concatenate(latencies)[int(_START * len(events)) :]
    return identities, float(judged.mean())
