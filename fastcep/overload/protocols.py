"""What the engine's overload control, detectors and shedders tell each other.

The control measures, a *detector* says how far the engine is from its bound, the control makes of that a *demand*:
which share of the work that would be done without shedding is to be saved. A *shedder* turns the demand into *orders*:
chances with which events, births of partial matches, or partial matches are dropped. The matcher carries them out by
looking them up (``fastcep._core.shed.drop``), so that between two decisions no Python runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from fastcep._core.matcher.shedding_controls import NODE, Shedding
from fastcep.errors import ValidationError
from fastcep.plan import Plan
from fastcep.query import ast

if TYPE_CHECKING:
    from fastcep._core.matcher.shedding_controls import Flows

__all__ = ["Classes", "Detector", "DetectorReading", "DropPlan", "Load", "QueryView", "Shedder", "Tree"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 15  # rows that are classified at once


@dataclass(frozen=True)
class Classes:
    """How partial matches that have bound some variable last are told apart, or the events that may be bound to it.

    Attributes
    ----------
    features
        Expressions over the variables bound so far, such as ``"a.V + b.V"``, or over the event alone, such as
        ``"b.V"``; of floats the whole part counts (rounded down).
    low
        Per feature the smallest value that the table knows.
    table
        uint8, a dimension per feature: the class of each combination of values, from ``low`` on.
    other
        The class where a value is null or not in the table.
    """

    features: tuple[str, ...]
    low: tuple[int, ...]
    table: npt.NDArray[np.uint8]
    other: int = 0

    @property
    def count(self) -> int:
        """How many classes there are."""
        return max(int(self.table.max(initial=0)), self.other) + 1

    def of(self, values: Floats, null: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
        """Tell classes, as the matcher does.

        Parameters
        ----------
        values
            float64[n, features].
        null
            bool[n, features]; what stands in `values` there does not count.

        Returns
        -------
        uint8[n]
        """
        known = ~null.any(axis=1)
        at = np.zeros(len(values), np.int64)
        for number, (low, size) in enumerate(zip(self.low, self.table.shape, strict=True)):
            place = np.floor(np.where(known, values[:, number], low)) - low
            known &= (place >= 0) & (place < size)
            at = at * size + np.where(known, place, 0).astype(np.int64)
        return np.where(known, self.table.reshape(-1)[at], np.uint8(self.other)).astype(np.uint8)


@dataclass(frozen=True)
class Tree:
    """The same by a decision tree: for features of many values, or reals, of which all digits count.

    Attributes
    ----------
    features
        As of `Classes`.
    feature, threshold, left, right, value
        Per node: which feature it asks for (-1: a leaf); a value that is at most the threshold goes left, the others
        right; the class of a leaf. The first one is the root, and children come after their parents.
    other
        The class where a value is null, or no number.
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
        """How many classes there are."""
        return max(int(self.value[self.feature < 0].max(initial=0)), self.other) + 1

    def of(self, values: Floats, null: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
        """Tell classes, see `Classes.of`."""
        found = np.empty(len(values), np.uint8)
        for at in range(0, len(values), _CHUNK):  # so that the walk stays in the processor's cache
            found[at : at + _CHUNK] = self._walk(np.ascontiguousarray(values[at : at + _CHUNK].T))
        missing = null | np.isnan(values)
        if missing.any():
            found[missing.any(axis=1)] = self.other
        return found

    def _walk(self, columns: Floats) -> npt.NDArray[np.uint8]:
        node = np.zeros(columns.shape[1], np.int32)
        rows = np.arange(columns.shape[1])
        while True:
            asks = self.feature[node[rows]]
            rows, asks = rows[asks >= 0], asks[asks >= 0]
            if not len(rows):
                return self.value[node]
            at = node[rows]
            node[rows] = np.where(columns[asks, rows] <= self.threshold[at], self.left[at], self.right[at])

    def check(self) -> None:
        """Refuse nodes that ask for no feature of it, or lead back or nowhere, as the matcher would follow them."""
        inner = np.flatnonzero(self.feature >= 0)
        if not (self.feature < len(self.features)).all() or any(
            not ((of[inner] > inner) & (of[inner] < len(self.feature))).all() for of in (self.left, self.right)
        ):
            raise ValidationError("a tree's nodes ask for features that it has, and lead to nodes behind them")

    @cached_property
    def nodes(self) -> npt.NDArray[np.void]:
        """As the matcher reads them."""
        self.check()
        found = np.zeros(len(self.feature), NODE)
        found["feature"], found["left"], found["right"] = self.feature, self.left, self.right
        found["own"], found["threshold"] = np.where(self.feature < 0, self.value, 0), self.threshold
        return found


class QueryView:
    """What a shedder sees of one query.

    Arrays by state are in the order of `Plan.states`, those by type in that of the schema.

    Parameters
    ----------
    plan
        The query's.
    shedding
        Its matcher's side.
    slices
        Into how many slices of time the shedder cuts the window.
    decisions
        How many decisions are made in a window.
    window
        How many events a window has.
    taken
        How many events the query has been given.
    spare
        How many children may be counted per event, so that it takes little of the time.
    lost
        Which share of the matches is lost as events are cut off, by estimate.
    """

    def __init__(
        self,
        plan: Plan,
        shedding: Shedding,
        slices: int,
        decisions: float = 8.0,
        window: float = 0.0,
        taken: int = 0,
        spare: float = inf,
        lost: float = 0.0,
    ) -> None:
        self.plan = plan
        self.slices = slices
        self.decisions = decisions
        self.window, self.taken, self.spare, self.lost = window, taken, spare, lost
        self._shedding = shedding

    @cached_property
    def counted(self) -> Mapping[str, Ints]:
        """Counters since the begin, see `Shedding.counted`."""
        return self._shedding.counted()

    @cached_property
    def live(self) -> Ints:
        """Live partial matches: int64[states, classes, slices]. Looks at all of them."""
        return self._shedding.count_rows(self.slices)

    def flows(self) -> Flows:
        """What was counted since they were asked for last, as `DropPlan.counts` wanted it; see `Shedding.flows`."""
        return self._shedding.flows()

    @property
    def classes(self) -> int:
        """How many classes the state with most has."""
        return self._shedding.stride

    @property
    def event_classes(self) -> int:
        """How many classes of events the variable with most has."""
        return self._shedding.event_stride


@dataclass(slots=True)
class DropPlan:
    """What is dropped of one query until the next decision; None: nothing. Chances are float64 from 0 to 1.

    Attributes
    ----------
    events
        By type. An event is dropped for all queries that have the same chance, or for those with the larger ones.
    binds
        By variable and class of the event: that an event is not tried for the variable; where it is tried for none, it
        is dropped.
    windows, bin
        By type and place in an isolated window, in steps of `bin` events.
    births
        By state and class, or by state, class and slice of the window: that a partial match is not made.
    drops
        By state, class and slice: that a partial match is dropped now.
    steady
        Whether `drops` are chances that their births should have been refused: then those fall that would not be there
        now. Else they are drawn anew at each decision.
    kept
        The share of the query's matches that are found nevertheless, as the shedder expects, as long as this stands:
        for what comes. None: it does not know, and as long as it drops something the recall is unknown, too.
    left
        The share of the matches under way that are left by `drops`; None: it does not know.
    saved
        The share of the work that is saved, as the shedder expects, if that is more than was demanded: as it loses
        nothing. The demand stands as long as it would be needed without.
    counts
        The share of the events whose children are counted by what they come of, for `QueryView.flows`.
    """

    events: Floats | None = None
    binds: Floats | None = None
    windows: Floats | None = None
    bin: int = 1
    births: Floats | None = None
    drops: Floats | None = None
    steady: bool = False
    kept: float | None = None
    left: float | None = None
    saved: float = 0.0
    counts: float = 0.0

    def known_kept(self) -> float | None:
        """`kept`; 1 if it is None and nothing is dropped."""
        tables = (self.events, self.binds, self.windows, self.births)
        return 1.0 if self.kept is None and not any(map(_drops, tables)) else self.kept

    def known_left(self) -> float | None:
        """`left`; 1 if it is None and nothing is dropped."""
        return 1.0 if self.left is None and not _drops(self.drops) else self.left


def _drops(table: Floats | None) -> bool:
    return table is not None and bool(table.any())


class Shedder(Protocol):
    """Chooses what is dropped. What inherits from it needs no more than `decide`, `detector` and `spec`.

    Attributes
    ----------
    name
        Its spelling.
    seed
        Of all that is drawn.
    drops_matches
        Whether it drops, or refuses, partial matches: then there must be rows of them.
    in_windows
        Whether it keeps events out of single windows: then these must be isolated.
    often
        Whether it drops at decisions only, so that these must not be rare whatever they cost.
    slices
        Into how many slices of time it cuts windows, if that does not depend on the query.
    observes
        Whether a record of all partial matches is kept, see `fastcep.shedding.lineage`; it must drop nothing.
    cuts
        Whether the work for single events is cut off at the bound, see `fastcep.overload.work_limit`.
    """

    name: str
    seed: int = 0
    drops_matches: bool = False
    in_windows: bool = False
    often: bool = False
    slices: int = 1
    observes: bool = False
    cuts: bool = False

    def check(self, query: ast.Query) -> None:
        """Refuse a query that it cannot shed for: `ModelError`. It takes every one."""
        return

    def classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """How partial matches are told apart, by the variable bound last. All are of one class."""
        return {}

    def event_classes(self, query: ast.Query) -> Mapping[str, Classes | Tree]:
        """How events are told apart, by the variable that they may be bound to. All are of one class."""
        return {}

    @abstractmethod
    def detector(self, of: str) -> Detector:
        """The detector that it usually goes with: of ``latency`` (processing), ``queue``, or ``memory``."""
        ...

    def slices_of(self, query: ast.Query) -> int:
        """Into how many slices of time it cuts the windows of a query: `slices`."""
        return self.slices

    def learn(self, views: Sequence[QueryView]) -> None:
        """Take into account what was counted; called before `decide`, where there is time for it."""
        return

    @abstractmethod
    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Say for each query what to drop, to save the share ``demand`` of the work.

        ``before`` is the largest demand of the last window, to which the partial matches that live have been thinned
        out; 0 where the demand is on what there is now.
        """
        ...

    def rest(self) -> None:
        """Nothing is demanded any more: all orders are taken back."""
        return

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them: a snapshot goes on only with the same."""
        ...

    def metrics(self) -> dict[str, Any]:
        """What people may want to know of it: nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it: nothing."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        return


@dataclass(slots=True)
class Load:
    """What is measured, when a detector is asked. Times are ns.

    Attributes
    ----------
    bound
        The latency bound, if there is one.
    smoothed
        The processing latency, by the detector's statistic over the last events.
    recent
        Its mean over the events since the last decision.
    busy
        The same with what the last decision cost: how long the engine is busy with an event.
    waited
        How long the last event has waited in the queue.
    queue
        How many events wait.
    arrivals
        Events that arrive per ns; 0 if nobody knows.
    partial_matches
        How many live.
    memory, memory_limit
        Bytes.
    events
        How many have been taken since the last decision.
    shedding
        Whether anything is demanded now.
    over
        Which share of them took longer than the bound.
    cut
        Whether events are cut off at the bound, so that no more of them are above it than may.
    """

    bound: float
    smoothed: float = 0.0
    recent: float = 0.0
    busy: float = 0.0
    waited: float = 0.0
    queue: int = 0
    arrivals: float = 0.0
    partial_matches: int = 0
    memory: int = 0
    memory_limit: int = 0
    events: int = 0
    shedding: bool = False
    over: float = 0.0
    cut: bool = False


@dataclass(slots=True)
class DetectorReading:
    """What a detector says.

    Attributes
    ----------
    excess
        How far the load is above (or below: negative) what it should be, as a share of that.
    utilisation
        Of a queue: arrivals by what is done in the same time; 1 keeps its length. None without a queue.
    amount
        The share of what there is now that is too much, if the detector knows it; None: the control finds out.
    why
        What is above its limit, for people.
    """

    excess: float
    utilisation: float | None = None
    amount: float | None = None
    why: str = field(default="")


class Detector(Protocol):
    """Says how far the engine is from its bound. What inherits from it needs no more than `read` and `spec`.

    Attributes
    ----------
    name
        Its spelling.
    statistic
        Of the processing latency that it wants in `Load.smoothed`: ``mean``, ``p95`` or ``p99``.
    allowed
        Of a percentile, which share of the events may be above the bound; 0: it is on something else.
    """

    name: str
    statistic: str = "mean"
    allowed: float = 0.0

    @abstractmethod
    def read(self, load: Load) -> DetectorReading:
        """Judge what is measured."""
        ...

    def note_decision(self, partial_matches: int, cost: float) -> None:
        """Learn what a decision to shed cost, in ns, with so many partial matches. It does not matter."""
        return

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Its name and options, as JSON has them."""
        ...

    def state(self) -> dict[str, Any]:
        """What it has learned, as JSON has it: nothing."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        return
