"""Hybrid load shedding: drop the classes with the least contribution per consumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.overload.drop_plan import DropPlan, with_fewer_events
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, QueryView, Tree
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.background import Background
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.hybrid.adaptation import AdaptedFlow
from fastcep.shedding.hybrid.drop_order import DropOrder, Selection, Selector, TableSizes
from fastcep.shedding.hybrid.fit import fit_hybrid
from fastcep.shedding.hybrid.limit_choice import LimitChoice, Mode
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.limited_demand import loss_without_drops
from fastcep.shedding.model import ModelSource, model_for, models_of
from fastcep.shedding.options import as_choice, as_probability
from fastcep.stored import COUNT, FLAG, NUMBER, SHARE, anything, by_name, number, record

__all__ = ["Hybrid", "HybridFit", "HybridInput", "HybridState"]

#: Smallest increase of the saved share of the work for which live partial matches are dropped. For smaller increases,
#: only more births are refused.
_WORTH = 0.02

#: Factor on the explored share of the drops after a change of the stream, and the upper limit of the product.
_MORE, _OPEN = 10.0, 0.1

#: Largest share of the remaining work that may go into exploring drops, if these save as much as is demanded and the
#: stream has not just changed.
_EXPLORING = 0.2

#: Smallest share of the events whose children are counted.
_LEAST = 1e-6

#: Largest change of the remaining work for which a drop plan stays in force on the wall clock, as a share of it. A new
#: plan costs time, and so small a difference is soon compensated by the feedback.
_SAME = 0.02

#: Missing share of the saved work for which no events are dropped as a whole.
_ENOUGH = 1e-3

#: Share of the matches from which on no loss is assumed.
_ALL = 1 - 1e-6

Floats = npt.NDArray[np.float64]


class _Situation(NamedTuple):
    """The inputs of a drop plan; ``changed`` and ``reliable`` as in `AdaptedFlow`.

    ``mode``: what holds the bound, see `Mode`.
    """

    selector: Selector
    demand: float
    changed: bool
    reliable: bool
    mode: Mode


@dataclass(slots=True)
class SheddingState:
    """State of shedding for one query, from the first demand on.

    Attributes
    ----------
    began, since
        Number of events passed to the query when shedding began, and when counts were last evaluated.
    demand, saved
        Last demand, and the saved share of the work for which live partial matches were dropped.
    share
        Share of the events whose children are counted.
    largest
        Largest demand since counts were last evaluated, and in the window before.
    thinned
        Whether events are dropped as a whole since the last decision.
    optimal
        Last demand of least loss beside a work limit.
    """

    began: int
    since: int
    demand: float = 0.0
    saved: float = 0.0
    share: float = 1.0
    largest: float = 0.0
    thinned: bool = False
    optimal: float = 0.0


_SHEDDING_STATE = record(
    {"began": COUNT, "since": COUNT, "demand": SHARE, "saved": NUMBER, "share": number(1e-9, 1)},
    {"largest": SHARE, "thinned": FLAG, "optimal": SHARE},
)


class Hybrid(Baseline):
    """Drops events and partial matches by a model that was fitted on history (hybrid, sections IV and V).

    Parameters
    ----------
    model
        Model from `fastcep.fit`, or the folder in which it was saved; a list of these for several queries.
    seed
        Seed of all random decisions.
    adapt
        Whether the model is adapted to the stream while load is shed.
    explore
        Share of the drops that are let through, to adapt the model and to estimate the recall. It is less for large
        demands, and more after a change of the stream.
    cut
        Whether the work for single events is limited to a bound on a percentile of the processing latency, and classes
        are dropped only if that costs fewer matches; see `fastcep.overload.work_limit`. (Not in the paper.) It has no
        effect on other bounds, on queries that end with a negation, and on those with ``LIMIT``, ``SELECT``,
        ``CONSUME``, ``AFTER MATCH`` or another strategy than ``skip_till_any``. None: for ``hybrid``, but not for
        ``hyi`` and ``hys``, which drop nothing but events or partial matches.

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is invalid.
    """

    name = "hybrid"
    drops_matches = True
    events: ClassVar[bool] = True
    rows: ClassVar[bool] = True

    def __init__(
        self,
        model: ModelSource | Sequence[ModelSource],
        seed: int = 0,
        *,
        adapt: bool = True,
        explore: float = 0.02,
        cut: bool | None = None,
    ) -> None:
        super().__init__(seed)
        self.cuts: bool = self.events and self.rows if cut is None else cut
        for option, value in (("adapt", adapt), ("cut", self.cuts)):
            if not isinstance(value, bool):
                raise ValidationError(f"shedder {self.name!r}: {option}={value!r}; expected True or False")
        self._adapt = adapt
        self._explore = as_probability(f"shedder {self.name!r}", "explore", explore) if adapt else 0.0
        self._stored_models = models_of(f"shedder {self.name!r}", model)
        self._models = {item.query.name: HybridModel.of(item) for item in self._stored_models}
        self.slices: int = max(item.flow.slices for item in self._models.values())
        self._states: dict[str, SheddingState] = {}
        self._plans: dict[str, tuple[_Situation, DropPlan]] = {}
        self._flows = {name: AdaptedFlow(item.flow) for name, item in self._models.items()}
        self._selectors = {name: self._new_selector(name) for name in self._models}
        self._learning: dict[str, Background[Selector | None]] = {name: Background() for name in self._models}
        self._choice = LimitChoice()

    @classmethod
    def fit(cls, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[Hybrid]:
        """Fit a model for each query, see `HybridFit`; return a function that creates shedders."""
        return HybridFit(cls.name).fit(queries, history, **options)

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query without a model."""
        model_for(f"shedder {self.name!r}", self._stored_models, query)

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches of its model."""
        return self._models[query.name].classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events of its model."""
        return self._models[query.name].event_classes

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of its model."""
        return self._models[query.name].flow.slices

    def learn(self, views: Sequence[QueryView]) -> None:
        """Adapt the flow of each query to the counters, whenever a slice of the window has passed."""
        for view in views if self._adapt else ():
            name = view.plan.query.name
            if name in self._states:
                self._adapt_flow(name, view, self._states[name])

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return drop plans with the first classes of each query's order, enough to save the share ``demand``."""
        self._choose_limit(demand, views)
        return [self._drop_plan(demand, before, view) for view in views]

    def utility(self, view: QueryView) -> Floats | None:
        """Return the share of the work that is saved before a cell is dropped; None without a drop order."""
        selector = self._selectors.get(view.plan.query.name)
        sizes = TableSizes(view.event_classes, view.classes)
        return selector.utility(sizes) if isinstance(selector, DropOrder) else None

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the history.

        None after a change of the stream, and without ``adapt``, as no change would be noticed.
        """
        adapted = self._flows[query.name]
        is_known = self._adapt and adapted.is_reliable and not adapted.changes
        return self._models[query.name].match_rate if is_known else None

    def stop_shedding(self) -> None:
        """Reset the state; nothing is counted until load is shed again."""
        self._states, self._plans, self._choice = {}, {}, LimitChoice()

    def _choose_limit(self, demand: float, views: Sequence[QueryView]) -> None:
        """Choose between a work limit and drops alone, if this shedder drops for all queries of the engine."""
        if not self._may_choose_limit(views):
            self._choice = LimitChoice()
            return
        names, load = [view.plan.query.name for view in views], views[0].load
        if not all(self._flows[name].is_reliable and not self._models[name].history_is_too_short for name in names):
            self._choice.follow(demand)
            return
        rates = [self._models[name].match_rate for name in names]
        weights = [1.0 if rate is None or None in rates else max(rate.matches / rate.events, 1e-9) for rate in rates]

        def kept(demands: Sequence[float]) -> float:
            each = [self._selectors[name].kept_at(item) for name, item in zip(names, demands, strict=True)]
            return sum(share * weight for share, weight in zip(each, weights, strict=True)) / sum(weights)

        saved = [self._states[name].demand for name in names]
        self._choice.update(
            load.events, max(view.window_size for view in views),
            views[0].found * (1.0 if self._explore > 0 else kept(saved)),  # weights do not show drops for certain
            views[0].unlimited_work, demand if load.limit_suspended else sum(saved) / len(saved),
            lambda item: kept([item] * len(names)),
        )  # fmt: skip

    def _may_choose_limit(self, views: Sequence[QueryView]) -> bool:
        if not views or len(views) < views[0].load.queries:
            return False
        load, suspended = views[0].load, self._choice.mode is Mode.ALONE
        known = all(view.plan.query.name in self._states for view in views)
        return known and (load.limit_suspended if suspended else load.cut)  # otherwise the queries have changed

    def _drop_plan(self, demand: float, before: float, view: QueryView) -> DropPlan:
        name = view.plan.query.name
        state = self._states.setdefault(name, SheddingState(view.received, view.received))
        self._replace_selector(name, self._learning[name].take())
        adapted = self._flows[name]
        selector, changed, reliable = self._selectors[name], adapted.recently_changed, adapted.is_reliable
        sizes = TableSizes(view.event_classes, view.classes)
        current, choice = self._plans.get(name), self._choice
        demand = max(demand, choice.demand)
        if current is not None and view.on_wall_clock and abs(current[0].demand - demand) <= _SAME * (1 - demand):
            demand = current[0].demand
        if state.thinned and self._adapt:
            view.flows()
            state.began = state.since = view.received
            state.largest = 0.0
        limited = view.lost > 0 or demand == 0  # without a demand, only a work limit leads to a decision
        if choice.returned is not None:  # the demand of drops alone is not that beside a limit
            demand = max(demand if choice.returned is Mode.TRIAL else 0.0, state.optimal)
        elif choice.mode is Mode.LIMIT and limited and reliable and not self._models[name].history_is_too_short:
            was_reliable = current is None or current[0].reliable
            loss = loss_without_drops(view.lost, selector.choose(state.demand, sizes, free=was_reliable).saved)
            demand = state.optimal = max(demand, selector.optimal_demand(loss))
        state.largest = max(state.largest, before, demand)
        situation = _Situation(selector, demand, changed, reliable, choice.mode)
        if current is not None and current[0] == situation and current[1].drops is None:
            state.thinned = view.keep < 1 or current[1].events is not None
            return current[1]
        selection = selector.choose(demand, sizes, free=reliable)
        binds, births = self._drop_probabilities(selection, changed, demand)
        drop_plan = DropPlan(
            binds=binds, births=births, steady=True, kept=selection.kept if reliable else None,
            saved=selection.saved if selection.kept >= _ALL else 0.0,
            counts=self._counted_share(name, view) if self._adapt else 0.0,
            error=max(adapted.error, 1 - selection.kept),
            demand_without_limit=choice.demand, work_limit=choice.mode is not Mode.ALONE,
        )  # fmt: skip
        if (keep := self._kept_events(demand, selection, view.plan)) < 1:
            drop_plan = with_fewer_events(drop_plan, keep, view.plan)
        state.share = drop_plan.counts
        self._plans[name] = situation, drop_plan
        if selection.cells.any() and selection.saved > state.saved + _WORTH * (state.saved > 0):
            drop_plan.drops = drop_plan.births
            before = max(before, state.demand)
            kept_before = selector.choose(before, sizes, free=reliable).kept if before > 0 else 1.0
            drop_plan.left = min(1.0, selection.kept / max(kept_before, 1e-9)) if drop_plan.kept is not None else None
            state.saved = selection.saved
        state.demand, state.saved = demand, min(state.saved, selection.saved)
        state.thinned = view.keep < 1 or keep < 1
        return drop_plan

    def _kept_events(self, demand: float, selection: Selection, plan: Plan) -> float:
        """Return the share of the events that is not dropped as a whole.

        Events are dropped as a whole, at random, if withholding and dropping all classes does not save enough: an event
        that is not dropped costs something even if it is tried for no variable.
        """
        if not self.events or demand <= selection.saved + _ENOUGH or not is_monotonic(plan.query):
            return 1.0
        return (1 - demand) / (1 - selection.saved)

    def _adapt_flow(self, name: str, view: QueryView, state: SheddingState) -> None:
        """Adapt the flow to the counters, if a slice of the window has passed.

        The variance of the counts follows from the largest drop probabilities that were in force meanwhile. Counts are
        not used while events are dropped as a whole, and for a window afterwards: children are then counted seldom, and
        a single one can represent more than all others. On the wall clock, a thread does this, and the next decision
        after it uses the result.
        """
        if state.thinned:
            return
        passed = view.received - state.since
        if passed * view.slices < view.window_size or (view.on_wall_clock and not self._learning[name].ready):
            return
        state.since = view.received
        counted, adapted = view.flows(), self._flows[name]
        if state.since - passed < state.began + view.window_size:  # drop probabilities of older rows are unknown
            return
        sizes = TableSizes(view.event_classes, view.classes)
        largest, state.largest = max(state.largest, state.demand), 0.0
        selection = self._selectors[name].choose(largest, sizes, free=adapted.is_reliable)
        probabilities = self._drop_probabilities(selection, adapted.recently_changed, largest)

        def learned() -> Selector | None:
            if adapted.learn(counted, passed, view.window_size, *probabilities, state.share):
                return self._new_selector(name)
            return None

        if view.on_wall_clock:
            self._learning[name].start(learned)
        else:
            self._replace_selector(name, learned())

    def _replace_selector(self, name: str, selector: Selector | None) -> None:
        if selector is not None:
            self._selectors[name] = selector
            if name in self._states:
                self._states[name].saved = 0.0

    def _drop_probabilities(self, selection: Selection, changed: bool, demand: float) -> tuple[Floats, Floats]:
        """Return the drop probabilities of a selection, by variable and event class, and by cell.

        A share of the drops is let through to learn from, and to estimate the recall. It is smaller if nearly all work
        is to be saved, and larger after a change of the stream, because a match whose event and partial match would
        both be dropped is observed only with the square of that share.
        """
        share = min(self._explore, _EXPLORING * (1 - demand) / max(demand, _EXPLORING))
        if changed:
            share = min(_MORE * share, max(_OPEN, share))
        return (1 - share) * selection.binds, (1 - share) * selection.cells

    def _counted_share(self, name: str, view: QueryView) -> float:
        """Return the share of the events whose children are to be counted."""
        return min(1.0, max(_LEAST, view.count_budget / self._flows[name].flow.per_event))

    def _new_selector(self, name: str) -> Selector:
        """Return what chooses drops by the present flow of a query."""
        model, flow = self._models[name], self._flows[name].flow
        steps = model.steps if flow is model.flow else partial(flow.steps, model.costs)
        return DropOrder(steps(self.events, self.rows), flow)

    def metrics(self) -> dict[str, Any]:
        """Return the drift from each model, see `AdaptedFlow`, and whether the work limit is suspended."""
        return {"queries": {
            name: {
                "drift": adapted.drift, "changes": adapted.changes, "not_counted": adapted.lost,
                "work_limit_suspended": self._choice.mode is Mode.ALONE,
            }
            for name, adapted in self._flows.items()
        }}  # fmt: skip

    def has_changed(self) -> bool:
        """Return whether the stream has changed from a model, so that its order was computed again."""
        return any(adapted.changes > 0 for adapted in self._flows.values())

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        models = {item.query.name: item.hash for item in self._stored_models}
        options = {"adapt": self._adapt, "explore": self._explore}
        return super().spec() | {"models": models, **options, "cut": self.cuts}

    def state(self) -> dict[str, Any]:
        """Return the adapted flows and the shedding states as JSON values."""
        self._finish_learning()
        learned = {name: adapted.state() for name, adapted in self._flows.items()} if self._adapt else {}
        return {"courses": {name: asdict(query) for name, query in self._states.items()}, "learned": learned,
                "choice": self._choice.state()}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        learned = dict.fromkeys(self._flows, anything) if self._adapt else {}
        checks = {"courses": by_name(_SHEDDING_STATE), "learned": record(learned)}
        record(checks, {"choice": anything})(dict(state), "control.shedder")
        self._finish_learning()
        self._states = {name: SheddingState(**values) for name, values in state["courses"].items()}
        for name, flow_state in state["learned"].items():
            self._flows[name].restore(flow_state)
        self._plans, self._selectors = {}, {name: self._new_selector(name) for name in self._models}
        self._choice = LimitChoice()
        if "choice" in state:  # older snapshots lack it
            self._choice.restore(state["choice"])

    def _finish_learning(self) -> None:
        """Wait for threads that adapt flows."""
        for name, learning in self._learning.items():
            self._replace_selector(name, learning.take(wait=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._models)}; seed={self.seed})"


@dataclass(frozen=True)
class HybridFit:
    """Strategy to evaluate: hybrid shedding with options.

    Parameters
    ----------
    kind
        ``"hybrid"``, ``"hyi"`` or ``"hys"``.
    name
        Name in the report; None: the kind.
    fitted
        Options of `fit_hybrid`, such as ``{"slices": 2}``.
    options
        Options of the shedder, such as ``{"adapt": False}``.
    """

    kind: str = "hybrid"
    name: str | None = None
    fitted: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_choice("HybridFit", "kind", self.kind, tuple(_KINDS))
        object.__setattr__(self, "name", self.name or self.kind)

    def fit(self, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[Hybrid]:
        """Fit a model for each query; return a function that creates shedders."""
        models = tuple(fit_hybrid(query, history, **{**options, **self.fitted}).stored() for query in queries)
        return partial(_KINDS[self.kind], models, **self.options)


class HybridInput(Hybrid):
    """Drops events only: *HyI*. See `Hybrid`."""

    name = "hyi"
    rows = False


class HybridState(Hybrid):
    """Drops partial matches only: *HyS*. See `Hybrid`."""

    name = "hys"
    events = False
    limits_backlog = False


_KINDS: Mapping[str, type[Hybrid]] = {kind.name: kind for kind in (Hybrid, HybridInput, HybridState)}
