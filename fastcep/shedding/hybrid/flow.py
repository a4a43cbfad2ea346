"""Flow of partial matches from class to class: the model on which hybrid shedding bases its decisions.

The flow of each piece of history is counted separately, and the flows are added up (`total`), in one process or on
Spark. A *group* is a class of partial matches of a state, a *kind* a class of events of a variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.fit.cascade import Cascade
from fastcep.overload.costs import CostTable
from fastcep.overload.protocols import Classes, Tree
from fastcep.shedding.hybrid.attribution import Account

__all__ = ["Flow", "Step", "Windows", "count_flow", "merged_groups", "total"]

Floats = npt.NDArray[np.float64]
Shorts = npt.NDArray[np.int32]
Bits = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Kinds = Mapping[str, Classes | Tree]  #: by variable

#: Largest and smallest number of windows from which the dispersion is estimated.
_WINDOWS, _FEWEST = 4096, 8
_CHILD, _LOOK = ("source", "slice", "kind", "target"), ("group", "slice", "kind")


@dataclass(frozen=True)
class Step:
    """Next class in the order of dropping.

    Attributes
    ----------
    events
        Whether the class is one of events.
    owner, number
        Number of the variable (for events) or state, and of the class.
    slice
        Slice of the window from which on partial matches are dropped; 0: births are refused.
    saved, kept
        Share of the work that is saved, and of the matches that is kept, by this and all previous steps.
    """

    events: bool
    owner: int
    number: int
    slice: int
    saved: float
    kept: float


@dataclass(frozen=True)
class Windows:
    """Consecutive stretches of the whole stream, each as long as a window, from which the dispersion is estimated.

    Attributes
    ----------
    length
        Number of events of a stretch; the first begins with the stream.
    first, last
        Range of the stretches that count; ``last`` is not included. It is empty if there are too few.
    """

    length: int
    first: int
    last: int

    @classmethod
    def of(cls, reach: int, events: int) -> Windows:
        """Return the stretches for a stream of ``events`` events; ``reach`` as in `Account.reach`."""
        length = 1 + max(0, round(reach / max(events, 1)))
        last = events // length - 1  # the windows of the last stretch are incomplete, as is the first stretch
        first = max(1, last - _WINDOWS)
        return cls(length, first, last) if reach >= 0 and last - first >= _FEWEST else cls(length, 0, 0)


@dataclass(frozen=True)
class Flow:
    """Numbers of partial matches created from partial matches, by class, in a stretch of a stream without drops.

    Attributes
    ----------
    events
        Number of events.
    states, stride
        Number of states, and largest number of classes of a state: a group is ``state * stride + class``.
    members, event_stride
        Number of variables, and largest number of event classes of a variable: a kind is
        ``variable * event_stride + class``.
    slices
        Number of slices of the window.
    children
        A row for each sort of child: ``source`` (a group; -1: the child begins a match), ``slice`` (of the source),
        ``kind``, ``target`` (a group), all int32, and the numbers ``made``, ``stored`` and ``matched`` (float64).
    looks
        Visits of rows: ``group``, ``slice``, ``kind`` (int32), and the number ``looked`` (float64).
    asked
        Number of events tried, by kind: float64[kinds].
    lengths
        Mean number of events that a partial match of a state binds: float64[states].
    memory
        Whether consumption is memory (the lengths of partial matches) instead of work.
    dispersion
        Variance-to-mean ratio, over windows, of the number of children in a state created from a group (row 0: children
        that begin a match): float64[1 + groups, states]. It is 1 for independent children.
    windows, by_window
        For a piece of a stream, to compute the `dispersion` of the whole: the stretches of the whole stream, and the
        number ``made`` for each ``pair`` (an index into `dispersion`) and ``window``.
    """

    events: float
    states: int
    stride: int
    members: int
    event_stride: int
    slices: int
    children: pa.Table
    looks: pa.Table
    asked: Floats
    lengths: Floats
    memory: bool = False
    dispersion: Floats | None = None
    windows: Windows | None = None
    by_window: pa.Table | None = None

    def without_windows(self) -> Flow:
        """Return the flow without the counts that are needed only to add flows up."""
        return replace(self, windows=None, by_window=None)

    @cached_property
    def child(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of `children`."""
        return _columns(self.children)

    @cached_property
    def look(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of `looks`."""
        return _columns(self.looks)

    @property
    def per_event(self) -> float:
        """Number of children created per event."""
        return float(self.child["made"].sum()) / self.events

    @property
    def births(self) -> Floats:
        """Number of partial matches stored in each state: float64[states]."""
        states = self.child["target"] // self.stride
        return np.bincount(states, self.child["stored"], self.states).astype(np.float64)

    def cascade(self, costs: CostTable, events: bool = True, rows: bool = True) -> Cascade:
        """Return the cascade, which computes the effects of dropping events, partial matches, or both."""
        child, look = self.child, self.look
        return Cascade(
            child["source"], child["slice"], child["kind"], child["target"], child["stored"], child["matched"],
            look["group"], look["slice"], look["kind"], look["looked"],
            self.states * self.stride, self.slices, self.members * self.event_stride,
            np.array([0.0, 0.0, 0.0] if self.memory else [costs.visited, costs.match, costs.refused]),
            np.repeat(self.lengths if self.memory else np.full(self.states, costs.created), self.stride), events, rows,
        )  # fmt: skip

    def steps(self, costs: CostTable, events: bool = True, rows: bool = True) -> list[Step]:
        """Return the order of dropping: least contribution per consumption first."""
        return self.counted_steps(costs, events, rows)[0]

    def counted_steps(self, costs: CostTable, events: bool = True, rows: bool = True) -> tuple[list[Step], int]:
        """Return the order of dropping, and the number of updates that it took, see `Cascade.updates`."""
        cascade = self.cascade(costs, events, rows)
        fixed = self.fixed(costs)
        cost, found = cascade.cost + fixed, cascade.matches
        dropped, remaining = cascade.steps()
        steps = [
            self._step(bool(is_event), item, first_slice, max(0.0, 1 - (work + fixed) / cost), matches / found)
            for (is_event, item, first_slice), (work, matches) in zip(
                dropped.tolist(), remaining.tolist(), strict=True
            )
        ]
        return steps, cascade.updates

    def fixed(self, costs: CostTable) -> float:
        """Return the cost of the events that no drop saves."""
        return 0.0 if self.memory else self.events * costs.event + float(self.asked.sum()) * costs.relevant

    def _step(self, events: bool, item: int, first_slice: int, saved: float, kept: float) -> Step:
        owner, number = divmod(item, self.event_stride if events else self.stride)
        return Step(events, owner, number, first_slice, saved, kept)


def count_flow(account: Account, classes: Kinds, event_classes: Kinds, windows: Windows | None = None) -> Flow:
    """Count the flow of a piece of history: the children that its owned events create, and the visits of these.

    Parameters
    ----------
    account
        Account of the piece.
    classes, event_classes
        Classes of partial matches, and of events, by variable.
    windows
        Stretches of the whole stream, so that the flows of all pieces add up to that of the stream. None: the piece is
        the whole stream.
    """
    record = account.record
    states, members = len(record.plan.states), len(record.plan.negated)
    stride = max([1, *(table.count for table in classes.values())])
    event_stride = max([1, *(table.count for table in event_classes.values())])
    groups = record.states.astype(np.int32) * stride
    for name, table in classes.items():
        for state in account.states_of(name):
            rows, values, null = record.features(state)
            groups[rows] += _classify(table, account.features[name], values, null)
    keys, kinds = record.tried * members + record.tried_for, record.tried_for.astype(np.int32) * event_stride
    for name, table in event_classes.items():
        member = account.members.index(name)
        _, values, null = record.event_features(member)
        kinds[record.tried_for == member] += _classify(table, account.event_features[name], values, null)
    kind = kinds[np.searchsorted(keys, record.events * members + record.variables)]
    probing = record.probed * members + record.asked_for
    visits = account.visits(groups, states * stride, kinds[np.searchsorted(keys, probing)], members * event_stride)
    source = np.where(record.parents < 0, -1, groups[record.parents]).astype(np.int32)
    first, last = account.owned
    stretches = windows or Windows.of(account.reach, last - first)
    by_window = _count_by_window(account, source, states, stretches)
    flow = Flow(
        float(last - first), states, stride, members, event_stride, account.slices,
        _children(account, source, kind, groups), _visit_table(visits),
        np.bincount(kinds[account.owns(record.tried)], minlength=members * event_stride).astype(np.float64),
        _lengths(account, states), account.memory, None, stretches, by_window,
    )  # fmt: skip
    flow = replace(flow, dispersion=_dispersion(flow))
    return flow if windows else flow.without_windows()


def _classify(classes: Classes | Tree, names: Sequence[str], values: Floats, null: Bits) -> Bytes:
    columns = [list(names).index(feature) for feature in classes.features]
    return classes.classify(values[:, columns], null[:, columns])


def total(flows: Sequence[Flow]) -> Flow:
    """Add up the flows of several pieces of one stream, counted with the same classes.

    If they were counted with the stretches of the whole stream, the result is the flow of the whole stream. Otherwise
    the dispersion is only the mean of those of the pieces.
    """
    dispersions = [(flow.dispersion, flow.events) for flow in flows if flow.dispersion is not None]
    tables = [flow.by_window for flow in flows if flow.by_window is not None and flow.windows == flows[0].windows]
    is_whole = len(tables) == len(flows)
    bound = [flow.lengths * flow.births for flow in flows]
    births = sum(flow.births for flow in flows)
    flow = replace(
        flows[0],
        events=sum(flow.events for flow in flows),
        children=_summed([flow.children for flow in flows], _CHILD, ("made", "stored", "matched")),
        looks=_summed([flow.looks for flow in flows], _LOOK, ("looked",)),
        asked=np.sum([flow.asked for flow in flows], axis=0),
        lengths=np.sum([np.rint(events) for events in bound], axis=0) / np.maximum(births, 1.0),
        dispersion=_weighted_mean(dispersions),
        windows=flows[0].windows if is_whole else None,
        by_window=_summed(tables, ("pair", "window"), ("made",)) if is_whole else None,
    )  # fmt: skip
    return replace(flow, dispersion=_dispersion(flow)) if is_whole else flow


def merged_groups(flow: Flow, by_state: Sequence[Labels | None], by_variable: Sequence[Labels | None]) -> Flow:
    """Merge classes of a flow.

    Parameters
    ----------
    flow
        Flow of the whole stream, with its counts by window.
    by_state, by_variable
        New number of each class, for each state and each variable; None keeps a single class.
    """
    stride, groups = _renumbered(by_state, flow.stride)
    event_stride, kind = _renumbered(by_variable, flow.event_stride)
    group = np.append(groups, np.int32(-1))  # the last one is for START
    child, look = flow.child, flow.look
    child_columns = [
        group[child["source"]], child["slice"], kind[child["kind"]], group[child["target"]], child["made"],
        child["stored"], child["matched"],
    ]  # fmt: skip
    children = pa.table(child_columns, names=flow.children.column_names)
    look_columns = [group[look["group"]], look["slice"], kind[look["kind"]], look["looked"]]
    looks = pa.table(look_columns, names=flow.looks.column_names)
    assert flow.by_window is not None
    windows = _columns(flow.by_window)
    source, state = np.divmod(windows["pair"], flow.states)
    pair = (group[source - 1].astype(np.int64) + 1) * flow.states + state
    by_window = pa.table([pair, windows["window"], windows["made"]], names=flow.by_window.column_names)
    flow = replace(
        flow, stride=stride, event_stride=event_stride,
        children=_summed([children], _CHILD, ("made", "stored", "matched")), looks=_summed([looks], _LOOK, ("looked",)),
        asked=np.bincount(kind, flow.asked, flow.members * event_stride).astype(np.float64),
        by_window=_summed([by_window], ("pair", "window"), ("made",)),
    )  # fmt: skip
    return replace(flow, dispersion=_dispersion(flow))


def _renumbered(labels: Sequence[Labels | None], stride: int) -> tuple[int, Shorts]:
    """Return the new stride, and the new number of each group (or kind): int32."""
    new_stride = max([1, *(int(of_owner.max()) + 1 for of_owner in labels if of_owner is not None and len(of_owner))])
    numbers = np.zeros((len(labels), stride), np.int32)
    for owner, of_owner in enumerate(labels):
        if of_owner is not None:
            numbers[owner, : len(of_owner)] = of_owner
        numbers[owner] += owner * new_stride
    return new_stride, numbers.reshape(-1)


def _weighted_mean(weighted: Sequence[tuple[Floats, float]]) -> Floats | None:
    return np.average([values for values, _ in weighted], 0, [weight for _, weight in weighted]) if weighted else None


def _summed(tables: Sequence[pa.Table], keys: Sequence[str], counts: Sequence[str]) -> pa.Table:
    added = pa.concat_tables(tables).group_by(list(keys)).aggregate([(name, "sum") for name in counts])
    return added.rename_columns([*keys, *counts]).sort_by([(name, "ascending") for name in keys])


def _count_by_window(account: Account, source: Shorts, states: int, windows: Windows) -> pa.Table:
    """Count the children of each pair of a source and a state, by window."""
    record, count = account.record, max(windows.last - windows.first, 1)
    window = (account.base + record.events) // windows.length
    inside = account.is_owned & (window >= windows.first) & (window < windows.last)
    pair = (source[inside] + 1).astype(np.int64) * states + record.states[inside]
    pairs, number = np.unique(pair, return_inverse=True)
    counts = np.bincount(number * count + window[inside] - windows.first, minlength=len(pairs) * count)
    cells = np.flatnonzero(counts)
    columns = [pairs[cells // count], windows.first + cells % count, counts[cells].astype(np.float64)]
    return pa.table(columns, names=["pair", "window", "made"])


def _dispersion(flow: Flow) -> Floats:
    """Return the dispersion over windows; 1 if there are too few windows."""
    dispersion = np.ones((1 + flow.states * flow.stride) * flow.states)
    assert flow.windows is not None and flow.by_window is not None
    count, columns = flow.windows.last - flow.windows.first, _columns(flow.by_window)
    if count and len(flow.by_window):
        pairs, number = np.unique(columns["pair"], return_inverse=True)
        by_window = np.zeros((len(pairs), count))
        by_window[number, columns["window"] - flow.windows.first] = columns["made"]
        dispersion[pairs] = np.maximum(by_window.var(axis=1, ddof=1) / by_window.mean(axis=1), 1.0)
    return dispersion.reshape(-1, flow.states)


def _columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _lengths(account: Account, states: int) -> Floats:
    rows = account.stored & account.is_owned
    row_states = account.record.states[rows]
    total = np.bincount(row_states, account.lengths[rows], states)
    return total / np.maximum(np.bincount(row_states, minlength=states), 1)


def _children(account: Account, source: Shorts, kind: Shorts, target: Shorts) -> pa.Table:
    owned = account.is_owned
    columns = [column if owned.all() else column[owned] for column in (source, account.born, kind, target)]
    sizes = [int(column.max(initial=0)) + 2 for column in columns]
    key = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + column + 1
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    ones, stored, matched = np.ones(len(key)), account.stored[owned], account.matched[owned]
    counted = [np.bincount(number, weights, len(first)).astype(np.float64) for weights in (ones, stored, matched)]
    names = [*_CHILD, "made", "stored", "matched"]
    return pa.table([*(column[first] for column in columns), *counted], names=names)


def _visit_table(counts: Floats) -> pa.Table:
    group, age, kind = (index.astype(np.int32) for index in np.nonzero(counts))
    return pa.table([group, age, kind, counts[group, age, kind]], names=["group", "slice", "kind", "looked"])
