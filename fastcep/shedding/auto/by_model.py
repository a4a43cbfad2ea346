"""`ByModel`: shed each query by its model, or at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.errors import ModelError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.match_counts import MatchRate
from fastcep.overload.protocols import Classes, Floats, QueryView, Tree
from fastcep.overload.renewal import EngineSetting
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.espice import ESpice
from fastcep.shedding.events import RandomEvents
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.matches import RandomMatches
from fastcep.shedding.model import Model
from fastcep.shedding.pspice import PSpice
from fastcep.shedding.state_paths import state_paths
from fastcep.stored import anything, by_name, one_of, record

__all__ = ["ByModel", "ModelShedder"]

#: Shedder with models that are fitted.
ModelShedder = Hybrid | PSpice | ESpice
_KINDS = (Hybrid.name, PSpice.name, ESpice.name)


class ByModel(Baseline):
    """Sheds each query by its model, and at random if it has none.

    Queries with models of `PSpice` are shed by one order of their partial matches. All others save the same share of
    their work.

    At random, events are dropped as by `RandomEvents` if the query is monotonic. That saves all the work for an event,
    so it holds more bounds than `RandomMatches`. Other queries could report false matches without some events, so
    partial matches are dropped as by `RandomMatches`.

    Parameters
    ----------
    owner
        Name of the shedder, for error messages.
    seed
        Seed of all random decisions.
    models
        Models, by name of the query.

    Attributes
    ----------
    models
        Models in use, by name of the query.

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    """

    name = "by model"
    drops_matches = True
    cuts = True

    def __init__(self, owner: str, seed: int = 0, models: Mapping[str, Model] | None = None) -> None:
        super().__init__(seed)
        self._owner = owner
        self._setting: EngineSetting | None = None
        self._rows, self._events = RandomMatches(seed), RandomEvents(seed)
        self.models: dict[str, Model] = {}
        self._alone: dict[str, Hybrid | ESpice] = {}
        self._joint: PSpice | None = None
        self.use(models or {})

    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine."""
        self._setting = setting
        if self._joint is not None:
            self._joint.begin(setting)

    def use(self, models: Mapping[str, Model]) -> None:
        """Use new models, by name of the query; what the shedders of other queries have learned is kept."""
        for model in models.values():
            if model.kind not in _KINDS:
                raise ModelError(
                    f"shedder {self._owner!r} takes models of kind {', '.join(map(repr, _KINDS))}; found a model of "
                    f"kind {model.kind!r} for query {model.query.name!r}: give its own shedder"
                )
        for name, model in models.items():
            if model.kind != PSpice.name or name not in self.models or self.models[name].kind != PSpice.name:
                self.remove(name)
        self.models |= models
        joint = {name: model for name, model in models.items() if model.kind == PSpice.name}
        for name, model in models.items():
            if name not in joint:
                self._alone[name] = (ESpice if model.kind == ESpice.name else Hybrid)(model, self.seed)
        if not joint:
            return
        if self._joint is not None:
            self._joint.take_models(joint)
            return
        self._joint = PSpice(list(joint.values()), self.seed)
        if self._setting is not None:
            self._joint.begin(self._setting)

    def remove(self, name: str) -> None:
        """Shed a query at random from now on."""
        model = self.models.pop(name, None)
        self._alone.pop(name, None)
        if model is None or model.kind != PSpice.name or self._joint is None:
            return
        self._joint.remove_model(name)
        if not self._joint.models_in_use:
            self._joint = None

    def shedder_of(self, name: str) -> ModelShedder | None:
        """Return the shedder of a query; None: at random."""
        model = self.models.get(name)
        if model is None:
            return None
        return self._joint if model.kind == PSpice.name else self._alone[name]

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` if the model was not fitted for this query."""
        if (shedder := self.shedder_of(query.name)) is not None:
            shedder.check(query)

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches of the model."""
        shedder = self.shedder_of(query.name)
        return {} if shedder is None else shedder.classes(query)

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events of the model."""
        shedder = self.shedder_of(query.name)
        return {} if shedder is None else shedder.event_classes(query)

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of the model."""
        shedder = self.shedder_of(query.name)
        return 1 if shedder is None else shedder.slices_of(query)

    def learn(self, views: Sequence[QueryView]) -> None:
        """Adapt the models."""
        for shedder, places in self._shared(views):
            if shedder is not None:
                shedder.learn([views[place] for place in places])

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of each query, by its model or at random."""
        plans: dict[int, DropPlan] = {}
        for shedder, places in self._shared(views):
            own = [views[place] for place in places]
            chosen = self._at_random(demand, before, own[0]) if shedder is None else shedder.decide(demand, before, own)
            plans |= zip(places, chosen, strict=True)
        return [plans[place] for place in range(len(views))]

    def _shared(self, views: Sequence[QueryView]) -> list[tuple[ModelShedder | None, list[int]]]:
        """Return the shedders with the places of their queries; None for a query that is shed at random."""
        joint: list[int] = []
        shedders: list[tuple[ModelShedder | None, list[int]]] = []
        for place, view in enumerate(views):
            shedder = self.shedder_of(view.plan.query.name)
            if shedder is not None and shedder is self._joint:
                joint.append(place)
            else:
                shedders.append((shedder, [place]))
        return [*shedders, (self._joint, joint)] if joint else shedders

    def _at_random(self, demand: float, before: float, view: QueryView) -> Sequence[DropPlan]:
        """Return the drop plan of a query that drops at random; an empty one if nothing is sound."""
        if is_monotonic(view.plan.query):
            return self._events.decide(demand, before, [view])
        if view.plan.store == "rows" and np.any(state_paths(view.plan).stored):
            return self._rows.decide(demand, before, [view])
        return [DropPlan()]

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches by the model."""
        shedder = self.shedder_of(view.plan.query.name)
        return None if shedder is None else shedder.utility(view)

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the history of the model."""
        shedder = self.shedder_of(query.name)
        return None if shedder is None else shedder.match_rate(query)

    def stop_shedding(self) -> None:
        """Reset the states of the models."""
        for shedder in self._shedders():
            shedder.stop_shedding()

    def has_changed(self) -> bool:
        """Return whether a model reports a change of the stream."""
        return any(shedder.has_changed() for shedder in self._shedders())

    def _shedders(self) -> list[ModelShedder]:
        return [*self._alone.values(), *([] if self._joint is None else [self._joint])]

    def metrics_of(self, name: str) -> dict[str, Any]:
        """Return what sheds a query, and the metrics of its model."""
        shedder = self.shedder_of(name)
        if shedder is None:
            return {"shedder": "random"}
        return {"shedder": shedder.name, **shedder.metrics()["queries"][name]}

    def state(self) -> dict[str, Any]:
        """Return what the shedders have learned as JSON values; the models are not included."""
        joint = None if self._joint is None else {**self._joint.state(), "models": {}}
        return {"alone": {name: shedder.state() for name, shedder in self._alone.items()}, "joint": joint}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`, given the same models; raise `Misfit` if it is not one."""
        if not state and not self.models:  # of an earlier version
            return
        alone = record({name: by_name(anything) for name in self._alone})
        record({"alone": alone, "joint": by_name(anything) if self._joint is not None else one_of(None)})(
            dict(state), "control.shedder.shedders"
        )
        for name, learned in state["alone"].items():
            self._alone[name].restore(learned)
        if self._joint is not None:
            self._joint.restore(state["joint"])
