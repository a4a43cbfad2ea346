"""eSPICE: drop events from single windows, by the utility of their type and position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Detector, Floats, QueryView
from fastcep.query import ast, to_text
from fastcep.shedding.detectors import QueueLength
from fastcep.shedding.espice.drift import TypeDrift
from fastcep.shedding.espice.drop_table import DropTable
from fastcep.shedding.espice.fit import fit_espice
from fastcep.shedding.espice.model import ESpiceModel
from fastcep.shedding.espice.queue import AutoQueueLength
from fastcep.shedding.model import Model, ModelSource, model_for, models_of
from fastcep.shedding.refit.shedder import FIT_STATE, RefittingShedder
from fastcep.shedding.refit.stored import check_model, dump_model, load_stored_model
from fastcep.shedding.window_size import WindowSize
from fastcep.stored import anything, by_name, number, record

__all__ = ["ESpice"]

#: Largest f, and the step between two values that ``f="auto"`` tries.
_MOST_F, _STEP = 0.8, 0.05

#: Factor by which the predicted size of windows may differ from that of the drop table in use.
_SAME_SIZE = 1.05

#: Drift above which the stream has changed from the model.
_MUCH_DRIFT = 0.25

_STATE = record({
    **FIT_STATE, "models": by_name(check_model), "windows": by_name(anything), "sizes": by_name(number(1.0, 1e12)),
    "drifts": by_name(anything),
})  # fmt: skip


class ESpice(RefittingShedder):
    """Drops events from single windows, those of the lowest utility by type and position: *espice*.

    The utility of an event in a window is the number of matches per event of its type at its position (eSPICE, section
    3.3). The window is divided into partitions, each of which fits into the room that the queue has left, and from each
    partition the demanded share of its events is dropped (section 3.4). The matcher looks up the decision for each
    event in each of its windows.

    After each `renew` events, and when the types of the events are distributed otherwise than when the model came into
    use, `history` events are recorded and the models are fitted again on them. A new model replaces one in use if a
    two-sample test finds other position shares; see `RefittingShedder`.

    Parameters
    ----------
    model
        Model of kind ``espice``, or the folder in which it was saved; a list of these for several queries.
    seed
        Seed of all random decisions.
    f
        Share of the longest queue at which shedding begins; the rest is the room for a partition. ``"auto"``: the
        largest f, at most 0.8, for which every partition has enough events of low utility. It requires the shedder's
        own queue detector, which engines use unless you give ``detector``.
    literal
        Whether to follow the paper to the letter: the utility is the number of matches, and all events up to the
        threshold are dropped. By default it is the number of matches per event, ties are broken, and only as many
        events as demanded are dropped.
    history, renew
        Number of events to record for a fit, and number of events after which the models are fitted again.

    Raises
    ------
    ModelError
        If a model is damaged, or of another kind.
    ValidationError
        If an option is invalid.
    """

    name = "espice"
    in_windows = True
    limits_backlog = False  # a queue of up to the bound is the room for a partition
    fit_task = "fastcep.shedding.espice.refit:refit_models"

    def __init__(
        self, model: ModelSource | Sequence[ModelSource], seed: int = 0, *, f: float | Literal["auto"] = 0.8,
        literal: bool = False, history: int = 50_000, renew: int = 1_000_000,
    ) -> None:  # fmt: skip
        super().__init__(seed, history, renew, waits=True)
        owner = f"shedder {self.name!r}"
        if f != "auto" and (isinstance(f, bool) or not isinstance(f, int | float) or not 0 < f < 1):
            raise ValidationError(f"{owner}: f={f!r}; expected a number above 0 and below 1, such as 0.8, or 'auto'")
        if not isinstance(literal, bool):
            raise ValidationError(f"{owner}: literal={literal!r}; expected True or False")
        self.f = f
        self.literal: bool = literal
        self._stored_models = models_of(owner, model)
        self._models = {item.query.name: ESpiceModel.of(item) for item in self._stored_models}
        self._new_models: dict[str, Model] = {}  # those that replaced one of the models given
        self._sizes = {name: WindowSize(item.positions) for name, item in self._models.items()}
        self._tables: dict[str, tuple[float, DropTable]] = {}  # with the size of windows for which it was computed
        self._plans: dict[str, DropPlan] = {}  # of the last decision
        self._drifts = {name: _new_drift(item) for name, item in self._models.items()}
        self._queue: QueueLength | None = None

    @classmethod
    def fit(cls, queries: Sequence[ast.Query], history: pa.Table, **options: Any) -> partial[ESpice]:
        """Fit a model for each query; return a function that creates shedders."""
        return partial(cls, tuple(fit_espice(query, history, **options).stored() for query in queries))

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query without explicit windows, or without a model.

        Raise `ValidationError` if f is ``"auto"`` and the engine does not use the shedder's queue detector.
        """
        if not isinstance(query.window, ast.ExplicitWindow):
            clause = to_text(query).partition("WITHIN ")[2].splitlines()[0].strip()
            raise ModelError(
                f"shedder {self.name!r} drops events by their position in a window, and query {query.name!r} has "
                f"WITHIN {clause}, which gives events no position; give explicit windows, such as WINDOW OPEN ON A o "
                "CLOSE AFTER 100 EVENTS, or take shedder 'hybrid' or 'pspice'"
            )
        model_for(f"shedder {self.name!r}", self._stored_models, query)
        if self.f == "auto" and self._queue is None:
            raise ValidationError(
                f"shedder {self.name!r}: f='auto' requires the queue detector of this shedder; leave "
                "out the detector, give detector=shedder.detector('queue'), or a number as f"
            )
        if query.name not in self._tables:  # now, as an overloaded engine has no time to spare
            self._new_table(query.name, self._sizes[query.name].size)

    def detector(self, of: str) -> Detector:
        """Return the default detector for ``latency`` (processing), ``queue`` or ``memory``."""
        if of != "queue":
            return super().detector(of)
        self._queue = AutoQueueLength(_MOST_F) if self.f == "auto" else QueueLength(self.f)
        return self._queue

    @property
    def can_refit(self) -> bool:
        """True: no query has to be planned in another way for a new model."""
        return True

    # ------------------------------------------------------------- decisions

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return drop plans that save the share ``demand`` of the work.

        From each partition of a window they drop the share of its events for which the model's history kept the most
        matches, and whole windows for the rest. ``literal``: they drop the share ``demand`` of the events.
        """
        tables = [self._table(view) for view in views]
        if demand <= 0:
            return [DropPlan() for _ in views]
        shares = [self._shares(view, demand) for view in views]
        if isinstance(self._queue, AutoQueueLength) and self._queue.q_max > 0:
            self._queue.f = self._best_f([dropped for dropped, *_ in shares], tables, self._queue.q_max)
        plans = []
        for view, table, (dropped, whole, kept) in zip(views, tables, shares, strict=True):
            drops = table.probabilities(dropped, self._partitions(view, table.cells.size))
            plans.append(self._plan(view.plan.query.name, table, drops, whole, kept))
        return plans

    def _plan(self, name: str, table: DropTable, drops: Floats, whole: float, kept: float | None) -> DropPlan:
        """Return the drop plan for a query: the last one again if nothing has changed, as it is then in force."""
        last = self._plans.get(name)
        if last is None or last.windows is not drops or last.whole_windows != whole or kept not in (None, last.kept):
            self._plans[name] = DropPlan(
                windows=drops, bin=table.cells.bin, whole_windows=whole,
                kept=table.kept(drops) if kept is None else kept,
            )  # fmt: skip
        return self._plans[name]

    def _shares(self, view: QueryView, demand: float) -> tuple[float, float, float | None]:
        """Return the share of the events and of the windows to drop, and the expected share of the matches if known."""
        effect = self._models[view.plan.query.name].effect
        return (demand, 0.0, None) if self.literal or effect is None else effect.drops_for(demand)

    def _table(self, view: QueryView) -> DropTable:
        """Return the drop table for the predicted size of the windows of a query."""
        name = view.plan.query.name
        size = self._sizes[name].update(view)
        if name in self._tables:
            ratio = size / self._tables[name][0]
            if 1 / _SAME_SIZE <= ratio <= _SAME_SIZE:
                return self._tables[name][1]
        return self._new_table(name, size)

    def _new_table(self, name: str, size: float) -> DropTable:
        table = DropTable(self._models[name], size, literal=self.literal)
        self._tables[name] = size, table
        return table

    def _partitions(self, view: QueryView, size: float) -> int:
        """Return the number of partitions of a window of ``size`` events (section 3.4); 1 without a queue."""
        if self._queue is not None:
            return self._queue.partitions(size)
        load = view.load
        if load.service <= 0 or load.bound <= 0 or all(reading.utilisation is None for reading in view.readings):
            return 1
        longest = load.bound / (load.service + load.other)
        return max(1, ceil(size / (longest - (_MOST_F if self.f == "auto" else self.f) * longest)))

    def _best_f(self, dropped: Sequence[float], tables: Sequence[DropTable], longest: float) -> float:
        """Return the largest f for which every partition has enough events of low utility, or nearly enough."""
        candidates = _MOST_F - _STEP * np.arange(round(_MOST_F / _STEP))
        missing = [
            max(
                table.shortfall(share, max(1, ceil(table.cells.size / ((1 - f) * longest))))
                for share, table in zip(dropped, tables, strict=True)
            )
            for f in candidates.tolist()
        ]
        return float(candidates[int(np.argmin(np.round(missing, 9)))])

    def learn(self, views: Sequence[QueryView]) -> None:
        """Count the types of the events."""
        for view in views:
            self._drifts[view.plan.query.name].add(view)

    # --------------------------------------------------------------- renewal

    @property
    def models_in_use(self) -> Mapping[str, Model]:
        """Models in use, by name of the query."""
        return {item.query.name: item for item in self._stored_models} | self._new_models

    def take_models(self, models: Mapping[str, Model]) -> bool:
        """Use new models from the next decision on; the plans of the queries stay."""
        self._new_models |= models
        for name, item in models.items():
            self._models[name] = ESpiceModel.of(item)
            self._drifts[name] = _new_drift(self._models[name])
            self._tables.pop(name, None)
        return False

    def has_changed(self) -> bool:
        """Return whether the types of the events are distributed otherwise than when the model came into use."""
        return any((drift.value or 0.0) > _MUCH_DRIFT for drift in self._drifts.values())

    # ----------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return the state of the next fit, the f of the queue, and by query the predicted window and the drift."""
        return self.fit_metrics() | {
            "f": self._queue.f if self._queue is not None else None,
            "queries": {
                name: {"window": self._sizes[name].size, "drift": drift.value} for name, drift in self._drifts.items()
            },
        }  # fmt: skip

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        models = {item.query.name: item.hash for item in self._stored_models}
        return super().spec() | {
            "models": models, "f": self.f, "literal": self.literal, "history": self._size, "renew": self._renew_after,
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return self.fit_state() | {
            "models": {name: dump_model(item) for name, item in self._new_models.items()},
            "windows": {name: size.state() for name, size in self._sizes.items()},
            "sizes": {name: size for name, (size, _) in self._tables.items()},
            "drifts": {name: drift.state() for name, drift in self._drifts.items()},
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        _STATE(dict(state), "control.shedder")
        self.restore_fit(state)
        self._new_models = {}
        self.take_models({name: load_stored_model(item) for name, item in state["models"].items()})
        for name in self._models:
            if name in state["windows"]:
                self._sizes[name].restore(state["windows"][name])
            if name in state["drifts"]:
                self._drifts[name].restore(state["drifts"][name])
        self._tables = {}
        for name, size in state["sizes"].items():
            if name in self._models:
                self._new_table(name, size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._models)}; f={self.f!r}, seed={self.seed})"


def _new_drift(model: ESpiceModel) -> TypeDrift:
    return TypeDrift(len(model.query.schema.type_names))
