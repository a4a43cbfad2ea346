"""`Auto`: shed at random at once, and by a model as soon as one is fitted on the stream and found to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastcep.errors import ModelError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Floats, QueryView, Tree
from fastcep.overload.renewal import EngineSetting
from fastcep.query import ast
from fastcep.shedding.auto.by_model import ByModel
from fastcep.shedding.auto.mean_demand import MeanDemand
from fastcep.shedding.auto.trial import has_isolated_windows
from fastcep.shedding.espice import ESpice
from fastcep.shedding.model import Model, models_of
from fastcep.shedding.refit.shedder import FIT_STATE, RefittingShedder
from fastcep.shedding.refit.stored import check_model, dump_model, load_stored_model
from fastcep.stored import TEXT, anything, by_name, listed, record

__all__ = ["Auto"]


class Auto(RefittingShedder):
    """Sheds at random at first, and by a model as soon as a better one is fitted on the stream.

    `ByModel` sheds by these models, and at random before there are any. The shedder records the last events, and
    chooses models on them as `try_models` describes, for the mean demand while load was shed meanwhile. The fit is
    repeated when the stream has changed from a model, and after `renew` events. See `RefittingShedder`.

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

    def __init__(self, seed: int = 0, model: Any = None, *, history: int = 50_000, renew: int = 1_000_000) -> None:
        models = [] if model is None else models_of("shedder 'auto'", model)
        super().__init__(seed, history, renew, waits=bool(models))
        self._by_model = ByModel(self.name, seed, {item.query.name: item for item in models})
        self._given = frozenset(item.query.name for item in models)
        self._demands = MeanDemand()

    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine, before the queries are planned."""
        super().begin(setting)
        self._by_model.begin(setting)
        self.drops_matches: bool = setting.store != "factorised"
        self.cuts: bool = self.drops_matches

    # ------------------------------------------------------------- shedding

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query that a given model does not fit; do not use a later model of another query."""
        model = self._by_model.models.get(query.name)
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
            self._by_model.remove(query.name)

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches of the model in use."""
        return self._by_model.classes(query)

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events of the model in use."""
        return self._by_model.event_classes(query)

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of the model in use."""
        return self._by_model.slices_of(query)

    def learn(self, views: Sequence[QueryView]) -> None:
        """Adapt the models in use."""
        self._by_model.learn(views)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of each query, by its model or at random."""
        if views:
            of_work = 0.0 if views[0].of_present else demand
            self._demands.add(of_work, views[0].load.events if self.records else 0)
        return self._by_model.decide(demand, before, views)

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility by the model in use."""
        return self._by_model.utility(view)

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the history of the model in use."""
        return self._by_model.match_rate(query)

    def stop_shedding(self) -> None:
        """Reset the states of the models."""
        self._demands.add(0.0, 0)
        self._by_model.stop_shedding()

    # -------------------------------------------------------------- renewal

    @property
    def models_in_use(self) -> Mapping[str, Model]:
        """Models in use, by name of the query."""
        return self._by_model.models

    def take_models(self, models: Mapping[str, Model]) -> bool:
        """Use new models; the queries have to be planned again for their classes."""
        self._by_model.use(models)
        return True

    def shed_at_random(self, names: Sequence[str]) -> bool:
        """Use no model for these queries any more; they have to be planned again without its classes."""
        for name in names:
            self._by_model.remove(name)
        return True

    def set_queries(self, queries: Sequence[ast.Query]) -> None:
        """Take note of the queries that run from now on; fitted models of other queries are not kept."""
        super().set_queries(queries)
        for name in self._by_model.models.keys() - self._queries.keys() - self._given:
            self._by_model.remove(name)

    def end_recording(self) -> float | None:
        """Return the mean share of the work that had to be saved while load was shed during the recording."""
        mean = self._demands.mean
        self._demands.restart()
        return mean

    def has_changed(self) -> bool:
        """Return whether a model reports a change of the stream."""
        return self._by_model.has_changed()

    # ---------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return the state of the next fit, and by query what it sheds by, with the metrics of the model."""
        names = dict.fromkeys((*self._queries, *self._by_model.models))
        return self.fit_metrics() | {"queries": {name: self._by_model.metrics_of(name) for name in names}}

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {"history": self._size, "renew": self._renew_after}

    def state(self) -> dict[str, Any]:
        """Return the models in use, what they have learned, and the recorded history as JSON values."""
        return self.fit_state() | {
            "models": {name: dump_model(model) for name, model in self._by_model.models.items()},
            "shedders": self._by_model.state(), "given": sorted(self._given), "demands": self._demands.state(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        checks = {**FIT_STATE, "models": by_name(check_model), "shedders": by_name(anything)}
        record(checks, {"given": listed(TEXT), "demands": anything})(dict(state), "control.shedder")
        models = {name: load_stored_model(model) for name, model in state["models"].items()}
        self._by_model = ByModel(self.name, self.seed, models)
        if self._setting is not None:
            self._by_model.begin(self._setting)
        self._by_model.restore(state["shedders"])
        self._given = frozenset(state.get("given", ()))
        self._demands = MeanDemand()
        if "demands" in state:  # older snapshots have none
            self._demands.restore(state["demands"])
        self.restore_fit(state)

    def __repr__(self) -> str:
        return f"Auto(seed={self.seed}, history={self._size}, renew={self._renew_after})"
