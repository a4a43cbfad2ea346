"""Base class of shedders that record the stream and fit their models again on it while the engine runs."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.overload.renewal import EngineSetting, RenewingShedder
from fastcep.query import ast
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.model import Model
from fastcep.shedding.options import as_count
from fastcep.shedding.refit.process import FitProcess
from fastcep.shedding.refit.result import FitJob, FitResult, fit_function
from fastcep.shedding.refit.stored import dump_table, load_table
from fastcep.stored import COUNT, TEXT, Check, anything, by_name, or_null

__all__ = ["FIT_STATE", "RefittingShedder"]

_LOG = logging.getLogger("fastcep.shedding")

#: Number of events between two looks: for the result of the fitting process, and for a change of the stream.
_POLL, _LOOK = 1 << 14, 1 << 15
_LEAST_HISTORY = 1_000

#: Number of histories that pass after a fit before a change of the stream leads to another one.
_REST = 4

#: Checks of the values of `RefittingShedder.fit_state`.
FIT_STATE: Mapping[str, Check] = {
    "history": or_null(TEXT), "wait": COUNT, "rest": COUNT, "fits": COUNT, "taken": COUNT, "trials": by_name(anything),
}  # fmt: skip


class RefittingShedder(Baseline, RenewingShedder):
    """Shedder that records events of the stream, and fits models on them.

    * On the wall clock another process of the lowest priority fits; the engine goes on meanwhile.
    * On the virtual clock the fit happens at once, after exactly `history` events, so that runs are repeatable.

    Memory is bounded: at most `history` events are recorded, and one fit runs at a time.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    history
        Number of events to record for a fit.
    renew
        Number of events after which the models are fitted again.
    waits
        Whether `renew` events pass before the first recording begins.

    Raises
    ------
    ValidationError
        If an option is invalid.
    """

    fit_task: ClassVar[str]  #: place of the function that fits, see `fit_function`

    def __init__(self, seed: int, history: int, renew: int, *, waits: bool) -> None:
        super().__init__(seed)
        owner = f"shedder {self.name!r}"
        self._size = as_count(owner, "history", history, _LEAST_HISTORY)
        self._renew_after = as_count(owner, "renew", renew, _LEAST_HISTORY)
        self._queries: dict[str, ast.Query] = {}
        self._setting: EngineSetting | None = None
        self._history: list[pa.Table] = []
        self._fitting: FitProcess | None = None
        self._wait = self._renew_after if waits else 0  # events until the next recording
        self._rest = 0  # events in which a change of the stream does not count
        self._fits, self._taken = 0, 0
        self._results: dict[str, dict[str, Any]] = {}

    def begin(self, setting: EngineSetting) -> None:
        """Take note of the options of the engine, before the queries are planned."""
        if self._setting is not None:
            raise ValidationError(f"shedder {self.name!r} belongs to another engine; make a new one for each engine")
        self._setting = setting

    def set_queries(self, queries: Sequence[ast.Query]) -> None:
        """Take note of the queries that run from now on: later models are fitted for them."""
        self._queries = {query.name: query for query in queries}

    # ------------------------------------------------------------------ hooks

    @property
    @abstractmethod
    def models_in_use(self) -> Mapping[str, Model]:
        """Models in use, by name of the query."""

    @abstractmethod
    def take_models(self, models: Mapping[str, Model]) -> bool:
        """Use new models, by name of the query; return whether the queries have to be planned again for them."""

    def shed_at_random(self, names: Sequence[str]) -> bool:
        """Use no model for these queries any more; return whether the queries have to be planned again.

        Called only for results that are `FitResult.random`. By default there are none.
        """
        return False

    def end_recording(self) -> float | None:
        """Handle the end of a recording; return the share of the work that had to be saved, None if it is unknown."""
        return None

    def has_changed(self) -> bool:
        """Return whether the stream is known to have changed from the models; the default knows nothing."""
        return False

    # ---------------------------------------------------------------- renewal

    @property
    def can_refit(self) -> bool:
        """True if new models can be used in this engine. By default they need partial matches that can be dropped."""
        return self.drops_matches

    @property
    def records(self) -> bool:
        """True if it wants the next events."""
        return self._wait == 0 and self._fitting is None and self.can_refit

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
        """Begin a fit, take its result, or count down to the next one; return whether to plan the queries again."""
        if self._fitting is not None:
            results = self._fitting.poll()
            return results is not None and self._take(results)
        if self.records:
            return self._recorded >= self._size and self._fit()
        if self.can_refit:
            self._rest = max(0, self._rest - min(self._wait, _LOOK))
            self._wait = max(0, self._wait - min(self._wait, _LOOK))
            if self._wait and not self._rest and self.has_changed():
                _LOG.info("the stream has changed from the model: events are recorded for a new one")
                self._wait = 0
        return False

    def _fit(self) -> bool:
        assert self._setting is not None
        history, self._history = pa.concat_tables(self._history), []
        if not self._queries:  # one that is added later needs a model as soon as possible
            return False
        self._fits += 1
        queries, setting = list(self._queries.values()), self._setting
        demand = self.end_recording()
        job = FitJob(queries, history, self.models_in_use, setting.costs, setting.index, self.seed, demand)
        if setting.virtual:
            return self._take(fit_function(self.fit_task)(job))
        try:
            self._fitting = FitProcess(self.fit_task, job)
        except OSError as error:
            why = f"cannot start {error.filename}: {error}"
            return self._take({name: FitResult(why=why) for name in self._queries})
        _LOG.info("%s events were recorded: a model is fitted in process %s", len(history), self._fitting.process)
        return False

    def _take(self, results: Mapping[str, FitResult]) -> bool:
        """Use the new models; return whether the queries have to be planned again."""
        self._fitting, self._wait, self._rest = None, self._renew_after, _REST * self._size
        self._results |= {
            name: {"taken": result.model is not None, "measured": dict(result.measured), "why": result.why}
            for name, result in results.items()
        }
        new = {}
        for name, result in results.items():
            if result.model is not None and name in self._queries:
                new[name] = result.model
                measured = ", ".join(f"{key} {value:.3f}" for key, value in result.measured.items())
                _LOG.info("query %r: shedding by a new model of kind %r: %s", name, result.model.kind, measured)
            else:
                _LOG.info("query %r: no new model: %s", name, result.why)
        worse = [name for name, result in results.items() if result.random and name in self.models_in_use]
        if not new and not worse:
            return False
        self._taken += 1
        for name in worse:
            _LOG.info("query %r: shedding at random, which is better than by the model in use", name)
        changed = self.shed_at_random(worse) if worse else False
        return self.take_models(new) or changed if new else changed

    # ------------------------------------------------------ metrics and state

    def fit_metrics(self) -> dict[str, Any]:
        """Return the state of the next fit, and the results of the last one."""
        phase = "fitting" if self._fitting is not None else "recording" if self.records else "waiting"
        return {
            "phase": phase if self.can_refit else "without rows", "fits": self._fits, "changes": self._taken,
            "recorded_events": self._recorded, "history_bytes": sum(table.nbytes for table in self._history),
            "next_recording": self._wait, "trials": self._results,
        }  # fmt: skip

    def fit_state(self) -> dict[str, Any]:
        """Return the recorded history and the counters as JSON values.

        The history is stored on the virtual clock only, where a fit must not depend on snapshots. On the wall clock it
        is recorded anew.
        """
        keeps = self._setting is not None and self._setting.virtual and self._history
        return {
            "history": dump_table(pa.concat_tables(self._history)) if keeps else None,
            "wait": self._wait, "rest": self._rest, "fits": self._fits, "taken": self._taken, "trials": self._results,
        }  # fmt: skip

    def restore_fit(self, state: Mapping[str, Any]) -> None:
        """Restore a `fit_state`, which has passed `FIT_STATE`."""
        self._history = [] if state["history"] is None else [load_table(state["history"])]
        self._wait, self._rest = state["wait"], state["rest"]
        self._fits, self._taken = state["fits"], state["taken"]
        self._results = dict(state["trials"])
