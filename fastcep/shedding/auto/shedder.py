"""`Auto`: shed at random at once, and by a model as soon as one is fitted on the stream and found to be better."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.errors import ModelError, ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Classes, Floats, QueryView, Tree
from fastcep.overload.renewal import EngineSetting, RenewingShedder
from fastcep.query import ast
from fastcep.query.patterns import is_monotonic
from fastcep.shedding.auto.background import Background
from fastcep.shedding.auto.stored import check_model, dump_model, dump_table, load_stored_model, load_table
from fastcep.shedding.auto.trial import Trial, try_models
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.events import RandomEvents
from fastcep.shedding.hybrid import Hybrid
from fastcep.shedding.matches import RandomMatches
from fastcep.shedding.model import Model, load_model
from fastcep.shedding.options import as_count
from fastcep.shedding.state_paths import state_paths
from fastcep.stored import COUNT, TEXT, anything, by_name, or_null, record

__all__ = ["Auto"]

_LOG = logging.getLogger("fastcep.shedding")

#: Number of events between two looks: for the result of the fitting process, and for a change of the stream.
_POLL, _LOOK = 1 << 12, 1 << 15


class Auto(Baseline, RenewingShedder):
    """Sheds at random at first, and by a model of hybrid shedding as soon as a better one is fitted on the stream.

    Before there is a model, events are dropped as by `RandomEvents` if the query is monotonic. That saves all the work
    for an event, so it holds more bounds than `RandomMatches`. Other queries could report false matches without some
    events, so partial matches are dropped as by `RandomMatches`.

    The shedder records the last events, fits a model on their first two thirds, and compares it on the rest with
    random shedding and with the model in use. The best one is used from then on. The fit is repeated when the stream
    has changed from the model, and after `renew` events.

    * On the wall clock another process of the lowest priority fits; the engine goes on meanwhile.
    * On the virtual clock the fit happens at once, after exactly `history` events, so that runs are repeatable.

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

    def __init__(
        self, seed: int = 0, model: Any = None, *, history: int = 50_000, renew: int = 1_000_000
    ) -> None:
        super().__init__(seed)
        self._size = as_count("shedder 'auto'", "history", history, 1_000)
        self._renew_after = as_count("shedder 'auto'", "renew", renew, 1_000)
        sources = [] if model is None else model if isinstance(model, list | tuple) else [model]
        models = [item if isinstance(item, Model) else load_model(item) for item in sources]
        self._rows, self._events = RandomMatches(seed), RandomEvents(seed)
        self._hybrid: Hybrid | None = None
        self._models: dict[str, Model] = {}
        self._use({item.query.name: item for item in models})
        self._given = {item.query.name: item.hash for item in models}
        self._queries: dict[str, ast.Query] = {}
        self._setting: EngineSetting | None = None
        self._history: list[pa.Table] = []
        self._fitting: Background | None = None
        self._wait = self._renew_after if models else 0  # events until the next recording
        self._fits, self._taken = 0, 0
        self._trials: dict[str, dict[str, Any]] = {}

    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine, before the queries are planned."""
        if self._setting is not None:
            raise ValidationError("shedder 'auto' belongs to another engine; make a new one for each engine")
        self._setting = setting
        self.drops_matches = self.cuts = setting.store != "factorised"

    # ------------------------------------------------------------- shedding

    def check(self, query: ast.Query) -> None:
        """Take note of a query; a model for an earlier query of this name is not used for it."""
        self._queries[query.name] = query
        model = self._models.get(query.name)
        if model is None:
            return
        try:
            model.check(query)
        except ModelError:
            if query.name in self._given:
                raise
            self._use({name: item for name, item in self._models.items() if name != query.name})

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches of the model in use."""
        return self._hybrid.classes(query) if self._hybrid is not None and query.name in self._models else {}

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events of the model in use."""
        return self._hybrid.event_classes(query) if self._hybrid is not None and query.name in self._models else {}

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of the model in use."""
        return self._hybrid.slices_of(query) if self._hybrid is not None and query.name in self._models else 1

    def learn(self, views: Sequence[QueryView]) -> None:
        """Adapt the models in use."""
        if self._hybrid is not None:
            self._hybrid.learn([view for view in views if view.plan.query.name in self._models])

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return the drop plan of each query, by its model or at random."""
        plans: list[DropPlan] = []
        for view in views:
            shedder: Baseline | None = self._hybrid if view.plan.query.name in self._models else self._baseline(view)
            plans += [DropPlan()] if shedder is None else shedder.decide(demand, before, [view])
        return plans

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility by the model in use."""
        return None if self._hybrid is None else self._hybrid.utility(view)

    def _baseline(self, view: QueryView) -> Baseline | None:
        """Return what to shed a query with at random; None if nothing is sound."""
        if is_monotonic(view.plan.query):
            return self._events
        return self._rows if view.plan.store == "rows" and bool(np.any(state_paths(view.plan).stored)) else None

    def stop_shedding(self) -> None:
        """Reset the states of the models."""
        if self._hybrid is not None:
            self._hybrid.stop_shedding()

    def _use(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)
        self._hybrid = Hybrid(list(models.values()), self.seed) if models else None

    # -------------------------------------------------------------- renewal

    @property
    def records(self) -> bool:  # type: ignore[override]
        """True if it wants the next events."""
        return self._wait == 0 and self._fitting is None and self.drops_matches

    @property
    def _recorded(self) -> int:
        return sum(map(len, self._history))

    def next_renewal(self) -> int:
        """Return the number of events to the end of the recording, or to the next look."""
        if self._fitting is not None:
            return _POLL
        return max(1, self._size - self._recorded) if self.records else max(1, min(self._wait, _LOOK) or _LOOK)

    def record(self, events: pa.Table) -> None:
        """Add events to the history; events beyond its size replace the oldest."""
        self._history.append(events)
        excess = self._recorded - self._size
        while excess > 0:
            oldest = self._history.pop(0)
            if len(oldest) > excess:
                self._history.insert(0, oldest.slice(excess))
            excess -= len(oldest)

    def renew(self) -> bool:
        """Begin a fit, take its result, or count down to the next one; return whether the models have changed."""
        if self._fitting is not None:
            trials = self._fitting.poll()
            return trials is not None and self._take(trials)
        if self.records:
            return self._recorded >= self._size and self._fit()
        if self.drops_matches:
            self._wait = max(0, self._wait - min(self._wait, _LOOK))
            if self._wait and self._has_changed():
                _LOG.info("the stream has changed from the model: events are recorded for a new one")
                self._wait = 0
        return False

    def _has_changed(self) -> bool:
        """Return whether a model reports a change of the stream."""
        models = {} if self._hybrid is None else self._hybrid.metrics()
        return any(isinstance(item, dict) and item.get("changes", 0) > 0 for item in models.values())

    def _fit(self) -> bool:
        assert self._setting is not None
        history, self._history = pa.concat_tables(self._history), []
        self._fits += 1
        queries = list(self._queries.values())
        job = queries, history, self._models, self._setting.costs, self._setting.index, self.seed
        if self._setting.virtual:
            return self._take(try_models(*job))
        try:
            self._fitting = Background(*job)
        except OSError as error:
            return self._take(dict.fromkeys(self._queries, Trial(why=f"cannot start {error.filename}: {error}")))
        _LOG.info("%s events were recorded: a model is fitted in process %s", len(history), self._fitting.process)
        return False

    def _take(self, trials: Mapping[str, Trial]) -> bool:
        """Use the new models that are better; return whether there are any."""
        self._fitting, self._wait = None, self._renew_after
        new = {}
        for name, trial in trials.items():
            self._trials[name] = {"taken": trial.model is not None, "recall": dict(trial.recall), "why": trial.why}
            if trial.model is not None and name in self._queries:
                new[name] = trial.model
                _LOG.info(
                    "query %r: shedding by a new model, whose held-out recall is %.3f; without it %.3f", name,
                    trial.recall["model"], max(value for key, value in trial.recall.items() if key != "model"),
                )  # fmt: skip
            else:
                _LOG.info("query %r: no new model: %s", name, trial.why)
        if not new:
            return False
        self._taken += 1
        self._use(self._models | new)
        return True

    # ---------------------------------------------------- metrics and state

    def metrics(self) -> dict[str, Any]:
        """Return what it sheds by, and the state of the next fit."""
        phase = "fitting" if self._fitting is not None else "recording" if self.records else "waiting"
        return {
            "phase": phase if self.drops_matches else "without rows", "fits": self._fits, "changes": self._taken,
            "recorded_events": self._recorded, "history_bytes": sum(table.nbytes for table in self._history),
            "next_recording": self._wait, "trials": self._trials,
            "shedders": {name: "hybrid" if name in self._models else "random" for name in self._queries},
            "models": {} if self._hybrid is None else self._hybrid.metrics(),
        }  # fmt: skip

    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        return super().spec() | {"history": self._size, "renew": self._renew_after}

    def state(self) -> dict[str, Any]:
        """Return the models in use, what they have learned, and the recorded history as JSON values.

        The history is stored on the virtual clock only, where a fit must not depend on snapshots. On the wall clock it
        is recorded anew.
        """
        keeps = self._setting is not None and self._setting.virtual and self._history
        return {
            "models": {name: dump_model(model) for name, model in self._models.items()},
            "hybrid": None if self._hybrid is None else self._hybrid.state(),
            "history": dump_table(pa.concat_tables(self._history)) if keeps else None,
            "wait": self._wait, "fits": self._fits, "taken": self._taken, "trials": self._trials,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        record({
            "models": by_name(check_model), "hybrid": or_null(by_name(anything)), "history": or_null(TEXT),
            "wait": COUNT, "fits": COUNT, "taken": COUNT, "trials": by_name(anything),
        })(dict(state), "control.shedder")  # fmt: skip
        self._use({name: load_stored_model(model) for name, model in state["models"].items()})
        if self._hybrid is not None and state["hybrid"] is not None:
            self._hybrid.restore(state["hybrid"])
        self._history = [] if state["history"] is None else [load_table(state["history"])]
        self._wait, self._fits, self._taken = state["wait"], state["fits"], state["taken"]
        self._trials = dict(state["trials"])

    def __repr__(self) -> str:
        return f"Auto(seed={self.seed}, history={self._size}, renew={self._renew_after})"
