"""Interfaces between the overload control, detectors and shedders.

* A *detector* reports how far the engine is from its bound.
* The control converts the reading into a *demand*: the share of the work without shedding that is to be saved.
* A *shedder* converts the demand into a *drop plan* per query: the probabilities of dropping events, refusing births of
  partial matches, and dropping live partial matches.
* The matcher looks these probabilities up (``fastcep._core.shed.drop``); no Python code runs between two decisions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from fastcep._core.matcher.shedding_controls import Shedding
from fastcep._core.shed.classify import NODE
from fastcep.errors import ValidationError
from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.load import DetectorReading, Load
from fastcep.overload.match_counts import MatchRate
from fastcep.plan import Plan
from fastcep.query import ast

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["NEED_BOUND", "Classes", "Detector", "QueryView", "Shedder", "Tree"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 15  # rows to classify at once

#: Names of the detectors that compare the load with the latency bound.
NEED_BOUND = ("latency", "queue", "prediction")


@dataclass(frozen=True)
class Classes:
    """Classification by table, of partial matches by the variable bound last or of events by the variable to bind.

    Attributes
    ----------
    features
        Expressions over the variables bound so far, such as ``"a.V + b.V"``, or over the event alone, such as
        ``"b.V"``. Floats are rounded down to integers.
    low
        Smallest value in the table, per feature.
    table
        Class of each combination of values, from ``low`` on: uint8, one dimension per feature.
    other
        Class for nulls and for values outside the table.
    """

    features: tuple[str, ...]
    low: tuple[int, ...]
    table: npt.NDArray[np.uint8]
    other: int = 0

    @property
    def count(self) -> int:
        """Number of classes."""
        return max(int(self.table.max(initial=0)), self.other) + 1

    def classify(self, values: Floats, null: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
        """Return the class of each row, as the matcher does.

        Parameters
        ----------
        values
            float64[n, features].
        null
            bool[n, features]; `values` are ignored where it is true.

        Returns
        -------
        uint8[n]
        """
        in_table = ~null.any(axis=1)
        index = np.zeros(len(values), np.int64)
        for number, (low, size) in enumerate(zip(self.low, self.table.shape, strict=True)):
            place = np.floor(np.where(in_table, values[:, number], low)) - low
            in_table &= (place >= 0) & (place < size)
            index = index * size + np.where(in_table, place, 0).astype(np.int64)
        return np.where(in_table, self.table.reshape(-1)[index], np.uint8(self.other)).astype(np.uint8)


@dataclass(frozen=True)
class Tree:
    """Classification by decision tree, for features of many values or real numbers.

    Attributes
    ----------
    features
        As in `Classes`, without rounding.
    feature
        Index of the feature that a node splits by; -1 for a leaf. Node 0 is the root; children come after parents.
    threshold
        Values up to it go to the left child, larger values to the right child.
    left, right
        Indexes of the children.
    value
        Class of a leaf.
    other
        Class for nulls and NaN.
    """

    features: tuple[str, ...]
    feature: npt.NDArray[np.int32]
    threshold: Floats
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: npt.NDArray[np.uint8]
    other: int = 0

    @property
    def count(self) -> int:
        """Number of classes."""
        return max(int(self.value[self.feature < 0].max(initial=0)), self.other) + 1

    def classify(self, values: Floats, null: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
        """Return the class of each row, see `Classes.classify`."""
        classes = np.empty(len(values), np.uint8)
        for start in range(0, len(values), _CHUNK):  # so that the walk stays in the processor's cache
            classes[start : start + _CHUNK] = self._walk(np.ascontiguousarray(values[start : start + _CHUNK].T))
        missing = null | np.isnan(values)
        if missing.any():
            classes[missing.any(axis=1)] = self.other
        return classes

    def _walk(self, columns: Floats) -> npt.NDArray[np.uint8]:
        node = np.zeros(columns.shape[1], np.int32)
        rows = np.arange(columns.shape[1])
        while True:
            feature = self.feature[node[rows]]
            rows, feature = rows[feature >= 0], feature[feature >= 0]
            if not len(rows):
                return self.value[node]
            split = node[rows]
            is_left = columns[feature, rows] <= self.threshold[split]
            node[rows] = np.where(is_left, self.left[split], self.right[split])

    def check(self) -> None:
        """Reject splits by unknown features, and children that do not come after their parent.

        The matcher follows the nodes without further checks.
        """
        inner = np.flatnonzero(self.feature >= 0)
        if not (self.feature < len(self.features)).all() or any(
            not ((child[inner] > inner) & (child[inner] < len(self.feature))).all() for child in (self.left, self.right)
        ):
            raise ValidationError("invalid tree: every split must use a known feature and point to later nodes")

    @cached_property
    def nodes(self) -> npt.NDArray[np.void]:
        """Nodes in the format of the matcher."""
        self.check()
        leaf, number = self.feature < 0, np.arange(len(self.feature), dtype=np.int32)
        nodes = np.zeros(len(self.feature), NODE)
        nodes["feature"], nodes["threshold"] = np.where(leaf, 0, self.feature), self.threshold
        nodes["left"], nodes["right"] = np.where(leaf, number, self.left), np.where(leaf, number, self.right)
        nodes["own"] = np.where(leaf, self.value, 0)
        return nodes


class QueryView:
    """View of one query for a shedder.

    Arrays by state are in the order of `Plan.states`, arrays by type in the order of the schema.

    Parameters
    ----------
    plan
        Plan of the query.
    shedding
        Shedding controls of its matcher.
    slices
        Number of slices of time into which the shedder divides the window.
    decisions
        Number of decisions in a window.
    window_size
        Number of events in a window.
    received
        Number of events passed to the query so far.
    count_budget
        Number of children that may be counted per event, so that counting takes little of the time.
    lost, found, unlimited_work
        Estimated share of the matches that the work limit loses; share that is found beside it and the drops; and
        percentile of the work for an event without it, as a share of the bound (at least 1). 0: unknown.
    load, readings
        Measurements since the last decision, and what the detectors make of them: latency, queue, arrival rate and
        work, for shedders that determine numbers of events or partial matches themselves.
    of_present
        Whether the demand is a share of the present state, to be dropped now, and not a share of the work.
    keep
        Share of the events that the backlog limit keeps until the next decision, of those that the drop plan keeps.
    """

    def __init__(
        self,
        plan: Plan,
        shedding: Shedding,
        slices: int,
        decisions: float = 8.0,
        window_size: float = 0.0,
        received: int = 0,
        count_budget: float = inf,
        lost: float = 0.0,
        load: Load | None = None,
        readings: Sequence[DetectorReading] = (),
        of_present: bool = False,
        keep: float = 1.0,
        found: float = 0.0,
        unlimited_work: float = 0.0,
    ) -> None:
        self.plan, self.keep = plan, keep
        self.load: Load = load or Load(0.0)
        self.readings: Sequence[DetectorReading] = readings
        self.of_present, self.slices = of_present, slices
        self.decisions = decisions
        self.window_size, self.received = window_size, received
        self.count_budget: float = count_budget
        self.lost, self.found, self.unlimited_work = lost, found, unlimited_work
        self._shedding = shedding

    @cached_property
    def counted(self) -> Mapping[str, Ints]:
        """Counters since the engine was created, see `Shedding.counted`."""
        return self._shedding.counted()

    @cached_property
    def live(self) -> Ints:
        """Number of live partial matches: int64[states, classes, slices]. Visits every row."""
        return self._shedding.count_rows(self.slices)

    @property
    def on_wall_clock(self) -> bool:
        """True if events wait while the shedder computes; on the virtual clock they do not."""
        return self.count_budget < inf

    def flows(self) -> Flows:
        """Return the children counted since the last call, as `DropPlan.counts` requested; see `Shedding.flows`."""
        return self._shedding.flows()

    @property
    def classes(self) -> int:
        """Largest number of classes of a state."""
        return self._shedding.stride

    @property
    def event_classes(self) -> int:
        """Largest number of event classes of a variable."""
        return self._shedding.event_stride


class Shedder(Protocol):
    """Chooses what to drop. A subclass has to implement only `decide`, `detector` and `spec`.

    Attributes
    ----------
    name
        Its spelling.
    seed
        Seed of all random decisions.
    drops_matches
        Whether it drops partial matches or refuses their births; this requires the row store.
    in_windows
        Whether it drops events in single windows; this requires isolated windows, also under ``SELECT each``: windows
        that share a partial match cannot drop one of its events in only one of them. Demands then take effect at once.
    often
        Whether it drops only at decisions, so that decisions must be frequent whatever they cost.
    slices
        Number of slices of time into which it divides windows, if that does not depend on the query.
    observes
        Whether the matcher records the lineage of partial matches, see `fastcep.shedding.lineage`. Such a shedder must
        not drop anything.
    cuts
        Whether the work for single events is limited to the bound, see `fastcep.overload.work_limit`.
    limits_backlog
        Whether events are dropped in addition if the backlog would exceed the bound although load is shed, see
        `fastcep.overload.backlog_limit`. False for a shedder that by definition drops nothing but partial matches,
        and for one that uses the whole bound for its queue.
    """

    name: str
    seed: int = 0
    drops_matches: bool = False
    in_windows: bool = False
    often: bool = False
    slices: int = 1
    observes: bool = False
    cuts: bool = False
    limits_backlog: bool = True

    def check(self, query: ast.Query) -> None:
        """Raise `ModelError` for a query that it cannot shed for. The default accepts every query."""
        return

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of partial matches, by the variable bound last. The default is a single class."""
        return {}

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """Return the classes of events, by the variable that they may be bound to. The default is a single class."""
        return {}

    @abstractmethod
    def detector(self, of: str) -> Detector:
        """Return the default detector for ``latency`` (processing), ``queue`` or ``memory``."""
        ...

    def slices_of(self, query: ast.Query) -> int:
        """Return the number of slices of time for the windows of a query. The default is `slices`."""
        return self.slices

    def learn(self, views: Sequence[QueryView]) -> None:
        """Learn from the counters. It is called before `decide`, if there is time for it."""
        return

    @abstractmethod
    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a drop plan for each query.

        Parameters
        ----------
        demand
            Share of the work to save.
        before
            Largest demand of the last window: the level to which live partial matches are already thinned. It is 0 if
            the demand is a share of the present state.
        views
            The queries.
        """
        ...

    def utility(self, view: QueryView) -> Floats | None:
        """Return the utility of partial matches: float64[states, classes, slices]; None: unknown, the default.

        Partial matches with a larger utility are dropped later. `Engine.partial_matches` shows it.
        """
        return None

    def match_rate(self, query: ast.Query) -> MatchRate | None:
        """Return the match rate of the history of its model, to estimate the recall.

        It is called after `decide`. None, the default: it has no model, the rate is unknown, or the stream has changed
        from the history or could have changed unnoticed.
        """
        return None

    def stop_shedding(self) -> None:
        """Handle the end of shedding: there is no demand any more, and all drop plans are cleared."""
        return

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values. A snapshot can be restored only with the same ones."""
        ...

    def metrics(self) -> dict[str, Any]:
        """Return metrics for users as JSON values. The default has none."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values. The default has none."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        return


class Detector(Protocol):
    """Measures how far the engine is from its bound. A subclass has to implement only `read` and `spec`.

    Attributes
    ----------
    name
        Its spelling.
    statistic
        Statistic of the processing latency for `Load.smoothed`: ``mean``, ``p95`` or ``p99``.
    allowed
        Share of the events that may exceed the bound, for a bound on a percentile; 0 for other bounds.
    """

    name: str
    statistic: str = "mean"
    allowed: float = 0.0

    @abstractmethod
    def read(self, load: Load) -> DetectorReading:
        """Compare the load with the bound."""
        ...

    def note_decision(self, partial_matches: int, cost: float) -> None:
        """Learn the cost of a decision to shed, in ns, at a number of partial matches. The default ignores it."""
        return

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return its name and options as JSON values."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the learned state as JSON values. The default has none."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        return
