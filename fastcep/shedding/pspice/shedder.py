"""pSPICE: drop the partial matches that are least likely to complete per unit of remaining time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Floats, QueryView
from fastcep.overload.validation import MOST_SLICES
from fastcep.query import ast
from fastcep.shedding.background import Background
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.options import as_count, as_probability
from fastcep.shedding.pspice.drop_order import DropOrder
from fastcep.shedding.pspice.fit import fit_pspice
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.state_paths import state_paths
from fastcep.shedding.utility import lowest
from fastcep.stored import SHARE, by_name, number, record

__all__ = ["PSpice", "PSpiceProbability"]

ModelSource = Model | str | PathLike[str]

#: By what factor the size of a window may differ from that of the drop order before the order is computed again.
_SAME_WINDOW = 1.1

#: Least further share of the work to save for which live partial matches are dropped, which visits all of them.
_WORTH = 0.02

_STATE = record({"demand": SHARE, "saved": SHARE, "windows": by_name(number(1.0))})


class PSpice(Baseline):
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

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is invalid.
    """

    name = "pspice"
    drops_matches = True
    by_time = True  #: whether the probability is divided by the remaining time

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, slices: int = 32, explore: float = 0.01
    ) -> None:
        super().__init__(seed)
        owner = f"shedder {self.name!r}"
        if as_count(owner, "slices", slices) > MOST_SLICES:
            raise ValidationError(f"{owner}: slices={slices!r}; expected at most {MOST_SLICES}")
        self.slices, self._explore = slices, as_probability(owner, "explore", explore)
        sources = [model] if isinstance(model, Model | str | PathLike) else list(model)
        self._stored_models = [item if isinstance(item, Model) else load_model(item) for item in sources]
        self._models = {item.query.name: PSpiceModel.of(item) for item in self._stored_models}
        if not self._models:
            raise ValidationError(f"{owner}: model=[]; expected at least one")
        if len(self._models) < len(sources):
            raise ValidationError(f"{owner}: two models have the same query name; give one for each query")
        self._windows = {name: item.window for name, item in self._models.items()}
        self._order: tuple[tuple[tuple[str, float], ...], DropOrder] | None = None
        self._learning: Background[DropOrder] = Background()
        self._demand = self._saved = 0.0

    @classmethod
    def fit(cls, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[PSpice]:
        """Fit a model for each query; return a function that creates shedders."""
        return partial(cls, tuple(fit_pspice(query, history, **options).stored() for query in queries))

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query without a model."""
        model = next((item for item in self._stored_models if item.query.name == query.name), None)
        if model is None:
            names = ", ".join(map(repr, self._models))
            raise ModelError(f"shedder {self.name!r} has a model for {names}, none for {query.name!r}; fit one for it")
        model.check(replace(query, returns=model.query.returns))  # with attributes=True, an engine returns more

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices for the windows of a query; 1 where the matcher does not know the age."""
        model = self._models.get(query.name)
        return 1 if model is not None and not model.knows_age() else self.slices

    # ------------------------------------------------------------- decisions

    def learn(self, views: Sequence[QueryView]) -> None:
        """Compute the drop order again if windows have become longer or shorter; on the wall clock in a thread."""
        changed = {}
        for view in views:
            name = view.plan.query.name
            size = max(1.0, _window(view, self._models[name]))
            ratio = size / self._windows[name] if view.received >= size else 1.0
            if not 1 / _SAME_WINDOW <= ratio <= _SAME_WINDOW:
                changed[name] = size
        if changed and (not views[0].on_wall_clock or self._learning.ready):
            self._windows |= changed
            if views[0].on_wall_clock and self._order is not None:
                self._learning.start(partial(self._new_order, self._key(views)))
            else:
                self._order = None

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return drop plans that save the share ``demand`` of the work, or that drop this share of what is present."""
        order = self._order_of(views)
        if any(reading.amount is not None and reading.amount >= demand for reading in views[0].readings):
            return self._drop_now(demand, order, views)
        selection = order.choose(demand)
        purges = selection.saved > self._saved + _WORTH * (self._saved > 0)
        kept_before = order.choose(before).kept if before > 0 else (1.0,) * len(views)
        plans = []
        for view, chances, kept, old in zip(views, selection.cells, selection.kept, kept_before, strict=True):
            if view.plan.store != "rows":
                plans.append(DropPlan())
                continue
            births = _by_class(np.where(_stored(view)[:, None], (1 - self._explore) * chances, 0.0), view)
            plan = DropPlan(births=births, steady=True, kept=kept)
            if purges and births.any():
                plan.drops, plan.left = births, min(1.0, kept / max(old, 1e-9))
            plans.append(plan)
        self._demand, self._saved = demand, selection.saved if purges else min(self._saved, selection.saved)
        return plans

    def _drop_now(self, share: float, order: DropOrder, views: Sequence[QueryView]) -> list[DropPlan]:
        """Drop the live partial matches of the lowest utility that take a share of the work (pSPICE, Algorithm 2)."""
        live = [
            view.live.sum(axis=1) * _stored(view)[:, None] if view.plan.store == "rows" else np.zeros_like(utility)
            for view, utility in zip(views, order.utilities, strict=True)
        ]
        work = [rows * rate[:, None] for rows, rate in zip(live, order.rates, strict=True)]
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
            plans.append(DropPlan(drops=_by_class(drops, view), left=min(left, 1.0)))
        return plans

    def _key(self, views: Sequence[QueryView]) -> tuple[tuple[str, float], ...]:
        return tuple((view.plan.query.name, view.plan.query.weight) for view in views)

    def _order_of(self, views: Sequence[QueryView]) -> DropOrder:
        """Return the drop order for these queries."""
        learned, key = self._learning.take(), self._key(views)
        if self._order is None or self._order[0] != key:
            self._order = key, self._new_order(key)
        elif learned is not None:
            self._order, self._saved = (key, learned), 0.0
        return self._order[1]

    def _new_order(self, key: Sequence[tuple[str, float]]) -> DropOrder:
        names, weights = [name for name, _ in key], [weight for _, weight in key]
        models, windows = [self._models[name] for name in names], [self._windows[name] for name in names]
        slices = [self.slices_of(model.query) for model in models]
        return DropOrder(models, weights, windows, slices, by_time=self.by_time)

    def stop_shedding(self) -> None:
        """Nothing is dropped until there is a demand again."""
        self._demand = self._saved = 0.0

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches: float64[states, classes, slices]."""
        name = view.plan.query.name
        if self._order is None or name not in dict(self._order[0]):  # before the first decision about the query
            key = tuple((item.query.name, item.query.weight) for item in self._models.values())
            self._order = key, self._new_order(key)
        return _by_class(self._order[1].utilities[list(dict(self._order[0])).index(name)], view)

    # ----------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return the number of events in a window for which the drop order of each query was computed."""
        return {name: {"window": window} for name, window in self._windows.items()}

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        models = {item.query.name: item.hash for item in self._stored_models}
        return super().spec() | {"models": models, "slices": self.slices, "explore": self._explore}

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"demand": self._demand, "saved": max(self._saved, 0.0), "windows": dict(self._windows)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(dict(state), "control.shedder")
        self._demand, self._saved = state["demand"], state["saved"]
        self._windows |= {name: state["windows"][name] for name in self._windows if name in state["windows"]}
        self._learning.take(wait=True)
        self._order = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._models)}; seed={self.seed})"


class PSpiceProbability(PSpice):
    """Drops the partial matches that are least likely to complete, whatever time they take: *pspice--*.

    See `PSpice`; the paper compares both to show what the remaining time contributes (pSPICE, section IV-B).
    """

    name = "pspice--"
    by_time = False


def _window(view: QueryView, model: PSpiceModel) -> float:
    """Return the number of events in a window: as measured, or that of the history if events close windows."""
    closed_by_events = view.plan.windows is not None and view.plan.windows.length <= 0
    return model.window if closed_by_events else view.window_size


def _stored(view: QueryView) -> Any:
    """Return per state of the row store whether it has rows that can be dropped."""
    return state_paths(view.plan).stored


def _by_class(table: Floats, view: QueryView) -> Floats:
    """Repeat a table by state and slice for each class: float64[states, classes, slices]."""
    return np.ascontiguousarray(np.repeat(table[:, None, :], view.classes, axis=1))
