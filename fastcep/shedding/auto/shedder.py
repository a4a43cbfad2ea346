"""`Auto`: shed at random at once, and by a model as soon as one is fitted on the stream and found to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.errors import ModelError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Classes, Floats, QueryView, Shedder, Tree
from fastcep.overload.renewal import EngineSetting
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.auto.trial import has_isolated_windows, shedder_of
from fastcep.shedding.espice import ESpice
from fastcep.shedding.events import RandomEvents
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.matches import RandomMatches
from fastcep.shedding.model import Model, models_of
from fastcep.shedding.pspice import PSpice
from fastcep.shedding.refit.shedder import FIT_STATE, RefittingShedder
from fastcep.shedding.refit.stored import check_model, dump_model, load_stored_model
from fastcep.shedding.state_paths import state_paths
from fastcep.stored import anything, by_name, record

__all__ = ["Auto"]


class Auto(RefittingShedder):
    """Sheds at random at first, and by a model as soon as a better one is fitted on the stream.

    Before there is a model, events are dropped as by `RandomEvents` if the query is monotonic. That saves all the work
    for an event, so it holds more bounds than `RandomMatches`. Other queries could report false matches without some
    events, so partial matches are dropped as by `RandomMatches`.

    The shedder records the last events, fits a model of `Hybrid`, one of `PSpice`, and one of `ESpice` if the query
    isolates its windows, on their first two thirds, and compares them on the rest with random shedding and with the
    model in use. The best one is used from then on. The fit is repeated when the stream has changed from the model, and
    after `renew` events. See `RefittingShedder`.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    model
        Model to begin with, the folder of one, or a list of these; None: begin without one.
    history
        Number of events to record for a fit.
    renew
        Number of events after which the model is fitted again.

    Raises
    ------
    ModelError
        If a model is damaged.
    ValidationError
        If an option is invalid.
    """

    name = "auto"
    fit_task = "fastcep.shedding.auto.trial:try_models"

    def __init__(
        self, seed: int = 0, model: Any = None, *, history: int = 50_000, renew: int = 1_000_000
    ) -> None:
        models = [] if model is None else models_of("shedder 'auto'", model)
        super().__init__(seed, history, renew, waits=bool(models))
        self._rows, self._events = RandomMatches(seed), RandomEvents(seed)
        self._models = {item.query.name: item for item in models}
        self._shedders = self._new_shedders()
        self._given = {item.query.name: item.hash for item in models}

    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine, before the queries are planned."""
        super().begin(setting)
        self.drops_matches: bool = setting.store != "factorised"
        self.cuts: bool = self.drops_matches

    # ------------------------------------------------------------- shedding

    def check(self, query: ast.Query) -> None:
        """Take note of a query; a model for an earlier query of this name is not used for it."""
        self._queries[query.name] = query
        model = self._models.get(query.name)
        if model is None:
            return
        try:
            model.check(query)
            if model.kind == ESpice.name and not has_isolated_windows(query):
                raise ModelError(
                    f"shedder 'auto' takes a model of kind {ESpice.name!r} only for a query that isolates its windows, "
                    f"such as one with LIMIT 1 PER WINDOW; query {query.name!r} does not: take shedder {ESpice.name!r}"
                )
        except ModelError:
            if query.name in self._given:
                raise
            del self._models[query.name], self._shedders[query.name]

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches of the model in use."""
        return self._shedders[query.name].classes(query) if query.name in self._shedders else {}

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events of the model in use."""
        return self._shedders[query.name].event_classes(query) if query.name in self._shedders else {}

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of the model in use."""
        return self._shedders[query.name].slices_of(query) if query.name in self._shedders else 1

    def learn(self, views: Sequence[QueryView]) -> None:
        """Adapt the models in use."""
        for view in views:
            if view.plan.query.name in self._shedders:
                self._shedders[view.plan.query.name].learn([view])

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of each query, by its model or at random."""
        plans: list[DropPlan] = []
        for view in views:
            shedder = self._shedders.get(view.plan.query.name, self._baseline(view))
            plans += [DropPlan()] if shedder is None else shedder.decide(demand, before, [view])
        return plans

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility by the model in use."""
        shedder = self._shedders.get(view.plan.query.name)
        return None if shedder is None else shedder.utility(view)

    def _baseline(self, view: QueryView) -> Shedder | None:
        """Return what to shed a query with at random; None if nothing is sound."""
        if is_monotonic(view.plan.query):
            return self._events
        return self._rows if view.plan.store == "rows" and bool(np.any(state_paths(view.plan).stored)) else None

    def stop_shedding(self) -> None:
        """Reset the states of the models."""
        for shedder in self._shedders.values():
            shedder.stop_shedding()

    # -------------------------------------------------------------- renewal

    @property
    def models_in_use(self) -> Mapping[str, Model]:
        """Models in use, by name of the query."""
        return self._models

    def take_models(self, models: Mapping[str, Model]) -> bool:
        """Use new models; the queries have to be planned again for their classes."""
        self._models |= models
        self._shedders |= {name: shedder_of(model, self.seed) for name, model in models.items()}
        return True

    def has_changed(self) -> bool:
        """Return whether a model reports a change of the stream."""
        return any(shedder.has_changed() for shedder in self._shedders.values())

    def _new_shedders(self) -> dict[str, Hybrid | PSpice | ESpice]:
        return {name: shedder_of(model, self.seed) for name, model in self._models.items()}

    # ---------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return the state of the next fit, and by query what it sheds by, with the metrics of the model."""
        queries: dict[str, dict[str, Any]] = {name: {"shedder": "random"} for name in self._queries}
        for name, shedder in self._shedders.items():
            queries[name] = {"shedder": shedder.name, **shedder.metrics()["queries"][name]}
        return self.fit_metrics() | {"queries": queries}

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {"history": self._size, "renew": self._renew_after}

    def state(self) -> dict[str, Any]:
        """Return the models in use, what they have learned, and the recorded history as JSON values."""
        return self.fit_state() | {
            "models": {name: dump_model(model) for name, model in self._models.items()},
            "shedders": {name: shedder.state() for name, shedder in self._shedders.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        record({
            **FIT_STATE, "models": by_name(check_model), "shedders": by_name(by_name(anything)),
        })(dict(state), "control.shedder")  # fmt: skip
        self._models = {name: load_stored_model(model) for name, model in state["models"].items()}
        self._shedders = self._new_shedders()
        for name, learned in state["shedders"].items():
            self._shedders[name].restore(learned)
        self.restore_fit(state)

    def __repr__(self) -> str:
        return f"Auto(seed={self.seed}, history={self._size}, renew={self._renew_after})"
