"""Run a case on the virtual clock: every shedder, for every bound on the mean and on the 95th percentile.

Every run uses one of two cost tables. ``measured`` is the default of `fastcep.evaluate`. A decision costs 30 us there,
as much as hundreds of events. ``free`` is the same table with decisions that cost nothing. With the first, streams can
be played again: one that is over in the time of a few decisions says little about them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import fastcep as fc
from bench.unseen.case import Case
from fastcep.evaluation.judging import targets_of, truth_of
from fastcep.evaluation.measure import Measured, measure
from fastcep.evaluation.options import setting_of
from fastcep.evaluation.outcome import outcome_of
from fastcep.evaluation.rows import MIN_MATCHES
from fastcep.evaluation.setting import Setting
from fastcep.evaluation.strategies import Strategy, strategies_of
from fastcep.evaluation.stream import Stream
from fastcep.evaluation.targets import TargetSpec, parse_targets
from fastcep.evaluation.trial import Trial, Truth
from fastcep.shedding.names import SHEDDERS

__all__ = [
    "BASELINES",
    "BOUNDS",
    "COLUMNS",
    "COSTS",
    "MOST_EVENTS",
    "PLAYED_TIME",
    "STATISTICS",
    "TOLERANCE",
    "UNATTAINABLE",
    "available_shedders",
    "plays_for",
    "run_case",
]

BASELINES = ("ri", "si", "rs", "ss")
BOUNDS = ("80%", "50%", "25%", "10%")
STATISTICS = ("mean", "p95")
_MEASURED = fc.CostTable.named("measured")
COSTS = {"measured": _MEASURED, "free": replace(_MEASURED, name="measured, decisions free", decision=0.0)}
#: Error of a row whose bound cannot be held even if every event is dropped.
UNATTAINABLE = "bound below the cost of an event"
#: Values of a row, in the order in which they are stored. Latencies are shares of the bound.
COLUMNS = (
    "costs", "statistic", "bound", "shedder", "seed", "held", "recall", "precision", "estimated", "low", "high", "over",
    "mean", "p95", "decisions", "overhead", "drift", "changes", "error",
)  # fmt: skip
#: Largest latency, as a share of the bound, with which the bound counts as held.
TOLERANCE = 1.01
_SKIP = 0.05  #: share of the events at the start whose latencies are not judged
#: Streams are played again until an engine without a shedder takes this time (ns), up to this number of events.
PLAYED_TIME, MOST_EVENTS = 100e6, 1_000_000


def available_shedders() -> tuple[str, ...]:
    """Return the names of the shedders to compare that this version of fastcep has, without `auto`.

    `auto` chooses among them; `bench.unseen.kinds` compares it.
    """
    return tuple(name for name in (*BASELINES, "pm-bl", "hybrid", "pspice") if name in SHEDDERS)


def run_case(
    case: Case, seeds: Sequence[int] = (0,), shedders: Iterable[Any] = (), *, costs: Iterable[str] = tuple(COSTS),
    statistics: Iterable[str] = STATISTICS, bounds: Iterable[str] = BOUNDS, duration: float = 0.0,
) -> dict[str, Any]:  # fmt: skip
    """Run all shedders on a case.

    Parameters
    ----------
    case
        Stream and queries. Models are fitted on the first half; the second half is measured.
    seeds
        Seeds of the shedders.
    shedders
        Their names, or objects with a name that learn from the history; by default all available ones.
    costs, statistics, bounds
        Cost tables, statistics and bounds of the cells.
    duration
        With cost tables in which decisions cost something, the stream is played again until an engine without a shedder
        takes this time (ns).

    Returns
    -------
    dict
        Query; number of events and of true matches, mean and p95 (ns) without shedding, of the stream that is played
        once; ``plays``, if decisions cost something; the seconds that fits took; and ``rows``: a dict from `COLUMNS`
        for each run.
    """
    costs = tuple(costs)
    given = tuple(shedders) or available_shedders()
    chosen = [item if isinstance(item, str) else item.name for item in given]
    strategies, errors, seconds = _fitted(case, given, _setting("measured", "mean", seeds))
    once = played = stream, truth = _truth(case)
    rows, numbers = [], {}
    if any(COSTS[table].decision for table in costs):
        numbers["plays"] = plays = plays_for(duration, truth.mean, len(stream))
        played = once if plays == 1 else _truth(replace(case, plays=plays))
    for table, statistic, bound in product(costs, statistics, bounds):
        of_table = played if COSTS[table].decision else once
        trial = _trial(case, *of_table, _setting(table, statistic, seeds), bound)
        for name, seed in product(chosen, seeds):
            labels = {"costs": table, "statistic": statistic, "bound": bound, "shedder": name, "seed": seed}
            values = {"error": errors[name]} if name in errors else _cell(trial, strategies[name], seed)
            rows.append({**dict.fromkeys(COLUMNS), **labels, **values})
    return {
        "query": case.document.partition("QUERY")[2], "notes": list(case.notes), "events": len(stream),
        "matches": len(truth.identities), "mean": truth.mean, "p95": truth.p95, **numbers,
        "fit_seconds": seconds, "rows": rows,
    }  # fmt: skip


def plays_for(duration: float, mean: float, events: int) -> int:
    """Return how often to play a stream of a number of events that take ``mean`` ns each, to last for a time (ns)."""
    return max(1, min(math.ceil(duration / (mean * events)), MOST_EVENTS // events))


def _truth(case: Case) -> tuple[Stream, Truth]:
    stream = Stream.of(case.measured, case.queries[0].schema)
    return stream, truth_of(case.queries, stream, _setting("free", "mean", (0,)))


def _setting(costs: str, statistic: str, seeds: Sequence[int]) -> Setting:
    return setting_of(
        bounds=BOUNDS, rates=None, demands=None, statistic=statistic, latency_bound=None, seeds=seeds, clock="virtual",
        cost_table=COSTS[costs], index="full", detector=None, skip=_SKIP, repeats=None,
    )  # fmt: skip


def _fitted(
    case: Case, shedders: Iterable[Any], setting: Setting
) -> tuple[dict[str, Strategy], dict[str, str], dict[str, float]]:
    """Fit the shedders that need it; return strategies, errors and seconds by name."""
    strategies, errors, seconds, history = {}, {}, {}, case.history
    for shedder in shedders:
        (strategy,) = strategies_of(shedder, setting.seeds, None)
        name = strategy.name
        begin = time.perf_counter()
        try:
            strategies[name] = strategy.fitted(case.queries, history, setting)
        except Exception as error:  # a failed fit is a result
            errors[name] = f"fit: {type(error).__name__}: {error}"
        if strategy.fit is not None:
            seconds[name] = round(time.perf_counter() - begin, 2)
    return strategies, errors, seconds


def _trial(case: Case, stream: Stream, truth: Truth, setting: Setting, bound: str) -> Trial:
    """Return the trial for a bound; without a target if dropping every event would not meet the bound."""
    (goal,) = parse_targets("bounds", bound)
    assert isinstance(goal, TargetSpec)
    try:
        targets, _ = targets_of((goal,), truth, case.queries, stream, setting)
    except fc.ValidationError:
        targets = ()
    return Trial(case.queries, stream, setting, truth, targets, stream.bindable(case.queries))


def _cell(trial: Trial, strategy: Strategy, seed: int) -> dict[str, Any]:
    if not trial.targets:
        return {"error": UNATTAINABLE}
    (target,) = trial.targets
    try:
        engine = trial.setting.shedding(trial.queries, strategy.shedder(seed), target)
        run = measure(engine, trial.queries, trial.stream)
    except Exception as error:  # a failed run is a result
        return {"error": f"run: {type(error).__name__}: {error}"}
    assert target.bound is not None
    return _values(trial, run, target.bound)


def _values(trial: Trial, run: Measured, bound: float) -> dict[str, Any]:
    (target,) = trial.targets
    outcome, metrics, truth = outcome_of(trial, target, run), run.metrics["shedding"], len(trial.truth.identities)
    latency = outcome.latency(trial.setting.statistic) / bound
    low, high = _interval(metrics)
    models = list((metrics["model"] or {}).get("queries", {}).values())
    values = {
        "held": latency <= TOLERANCE, "recall": outcome.right / truth if truth >= MIN_MATCHES else None,
        "precision": outcome.right / outcome.found if outcome.found else None,
        "estimated": outcome.estimated_recall, "low": low, "high": high, "over": outcome.share_over,
        "mean": outcome.mean / bound, "p95": outcome.p95 / bound, "decisions": metrics["decisions"],
        "overhead": outcome.overhead / (outcome.processing + outcome.overhead),
        "drift": max((model["drift"] for model in models if model.get("drift") is not None), default=None),
        "changes": sum(model["changes"] for model in models if "changes" in model) if models else None,
    }  # fmt: skip
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in values.items()}


def _interval(metrics: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the interval of the estimated recall, or (None, None) if this version has none."""
    interval = metrics.get("estimated_recall_interval")
    return (None, None) if interval is None else (float(interval[0]), float(interval[1]))
