"""pSPICE: drop the partial matches that are least likely to complete per unit of remaining time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Detector, Floats, QueryView
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.detectors import MemoryUse, SmoothedLatency
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.options import as_choice, as_count
from fastcep.shedding.prediction import PredictedLatency
from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.state_paths import state_paths
from fastcep.shedding.utility import lowest

__all__ = ["PSpice"]

ModelSource = Model | str | PathLike[str]

#: Least remaining time, relative to the longest one of all queries, by which a probability is divided.
_LEAST_TIME = 1e-6
_MOST_SLICES = 64


class PSpice(Baseline):
    """Drops live partial matches of the lowest utility: *pspice*, or *pspice--* without ``remaining_time``.

    The utility of a partial match is the weight of its query times its completion probability divided by the expected
    time that is still spent on it (pSPICE, section III-C). Both are scaled by their maximum over all queries, and looked
    up by state and by the slice of its window that has passed, from which the number of remaining events follows. With
    `PredictedLatency`, the detector of the paper's Algorithm 1, each decision drops as many partial matches as do not
    fit the bound, those of all queries together by one order (Algorithm 2). No birth is refused.

    Parameters
    ----------
    model
        Model of kind ``pspice`` of each query: a `Model`, its folder, or a list of these.
    seed
        Seed of all random decisions.
    remaining_time
        Whether the probability is divided by the remaining time.
    slices
        Number of slices of a window, at most 64.

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is invalid.
    """

    name = "pspice"
    drops_matches = True
    often = True

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, remaining_time: bool = True, slices: int = 32
    ) -> None:
        super().__init__(seed)
        if not isinstance(remaining_time, bool):
            raise ValidationError(f"shedder 'pspice': remaining_time={remaining_time!r}; expected True or False")
        if as_count("shedder 'pspice'", "slices", slices) > _MOST_SLICES:
            raise ValidationError(f"shedder 'pspice': slices={slices!r}; expected at most {_MOST_SLICES}")
        self.slices, self._by_time = slices, remaining_time
        sources = [model] if isinstance(model, Model | str | PathLike) else list(model)
        self._stored_models = [item if isinstance(item, Model) else load_model(item) for item in sources]
        self._models = {item.query.name: PSpiceModel.of(item) for item in self._stored_models}
        if not self._models:
            raise ValidationError("shedder 'pspice': model=[]; expected at least one")
        self._probability = max(float(item.probability.max()) for item in self._models.values()) or 1.0
        self._time = max(float(item.time.max()) for item in self._models.values()) or 1.0

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query without a model."""
        for item in self._stored_models:
            if item.query.name == query.name:
                return item.check(query)
        names = ", ".join(map(repr, self._models))
        raise ModelError(f"shedder 'pspice' has no model for query {query.name!r}, only for {names}; fit one for it")

    def detector(self, of: str) -> Detector:
        """Return the default detector for ``latency`` (processing), ``queue`` or ``memory``."""
        kinds: dict[str, Callable[[], Detector]] = {
            "latency": SmoothedLatency, "queue": PredictedLatency, "memory": MemoryUse,
        }  # fmt: skip
        return kinds[as_choice("shedder 'pspice'", "detector", of, tuple(kinds))]()

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the live partial matches to drop now: the share of all that exceeds ``before``, by lowest utility."""
        share = 1 - (1 - demand) / (1 - before) if demand > before else 0.0
        live = [view.live if view.plan.store == "rows" else np.zeros((1, 1, 1), np.int64) for view in views]
        total = sum(int(rows.sum()) for rows in live)
        if share <= 0 or not total:
            return [DropPlan() for _ in views]
        utilities = [self._utility(view) for view in views]
        chances = lowest(
            np.concatenate([utility.ravel() for utility in utilities]),
            np.concatenate([rows.ravel() for rows in live]), share,
        )  # fmt: skip
        plans, first = [], 0
        for view, utility, rows in zip(views, utilities, live, strict=True):
            drops = chances[first : first + utility.size].reshape(utility.shape)
            first += utility.size
            completions = rows * self._completions(view)
            expected = float(completions.sum())
            left = float((completions * (1 - drops)).sum()) / expected if expected > 0 else 1.0
            plans.append(DropPlan(drops=drops, left=left))
        return plans

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches: float64[states, classes, slices]."""
        return self._utility(view)

    def _utility(self, view: QueryView) -> Floats:
        probability, time = self._tables(view)
        utility = view.plan.query.weight * probability / self._probability
        if self._by_time:
            utility = utility / np.maximum(time / self._time, _LEAST_TIME)
        stored = state_paths(view.plan).stored
        return _by_cell(np.where(stored[:, None], utility, 0.0), view)

    def _completions(self, view: QueryView) -> Floats:
        return _by_cell(self._tables(view)[0], view)

    def _tables(self, view: QueryView) -> tuple[Floats, Floats]:
        """Return completion probability and remaining time by state and slice: float64[states, slices] each."""
        model = self._models[view.plan.query.name]
        passed = (np.arange(view.slices) + 0.5) / view.slices
        probability, time = model.at(_window(view.plan, model, view) * (1 - passed))
        return probability.T, time.T

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {
            "models": [item.hash for item in self._stored_models], "remaining_time": self._by_time, "slices": self.slices,
        }  # fmt: skip


def _window(plan: Plan, model: PSpiceModel, view: QueryView) -> float:
    """Return the number of events in a window: as measured, or that of the history if events close windows."""
    closed_by_events = plan.windows is not None and plan.windows.length <= 0
    return model.window if closed_by_events else view.window_size


def _by_cell(table: Floats, view: QueryView) -> Floats:
    """Repeat a table by state and slice for each class."""
    return np.ascontiguousarray(np.repeat(table[:, None, :], view.classes, axis=1))
