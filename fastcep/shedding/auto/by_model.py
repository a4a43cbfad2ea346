"""`ByModel`: shed each query by its model, or at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Classes, Floats, QueryView, Shedder, Tree
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

__all__ = ["ByModel", "ModelShedder"]

#: Shedder with models that are fitted.
ModelShedder = Hybrid | PSpice | ESpice
_SHEDDERS: Mapping[str, type[ModelShedder]] = {shedder.name: shedder for shedder in (Hybrid, PSpice, ESpice)}


class ByModel(Baseline):
    """Sheds each query by its model, and at random if it has none.

    One shedder sheds all queries whose models are of the same kind, so that it compares their partial matches.

    At random, events are dropped as by `RandomEvents` if the query is monotonic. That saves all the work for an event,
    so it holds more bounds than `RandomMatches`. Other queries could report false matches without some events, so
    partial matches are dropped as by `RandomMatches`.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    models
        Models, by name of the query.

    Attributes
    ----------
    models
        Models in use, by name of the query.
    """

    name = "by model"
    drops_matches = True
    cuts = True

    def __init__(self, seed: int = 0, models: Mapping[str, Model] | None = None) -> None:
        super().__init__(seed)
        self._rows, self._events = RandomMatches(seed), RandomEvents(seed)
        self.models = dict(models or {})
        self._shedders = {kind: self._new_shedder(kind) for kind in self._kinds(self.models)}

    def use(self, models: Mapping[str, Model]) -> None:
        """Use new models, by name of the query; other queries keep theirs."""
        changed = self._kinds(models) | self._kinds({name: self.models[name] for name in models if name in self.models})
        self.models |= models
        self._renew(changed)

    def remove(self, name: str) -> None:
        """Shed a query at random from now on."""
        changed = self.models.pop(name).kind
        self._renew({changed})

    def _renew(self, kinds: set[str]) -> None:
        for kind in kinds:
            self._shedders.pop(kind, None)
            if kind in self._kinds(self.models):
                self._shedders[kind] = self._new_shedder(kind)

    def _new_shedder(self, kind: str) -> ModelShedder:
        return _SHEDDERS[kind]([model for model in self.models.values() if model.kind == kind], self.seed)

    @staticmethod
    def _kinds(models: Mapping[str, Model]) -> set[str]:
        return {model.kind for model in models.values()}

    def shedder_of(self, name: str) -> ModelShedder | None:
        """Return the shedder of a query; None: at random."""
        model = self.models.get(name)
        return None if model is None else self._shedders[model.kind]

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
        for kind, shedder in self._shedders.items():
            if own := [views[place] for place in self._places(kind, views)]:
                shedder.learn(own)

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of each query, by its model or at random."""
        plans: dict[int, DropPlan] = {}
        for kind, shedder in self._shedders.items():
            places = self._places(kind, views)
            own = shedder.decide(demand, before, [views[place] for place in places]) if places else ()
            plans |= zip(places, own, strict=True)
        return [plans[place] if place in plans else self._at_random(demand, before, view)
                for place, view in enumerate(views)]  # fmt: skip

    def _places(self, kind: str, views: Sequence[QueryView]) -> list[int]:
        """Return the places of the queries whose models are of a kind."""
        names = {name for name, model in self.models.items() if model.kind == kind}
        return [place for place, view in enumerate(views) if view.plan.query.name in names]

    def _at_random(self, demand: float, before: float, view: QueryView) -> DropPlan:
        """Return a drop plan that drops at random; an empty one if nothing is sound."""
        shedder: Shedder = self._events
        if not is_monotonic(view.plan.query):
            if view.plan.store != "rows" or not np.any(state_paths(view.plan).stored):
                return DropPlan()
            shedder = self._rows
        (plan,) = shedder.decide(demand, before, [view])
        return plan

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches by the model."""
        shedder = self.shedder_of(view.plan.query.name)
        return None if shedder is None else shedder.utility(view)

    def stop_shedding(self) -> None:
        """Reset the states of the models."""
        for shedder in self._shedders.values():
            shedder.stop_shedding()

    def has_changed(self) -> bool:
        """Return whether a model reports a change of the stream."""
        return any(shedder.has_changed() for shedder in self._shedders.values())

    def metrics_of(self, name: str) -> dict[str, Any]:
        """Return what sheds a query, and the metrics of its model."""
        shedder = self.shedder_of(name)
        return {"shedder": "random"} if shedder is None else {
            "shedder": shedder.name, **shedder.metrics()["queries"][name]
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return what the shedders have learned, by kind, as JSON values."""
        return {kind: shedder.state() for kind, shedder in self._shedders.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`, which has the kinds of the models in use."""
        for kind, learned in state.items():
            self._shedders[kind].restore(learned)
