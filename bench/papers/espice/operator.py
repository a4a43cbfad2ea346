"""Runs on the operator of the eSPICE paper: an event takes the same time in each of its windows.

So a shedder has to drop a share of the events of the windows, whatever they cost in fastcep. At 120 % of the maximum
rate this share is 1/6, at 140 % it is 2/7: x = δ · p_size / R events of each partition, with δ = R - th. Only events
that a variable can bind count: with others, such as those of symbols that no variable has, the task would be easier,
because a shedder could drop them at no loss of matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.papers.results import condense
from bench.papers.strategies import strategies
from fastcep.evaluation import ShedderFit, evaluate
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Floats, QueryView, Shedder
from fastcep.shedding.counts import position_counts
from fastcep.shedding.drop_probabilities import TypeCounts, drop_weights
from fastcep.shedding.events import PatternWeightedEvents

__all__ = ["RATES", "EqualCosts", "WindowShare", "dropped_share", "keep_shares", "run_with_equal_costs"]

#: Share of the events of the windows to drop, by arrival rate.
RATES = {"120%": 1 / 6, "140%": 2 / 7}
#: A decision costs as much as ten operations, so that few of them repeat the constant drop plan.
_COSTS = fc.CostTable("paper", visited=1.0, created=1.0, decision=10.0)
#: Allowed difference between the share of dropped events and the demanded one.
_TOLERANCE = 0.02


class WindowShare(PatternWeightedEvents):
    """The baseline `bl`, but the demand is the share of the events of the windows to drop, as in the paper.

    Parameters
    ----------
    frequency
        Number of events by type, in the schema's order.
    seed
        Seed of all random decisions.
    """

    def __init__(self, frequency: Floats, seed: int = 0) -> None:
        super().__init__(seed)
        self._frequency = frequency
        self._keep: tuple[float, Floats] | None = None

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan, the same at every decision."""
        if self._keep is None or self._keep[0] != demand:
            utility = TypeCounts(views).repetition * self._frequency
            self._keep = demand, keep_shares(drop_weights(utility, self._frequency), self._frequency, demand)
        return [DropPlan(windows=np.ascontiguousarray(1 - self._keep[1])[:, None]) for _ in views]


def keep_shares(weights: Floats, frequency: Floats, demand: float) -> Floats:
    """Return the probability of keeping an event by type, ``q ** weight``, such that a share of all events is dropped.

    Parameters
    ----------
    weights, frequency
        Weight and number of events of each type.
    demand
        Share of the events to drop.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        kept = float(frequency @ middle**weights) / float(frequency.sum())
        low, high = (middle, high) if kept < 1 - demand else (low, middle)
    keep: Floats = high**weights
    return keep


class _ShareFit(ShedderFit):
    """Counts the events of the windows of the history that can be bound, by type, for `WindowShare`."""

    name = label = "bl"

    def fit(self, queries: Sequence[fc.Query], history: pa.Table, **options: Any) -> Callable[[int], Any]:
        """Return a factory of shedders."""
        (query,) = queries
        counts = position_counts(query, history, bindable=True).group_by("type").aggregate([("events", "sum")])
        found = dict(zip(counts["type"].to_pylist(), counts["events_sum"].to_pylist(), strict=True))
        frequency = np.array([found.get(name, 0) for name in query.schema.type_names], float)
        return lambda seed: WindowShare(frequency, seed)


@dataclass
class _Recorded(ShedderFit):
    """Records the drop plan that each shedder of a strategy decided last."""

    inner: Any
    plans: dict[int, DropPlan] = field(default_factory=dict)

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        """Name of the strategy."""
        return str(self.inner.name)

    def fit(self, queries: Sequence[fc.Query], history: pa.Table, **options: Any) -> Callable[[int], Any]:
        """Return a factory of shedders that record their drop plans."""
        factory = self.inner.fit(queries, history, **options)

        def recorded(seed: int) -> Shedder:
            shedder: Shedder = factory(seed)
            decide = shedder.decide

            def record(demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
                plans = decide(demand, before, views)
                self.plans[seed] = plans[0]
                return plans

            shedder.decide = record  # type: ignore[method-assign]
            return shedder

        return recorded


@dataclass(frozen=True)
class EqualCosts:
    """A run with equal costs: the query, the events, the history, the rate and the strategies.

    Attributes
    ----------
    query
        Function that returns the query.
    events, history
        Functions from the number of events to the stream, and to the history.
    rate
        Arrival rate, a key of `RATES`.
    strategies
        Strategies to run; `bl` is `WindowShare`.
    model
        Options of the fit.
    """

    query: Callable[[], fc.Query]
    events: Callable[[int], pa.Table]
    history: Callable[[int], pa.Table]
    rate: str
    strategies: tuple[str, ...]
    model: tuple[tuple[str, Any], ...] = ()

    def __call__(self, events: int, seeds: int) -> dict[str, Any]:
        """Return the result to store."""
        return run_with_equal_costs(self, events, seeds)


def run_with_equal_costs(run: EqualCosts, events: int, seeds: int) -> dict[str, Any]:
    """Evaluate the strategies of a run, with the share of the events of the windows that each of them dropped.

    A row is invalid if this share is smaller than demanded.
    """
    query, table, demand = run.query(), run.events(events), RATES[run.rate]
    named = [name for name in run.strategies if name != "bl"]
    fits = [*strategies(named, dict(run.model), equal_costs=True), *([_ShareFit()] if "bl" in run.strategies else [])]
    recorded = {fit.name: _Recorded(fit) for fit in fits}
    ordered = [recorded[name] for name in run.strategies if name in recorded]
    report = evaluate(
        query, table, shedders=ordered, seeds=seeds, history=run.history(events), demands=f"{100 * demand}%",
        cost_table=_COSTS,
    )  # fmt: skip
    counts = position_counts(query, table, bindable=True)
    result = condense(report.document, (), "")
    result["setting"]["targets"] = [run.rate]
    for row in result["rows"]:
        plan = recorded[row["shedder"]].plans.get(row["seed"])
        share = None if plan is None or plan.windows is None else dropped_share(query, plan, counts)
        why = "" if share is None or share >= demand - _TOLERANCE else f"dropped {share:.1%} instead of {demand:.1%}"
        row |= {"target": run.rate, "why": why} | ({} if share is None else {"dropped": round(share, 5)})
    return result


def dropped_share(query: fc.Query, plan: DropPlan, counts: pa.Table) -> float:
    """Return the expected share of the events of the windows that a drop plan drops.

    Parameters
    ----------
    query
        Query over explicit windows.
    plan
        Drop plan with probabilities by type and position.
    counts
        Table of `position_counts` with bins of one event.
    """
    assert plan.windows is not None
    number = {name: place for place, name in enumerate(query.schema.type_names)}
    distinct = counts["type"].combine_chunks().dictionary_encode()
    types = np.array([number[name] for name in distinct.dictionary.to_pylist()])[distinct.indices.to_numpy()]
    bins = np.minimum(counts["position"].to_numpy() // plan.bin, plan.windows.shape[1] - 1)
    events = counts["events"].to_numpy()
    return float(events @ plan.windows[types, bins]) / float(events.sum())
