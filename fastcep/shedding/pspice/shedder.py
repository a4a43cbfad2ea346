"""pSPICE: drop the partial matches that are least likely to complete per unit of remaining time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Floats, QueryView
from fastcep.overload.validation import MOST_SLICES
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.shedding.background import Background
from fastcep.shedding.counts.chain_states import ChainStates, classes_by_number
from fastcep.shedding.limited_demand import demand_of_least_loss, loss_without_drops
from fastcep.shedding.model import Model, ModelSource, model_for, models_of
from fastcep.shedding.options import as_count, as_probability
from fastcep.shedding.pspice.children import events_to_record
from fastcep.shedding.pspice.drift import Drift
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.refit.shedder import FIT_STATE, RefittingShedder
from fastcep.shedding.refit.stored import check_model, dump_model, load_stored_model
from fastcep.shedding.state_paths import state_paths
from fastcep.shedding.utility import lowest
from fastcep.stored import COUNT, FLAG, SHARE, anything, by_name, number, record, sequence

__all__ = ["PSpice", "PSpiceProbability"]

#: Name and weight of each query, and whether the matcher has a partial match once for all its windows.
Key = tuple[tuple[str, float, bool], ...]

#: By what factor the size of a window may differ from that of the drop order before the order is computed again.
_SAME_WINDOW = 1.1

#: Least further share of the work to save for which live partial matches are dropped, which visits all of them.
_WORTH = 0.02

#: Drift above which the stream has changed.
_MUCH_DRIFT = 0.25

#: Share of the budget for counting that is used, and least share of the events whose children are counted. There are
#: few pairs of states, so a small part leaves a thousand children at each reading of the counts; and the budget is too
#: large where other processes take most of the processor's time.
_OF_BUDGET, _LEAST_COUNTED = 0.02, 1e-6

_STATE = record({
    **FIT_STATE, "demand": SHARE, "saved": SHARE, "windows": by_name(number(1.0)), "models": by_name(check_model),
    "counted": by_name(sequence(COUNT, FLAG)), "drifts": by_name(anything),
})  # fmt: skip


class PSpice(RefittingShedder):
    """Drops the partial matches of the lowest utility, of all queries by one order: *pspice*.

    The utility of a partial match is the weight of its query times its completion probability, divided by the expected
    time that is still spent on it (pSPICE, section III-C); see `scaled_utilities`. It depends on the state of the
    partial match and on the slice of its window that has passed, from which the number of remaining events follows.

    The paper drops partial matches at each decision (its Algorithm 2). Here a demand selects a threshold of the
    utility, and the matcher itself looks it up: a partial match below it is refused at its birth, or dropped when it is
    visited after it has aged below it. Live partial matches are dropped at once when the threshold rises, so most
    decisions visit none.

    If a detector gives the share of the present partial matches to drop, as `PredictedLatency` does, the paper's
    Algorithm 1, then Algorithm 2 is used: those of the lowest utility are dropped at once, and no birth is refused.

    After each `renew` events, `history` events are recorded and the models are fitted again on them. A new model
    replaces one in use if their matrices (section III-D) or their children differ; see `RefittingShedder`.

    Parameters
    ----------
    model
        Model of kind ``pspice``, or the folder in which it was saved; a list of these for several queries.
    seed
        Seed of all random decisions.
    slices
        Number of slices of a window, at most 64.
    explore
        Share of the drops that are let through, so that the recall can be estimated.
    cut
        Whether the work for single events is limited to a bound on a percentile of the processing latency, and partial
        matches are dropped only if that costs fewer matches; see `fastcep.overload.work_limit`. (Not in the paper.) It
        has no effect on other bounds, on queries that end with a negation, and on those with ``LIMIT``, ``SELECT``,
        ``CONSUME``, ``AFTER MATCH`` or another strategy than ``skip_till_any``.
    history, renew
        Number of events to record for a fit, or seven windows if these are longer (at most 200,000 events), and number
        of events after which the models are fitted again.
    remaining_time
        Whether the completion probability is divided by the remaining time. Without it, this is the paper's *pspice--*,
        which shows what the time contributes (pSPICE, section IV-B).

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is invalid.
    """

    name = "pspice"
    drops_matches = True
    limits_backlog = False
    fit_task = "fastcep.shedding.pspice.refit:refit_models"

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, slices: int = 32, explore: float = 0.01,
        cut: bool = True, history: int = 50_000, renew: int = 1_000_000, remaining_time: bool = True,
    ) -> None:  # fmt: skip
        self.name = PSpice.name if remaining_time else PSpiceProbability.name
        super().__init__(seed, history, renew, waits=True)
        owner = f"shedder {self.name!r}"
        for option, value in {"cut": cut, "remaining_time": remaining_time}.items():
            if not isinstance(value, bool):
                raise ValidationError(f"{owner}: {option}={value!r}; expected True or False")
        self._by_time = remaining_time
        self.cuts = cut
        if as_count(owner, "slices", slices) > MOST_SLICES:
            raise ValidationError(f"{owner}: slices={slices!r}; expected at most {MOST_SLICES}")
        self.slices: int = slices
        self._explore = as_probability(owner, "explore", explore)
        self._stored_models = models_of(owner, model)
        self._models = {item.query.name: PSpiceModel.of(item) for item in self._stored_models}
        self._new_models: dict[str, Model] = {}  # those that replaced one of the models given
        self._windows = {name: item.window for name, item in self._models.items()}
        self._size = events_to_record(self._size, max(self._windows.values()))
        self._order: tuple[Key, DropOrder] | None = None
        self._learning: Background[tuple[Key, DropOrder]] = Background()
        self._demand = self._saved = 0.0
        self._drifts = {name: self._new_drift(name) for name in self._models}
        self._counted: dict[str, tuple[int, bool]] = {}  # number of events at the last reading; whether it is the first
        self._per_event: dict[str, float] = {}  # children per event, as counted; before, those expected by the model

    @classmethod
    def fit(cls, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[PSpice]:
        """Fit a model for each query; return a function that creates shedders."""
        return partial(cls, tuple(fit_pspice(query, history, **options).stored() for query in queries))

    def classes(self, query: ast.Query) -> Mapping[str, Classes]:
        """Return the classes by the number of events that the variable bound last has bound."""
        return classes_by_number(query)

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query without a model."""
        model_for(f"shedder {self.name!r}", list(self.models_in_use.values()), query)

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices for the windows of a query; 1 where the matcher does not know the age."""
        model = self._models.get(query.name)
        return 1 if model is not None and not model.knows_age() else self.slices

    # ------------------------------------------------------------- decisions

    def learn(self, views: Sequence[QueryView]) -> None:
        """Compare the counted children with those of the history.

        Compute the drop order again if windows have become longer or shorter, on the wall clock in a thread.
        """
        for view in views:
            self._count(view)
        changed = {}
        for view in views:
            name = view.plan.query.name
            size = max(1.0, _window(view, self._models[name]))
            ratio = size / self._windows[name] if view.received >= size else 1.0
            if not 1 / _SAME_WINDOW <= ratio <= _SAME_WINDOW:
                changed[name] = size
        if changed and (not views[0].on_wall_clock or self._learning.ready):
            self._windows |= changed
            for name, size in changed.items():
                self._drifts[name].expect(size)
            if views[0].on_wall_clock and self._order is not None:
                self._learning.start(partial(self._new_order, self._order[0]))
            else:
                self._order, self._saved = None, 0.0

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return drop plans that save the share ``demand`` of the work, or that drop this share of what is present."""
        if not views:
            return []
        order = self._order_of(views)
        if views[0].of_present:
            return self._drop_now(demand, order, views)
        lost = max(view.lost for view in views)
        if lost > 0 or demand == 0:  # without a demand, only a work limit leads to a decision
            loss = loss_without_drops(lost, order.choose(self._demand).saved)
            demand = max(demand, demand_of_least_loss(order.saved, order.kept.mean(axis=1), loss))
        selection = order.choose(demand)
        purges = selection.saved > self._saved + _WORTH * (self._saved > 0)
        kept_before = order.choose(before).kept if before > 0 else (1.0,) * len(views)
        plans = []
        for view, chances, kept, old in zip(views, selection.cells, selection.kept, kept_before, strict=True):
            if view.plan.store != "rows":
                plans.append(DropPlan())
                continue
            births = self._by_class((1 - self._explore) * chances, view)
            plan = DropPlan(births=births, steady=True, kept=kept, counts=self._counted_share(view))
            name = view.plan.query.name
            if plan.counts:
                self._counted.setdefault(name, (view.received, True))
                self._drifts[name].note_drops(chances > 0)
            else:
                self._counted.pop(name, None)
            if purges and births.any():
                plan.drops, plan.left = births, min(1.0, kept / max(old, 1e-9))
            plans.append(plan)
        self._demand, self._saved = demand, selection.saved if purges else min(self._saved, selection.saved)
        return plans

    def _drop_now(self, share: float, order: DropOrder, views: Sequence[QueryView]) -> list[DropPlan]:
        """Drop the live partial matches of the lowest utility that take a share of the work (pSPICE, Algorithm 2)."""
        self._counted = {}  # nothing is counted without a plan for births
        live = [
            self._chain(view).summed(view.live * _stored(view)) if view.plan.store == "rows" else np.zeros_like(utility)
            for view, utility in zip(views, order.utilities, strict=True)
        ]
        work = [rows * rate for rows, rate in zip(live, order.rates, strict=True)]
        chances = lowest(
            np.concatenate([utility.ravel() for utility in order.utilities]),
            np.concatenate([of_query.ravel() for of_query in work]), share,
        )  # fmt: skip
        plans, first = [], 0
        for view, rows, completions in zip(views, live, order.completions, strict=True):
            drops = chances[first : first + rows.size].reshape(rows.shape) * (rows > 0)
            first += rows.size
            if view.plan.store != "rows":
                plans.append(DropPlan())
                continue
            expected = float((rows * completions).sum())
            left = float((rows * completions * (1 - drops)).sum()) / expected if expected > 0 else 1.0
            plans.append(DropPlan(drops=self._by_class(drops, view), left=min(left, 1.0)))
        return plans

    def _chain(self, view: QueryView) -> ChainStates:
        return self._models[view.plan.query.name].chain_states

    def _by_class(self, values: Floats, view: QueryView) -> Floats:
        """Return drop probabilities by state of the chain as those by state and class; 0 for states without rows."""
        return np.where(_stored(view), self._chain(view).by_class(values, view.classes), 0.0)

    def _order_of(self, views: Sequence[QueryView]) -> DropOrder:
        """Return the drop order for these queries."""
        learned = self._learning.take()
        key = tuple(
            (view.plan.query.name, view.plan.query.weight, _is_shared(view.plan)) for view in views
        )
        if learned is not None:
            self._order, self._saved = learned, 0.0
        if self._order is not None and self._order[0] != key:
            self._order, self._saved = None, 0.0
        if self._order is None:
            self._order = self._new_order(key)
        return self._order[1]

    def _new_order(self, key: Key) -> tuple[Key, DropOrder]:
        names, weights, shared = zip(*key, strict=True)
        models, windows = [self._models[name] for name in names], [self._windows[name] for name in names]
        slices = [self.slices_of(model.query) for model in models]
        return key, DropOrder(models, weights, windows, slices, by_time=self._by_time, shared=shared)

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the history.

        None if the stream differs from the history, or if nothing is counted that would show this.
        """
        differs = (self._drifts[query.name].value or 0.0) > _MUCH_DRIFT
        is_counted = query.name in self._counted
        return self._models[query.name].match_rate if is_counted and not differs else None

    def stop_shedding(self) -> None:
        """Nothing is dropped or counted until there is a demand again."""
        self._demand = self._saved = 0.0
        self._counted = {}

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches: float64[states, classes, slices]."""
        name = view.plan.query.name
        names = () if self._order is None else tuple(query for query, _, _ in self._order[0])
        if name not in names:  # before the first decision about the query
            own = _is_shared(view.plan)
            queries = [item.query for item in self._models.values()]
            self._order = self._new_order(
                tuple((query.name, query.weight, own if query.name == name else True) for query in queries)
            )
            names = tuple(query.name for query in queries)
        assert self._order is not None
        return self._chain(view).by_class(self._order[1].utilities[names.index(name)], view.classes)

    # --------------------------------------------------------------- renewal

    @property
    def models_in_use(self) -> Mapping[str, Model]:
        """Models in use, by name of the query."""
        return {item.query.name: item for item in self._stored_models} | self._new_models

    def take_models(self, models: Mapping[str, Model]) -> bool:
        """Use new models from the next decision on; there are no classes, so the plans of the queries stay."""
        self._new_models |= models
        for name, item in models.items():
            self._models[name] = PSpiceModel.of(item)
            self._windows[name] = self._models[name].window
            self._drifts[name] = self._new_drift(name)
            self._counted.pop(name, None)  # the next window is the first one of the new model
        self._learning.take(wait=True)
        if self._order is not None and self._setting is not None and not self._setting.virtual:
            self._learning.start(partial(self._new_order, self._order[0]))  # until then, the order of the old models
        else:
            self._order, self._saved = None, 0.0
        return False

    def remove_model(self, name: str) -> None:
        """Remove the model of a query, which is shed by this shedder no longer."""
        self._learning.take(wait=True)
        self._order, self._saved = None, 0.0  # it has cells of the query
        self._stored_models = [item for item in self._stored_models if item.query.name != name]
        for by_query in (self._models, self._new_models, self._windows, self._drifts, self._counted, self._per_event):
            by_query.pop(name, None)

    def has_changed(self) -> bool:
        """Return whether the stream differs from a model."""
        return any((drift.value or 0.0) > _MUCH_DRIFT for drift in self._drifts.values())

    def _new_drift(self, name: str) -> Drift:
        return Drift(self._models[name], self._windows[name], self.slices_of(self._models[name].query))

    def _counted_share(self, view: QueryView) -> float:
        """Return the share of the events whose children are counted; 0 if the drift would be unknown anyway."""
        drift = self._drifts[view.plan.query.name]
        if not drift.is_known or not _is_shared(view.plan):
            return 0.0
        per_event = self._per_event.get(view.plan.query.name, drift.per_event)
        return min(1.0, max(_LEAST_COUNTED, _OF_BUDGET * view.count_budget / max(per_event, 1e-9)))

    def _count(self, view: QueryView) -> None:
        """Read the counted children about once in a window; the first window after the start of shedding is left out,
        because the weights of its partial matches are not complete.
        """
        name = view.plan.query.name
        if name not in self._counted:
            return
        since, first = self._counted[name]
        events = view.received - since
        if events >= view.window_size:
            flows, self._counted[name] = view.flows(), (view.received, False)
            self._per_event[name] = float(flows[1].sum()) / events
            if not first:
                self._drifts[name].add(flows, events)
            self._drifts[name].end_window()

    # ----------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return the state of the next fit, and by query the window of the drop order, in events, and the drift."""
        return self.fit_metrics() | {"queries": {
            name: {"window": window, "drift": self._drifts[name].value} for name, window in self._windows.items()
        }}  # fmt: skip

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        models = {item.query.name: item.hash for item in self._stored_models}
        return super().spec() | {"models": models, "slices": self.slices, "explore": self._explore, "cut": self.cuts,
            "history": self._size, "renew": self._renew_after}

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return self.fit_state() | {
            "demand": self._demand, "saved": self._saved, "windows": dict(self._windows),
            "models": {name: dump_model(item) for name, item in self._new_models.items()},
            "counted": {name: list(item) for name, item in self._counted.items()},
            "drifts": {name: drift.state() for name, drift in self._drifts.items()},
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(dict(state), "control.shedder")
        self.restore_fit(state)
        self._new_models = {}
        self.take_models({name: load_stored_model(item) for name, item in state["models"].items()})
        self._demand, self._saved = state["demand"], state["saved"]
        self._windows |= {name: state["windows"][name] for name in self._windows if name in state["windows"]}
        self._counted = {name: (since, first) for name, (since, first) in state["counted"].items()}
        self._drifts = {name: self._new_drift(name) for name in self._models}
        for name, drift in self._drifts.items():
            if name in state["drifts"]:
                drift.restore(state["drifts"][name])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._models)}; seed={self.seed})"


class PSpiceProbability(PSpice):
    """`PSpice` without the remaining time, by the spelling ``pspice--``."""

    name = "pspice--"

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, slices: int = 32, explore: float = 0.01,
        cut: bool = True, history: int = 50_000, renew: int = 1_000_000,
    ) -> None:  # fmt: skip
        super().__init__(
            model, seed, slices=slices, explore=explore, cut=cut, history=history, renew=renew, remaining_time=False
        )


def _window(view: QueryView, model: PSpiceModel) -> float:
    """Return the number of events in a window: as measured, or that of the history if events close windows."""
    closed_by_events = view.plan.windows is not None and view.plan.windows.length <= 0
    return model.window if closed_by_events else view.window_size


def _is_shared(plan: Plan) -> bool:
    """Return whether the matcher has a partial match once for all its windows."""
    return plan.windows is None or not plan.windows.isolated


def _stored(view: QueryView) -> Any:
    """Return whether a state of the row store has rows that can be dropped: bool[states, 1, 1]."""
    return state_paths(view.plan).stored[:, None, None]
