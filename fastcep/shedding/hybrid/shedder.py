"""Hybrid load shedding: drops the classes of events and of partial matches that contribute least per consumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.protocols import Classes, DropPlan, QueryView, Tree
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.hybrid.adaptation import AdaptedFlow
from fastcep.shedding.hybrid.covering_knapsack import CoveringKnapsack
from fastcep.shedding.hybrid.drop_order import DropOrder, Selection, TableSizes
from fastcep.shedding.hybrid.fit import fit_hybrid
from fastcep.shedding.hybrid.model import HybridModel
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.options import as_choice, as_probability
from fastcep.stored import COUNT, NUMBER, SHARE, anything, by_name, number, record

__all__ = ["Hybrid", "HybridFit", "HybridInput", "HybridState"]

#: Partial matches that live are looked through if this share of the work is to be saved more; else fewer are born.
_WORTH = 0.02

#: After a change of the stream so many times as much is let through, but at most this share of what is dropped.
_MORE, _OPEN = 10.0, 0.1

#: Children of at least this share of the events are counted.
_LEAST = 1e-6

#: Of the work at least this share is taken to be left, where what is cut off is extrapolated to all of it.
_LEFT = 0.05

#: A share of the matches that is as good as all.
_ALL = 1 - 1e-6

Floats = npt.NDArray[np.float64]
Given = Model | str | PathLike[str]


@dataclass(slots=True)
class SheddingState:
    """How much of a query's work is saved, since it is more than nothing.

    Attributes
    ----------
    began, since
        How many events the query had been given when it began, and when what was counted was last looked at.
    demand, saved
        What was demanded last, and for how much what lives was thinned out.
    share
        Of which share of the events children are counted.
    """

    began: int
    since: int
    demand: float = 0.0
    saved: float = 0.0
    share: float = 1.0


_COURSE = record({"began": COUNT, "since": COUNT, "demand": SHARE, "saved": NUMBER, "share": number(1e-9, 1)})


class Hybrid(Baseline):
    """Drops events and partial matches by a model that was fitted on history (hybrid, sections IV and V).

    Parameters
    ----------
    model
        What `fastcep.fit` has made, or the folder in which it was saved; of several queries, several.
    seed
        Of what is drawn.
    selection
        How it is chosen what to drop: by the order of `DropOrder`, or by the paper's covering knapsack, solved by
        dynamic programming (``"knapsack"``) or greedily.
    adapt
        Whether the model is kept up with the stream while load is shed.
    explore
        Which share of all that is dropped is let through nevertheless, for that.
    cut
        Whether the work for single events is cut off at a bound on a percentile of the processing latency, and classes
        are dropped only where that does not hold it: see `fastcep.overload.work_limit`. (Not in the paper.)

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is wrong.
    """

    name = "hybrid"
    drops_matches = True
    events: ClassVar[bool] = True
    rows: ClassVar[bool] = True

    def __init__(
        self,
        model: Given | Sequence[Given],
        seed: int = 0,
        *,
        selection: Literal["order", "knapsack", "greedy"] = "order",
        adapt: bool = True,
        explore: float = 0.01,
        cut: bool = False,
    ) -> None:
        super().__init__(seed)
        for option, value in (("adapt", adapt), ("cut", cut)):
            if not isinstance(value, bool):
                raise ValidationError(f"shedder {self.name!r}: {option}={value!r}; expected True or False")
        self.cuts = cut
        self._selection = as_choice(f"shedder {self.name!r}", "selection", selection, ("order", "knapsack", "greedy"))
        self._adapt = adapt
        self._explore = as_probability(f"shedder {self.name!r}", "explore", explore) if adapt else 0.0
        given = [model] if isinstance(model, Model | str | PathLike) else list(model)
        self._given = [item if isinstance(item, Model) else load_model(item) for item in given]
        self._models = {item.query.name: HybridModel.of(item) for item in self._given}
        if not self._models:
            raise ValidationError(f"shedder {self.name!r}: model=[]; expected at least one")
        self.slices = max(item.flow.slices for item in self._models.values())
        self._levels: dict[str, DropOrder | CoveringKnapsack] = {}
        self._courses: dict[str, SheddingState] = {}
        self._standing: dict[str, tuple[DropOrder | CoveringKnapsack, float, bool, DropPlan]] = {}
        self._learned = {name: AdaptedFlow(item.flow) for name, item in self._models.items()}

    @classmethod
    def fit(cls, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[Hybrid]:
        """Fit a model for each query, see `HybridFit`; what is returned makes shedders."""
        return HybridFit(cls.name).fit(queries, history, **options)

    def check(self, query: ast.Query) -> None:
        """Refuse a query that no model is of: `ModelError`."""
        own = next((item for item in self._given if item.query.name == query.name), None)
        if own is None:
            known = ", ".join(map(repr, self._models))
            raise ModelError(f"shedder {self.name!r} has a model of {known}, none of {query.name!r}; fit one for it")
        own.check(query)
        if self.cuts and not is_monotonic(query):
            raise ValidationError(
                f"shedder {self.name!r}: cut=True is for monotonic queries (no negation, LIMIT, SELECT or CONSUME; "
                f"skip_till_any), which {query.name!r} is not: it would find matches that are none; leave it out"
            )

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """How partial matches are told apart."""
        return self._models[query.name].classes

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """How events are told apart."""
        return self._models[query.name].event_classes

    def slices_of(self, query: ast.Query) -> int:
        """Those of its model."""
        return self._models[query.name].flow.slices

    def learn(self, views: Sequence[QueryView]) -> None:
        """Hold what was counted of each query against its flow, whenever a slice of the window has passed."""
        for view in views if self._adapt else ():
            name = view.plan.query.name
            if name in self._courses:
                self._keep_up(name, view, self._courses[name])

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Drop the first classes of each query's order, as many as save the share ``demand`` of the work."""
        return [self._order(demand, before, view) for view in views]

    def stop_shedding(self) -> None:
        """Nothing is counted until load is shed again."""
        self._courses, self._standing = {}, {}

    def _order(self, demand: float, before: float, view: QueryView) -> DropPlan:
        name = view.plan.query.name
        course = self._courses.setdefault(name, SheddingState(view.received, view.received))
        levels, alert = self._levels_of(name, view), self._learned[name].alert
        if self.cuts:
            without = view.lost / max(1 - levels.choose(course.demand).saved, _LEFT)
            demand = max(demand, levels.beside(min(1.0, without)))
        stands = self._standing.get(name)
        if stands is not None and stands[:3] == (levels, demand, alert) and stands[3].drops is None:
            return stands[3]
        chosen = levels.choose(demand)
        binds, births = self._dropped(chosen, alert)
        orders = DropPlan(
            binds=binds, births=births, steady=True, kept=chosen.kept,
            saved=chosen.saved if chosen.kept >= _ALL else 0.0,
            counts=self._share(name, view) if self._adapt else 0.0,
        )  # fmt: skip
        course.share = orders.counts
        self._standing[name] = levels, demand, alert, orders
        if chosen.cells.any() and chosen.saved > course.saved + _WORTH * (course.saved > 0):
            orders.drops = orders.births
            held = levels.choose(before).kept if before > 0 else 1.0
            orders.left = min(1.0, chosen.kept / max(held, 1e-9))
            course.saved = chosen.saved
        course.demand, course.saved = demand, min(course.saved, chosen.saved)
        return orders

    def _keep_up(self, name: str, view: QueryView, course: SheddingState) -> None:
        """Hold what was counted against the flow, if a slice of the window has passed."""
        passed = view.received - course.since
        if passed * view.slices < view.window_size:
            return
        course.since = view.received
        counted, learned = view.flows(), self._learned[name]
        if course.since - passed < course.began + view.window_size:  # some do not know for how many they stand
            return
        chosen = self._levels_of(name, view).choose(course.demand)
        dropped = self._dropped(chosen, learned.alert)
        if learned.learn(counted, passed, view.window_size, *dropped, course.share):
            del self._levels[name]
            course.saved = 0.0

    def _dropped(self, chosen: Selection, alert: bool) -> tuple[Floats, Floats]:
        """The chances by which events and partial matches of a choice are dropped: of a share is learned.

        That is more where the stream has just changed: a match whose event and whose partial match are dropped both is
        seen by the square of it only.
        """
        share = min(_MORE * self._explore, max(_OPEN, self._explore)) if alert else self._explore
        return (1 - share) * chosen.binds, (1 - share) * chosen.cells

    def _share(self, name: str, view: QueryView) -> float:
        """Of which share of the events children are to be counted."""
        return min(1.0, max(_LEAST, view.count_budget / self._learned[name].flow.per_event))

    def _levels_of(self, name: str, view: QueryView) -> DropOrder | CoveringKnapsack:
        if name not in self._levels:
            model, plan = self._models[name], view.plan
            shape = TableSizes(len(plan.negated), view.event_classes, len(plan.states), view.classes, view.slices)
            flow = self._learned[name].flow
            if self._selection == "order":
                self._levels[name] = DropOrder(flow.steps(model.prices, self.events, self.rows), flow, shape)
            else:
                exact = self._selection == "knapsack"
                self._levels[name] = CoveringKnapsack(
                    flow, model.prices, shape, self.events, self.rows, exact, model.more
                )
        return self._levels[name]

    def metrics(self) -> dict[str, Any]:
        """How far the stream is from each model: see `AdaptedFlow`."""
        return {
            name: {"drift": own.drift, "changes": own.changes, "not_counted": own.lost}
            for name, own in self._learned.items()
        }

    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        models = {item.query.name: item.hash for item in self._given}
        options = {"selection": self._selection, "adapt": self._adapt, "explore": self._explore}
        return super().spec() | {"models": models, **options, **({"cut": True} if self.cuts else {})}

    def state(self) -> dict[str, Any]:
        """What it has learned, and how much it saves of each query's work."""
        learned = {name: own.state() for name, own in self._learned.items()} if self._adapt else {}
        return {"courses": {name: asdict(own) for name, own in self._courses.items()}, "learned": learned}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        learned = dict.fromkeys(self._learned, anything) if self._adapt else {}
        record({"courses": by_name(_COURSE), "learned": record(learned)})(dict(state), "control.shedder")
        self._courses = {name: SheddingState(**own) for name, own in state["courses"].items()}
        self._levels, self._standing = {}, {}
        for name, own in state["learned"].items():
            self._learned[name].restore(own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._models)}; seed={self.seed})"


@dataclass(frozen=True)
class HybridFit:
    """A strategy to evaluate: hybrid shedding with other options than usual.

    Parameters
    ----------
    kind
        ``"hybrid"``, ``"hyi"`` or ``"hys"``.
    name
        In the report; None: the kind.
    fitted
        Options of `fit_hybrid`, such as ``{"slices": 2}``.
    options
        Of the shedder, such as ``{"adapt": False}``.
    """

    kind: str = "hybrid"
    name: str | None = None
    fitted: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_choice("HybridFit", "kind", self.kind, tuple(_KINDS))
        object.__setattr__(self, "name", self.name or self.kind)

    def fit(self, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[Hybrid]:
        """Fit a model for each query; what is returned makes shedders."""
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


_KINDS: Mapping[str, type[Hybrid]] = {kind.name: kind for kind in (Hybrid, HybridInput, HybridState)}
