"""How partial matches come of each other, class by class: the model that hybrid shedding decides by.

Of every piece of history the flow is counted by itself, and the flows are added up (`total`): in one process, or as
Spark adds them up. Groups are classes of partial matches of a state, kinds are classes of events of a variable.
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

__all__ = ["Flow", "Step", "Windows", "count_flow", "total"]

Floats = npt.NDArray[np.float64]
Shorts = npt.NDArray[np.int32]
Bits = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Kinds = Mapping[str, Classes | Tree]  #: by variable

#: By so many windows it is told how much their numbers vary, and by how many at least.
_WINDOWS, _FEWEST = 4096, 8
_CHILD, _LOOK = ("source", "slice", "kind", "target"), ("group", "slice", "kind")


@dataclass(frozen=True)
class Step:
    """What is dropped next.

    Attributes
    ----------
    events
        Whether they are events: then ``of`` is a variable (its number), else a state.
    of, number
        Of which variable or state, and which class.
    slice
        From which slice of the window on partial matches fall; 0: none is born.
    saved, kept
        With this and all steps before: the share of the work that is saved, and of the matches that are left.
    """

    events: bool
    of: int
    number: int
    slice: int
    saved: float
    kept: float


@dataclass(frozen=True)
class Windows:
    """Stretches of the whole stream, one after the other, each as long as a window: it is told how these vary.

    Attributes
    ----------
    length
        Of each, in events; the first begins with the stream.
    first, last
        Which ones count: from the first on and up to before the last. None do where there are too few.
    """

    length: int
    first: int
    last: int

    @classmethod
    def of(cls, reach: int, events: int) -> Windows:
        """Of a stream, by how many events follow in the window of each, in sum, and how many there are.

        Below 0: windows have no known length.
        """
        length = 1 + max(0, round(reach / max(events, 1)))
        last = events // length - 1  # windows begin in every one but the last; the first is not full
        first = max(1, last - _WINDOWS)
        return cls(length, first, last) if reach >= 0 and last - first >= _FEWEST else cls(length, 0, 0)


@dataclass(frozen=True)
class Flow:
    """What came of what in a stretch of a stream from which nothing was dropped.

    Attributes
    ----------
    events
        How many there were.
    states, stride
        How many states there are, and classes of the state that has most: a group is ``state * stride + class``.
    members, event_stride
        The same of variables and classes of their events: kinds.
    slices
        Of the window.
    children
        A row for each kind of child: ``source`` (a group; -1: it begins a match), ``slice``, ``kind``, ``target``
        (int32), how many were ``made``, were ``stored`` and were ``matched`` (float64).
    looks
        ``group``, ``slice``, ``kind`` (int32), and how often rows were ``looked`` at (float64).
    asked
        float64[kinds]: how many events were tried.
    lengths
        float64[states]: how many events a partial match of a state binds, on the mean.
    memory
        Whether what is consumed is memory, the lengths of partial matches, and not work.
    varies
        float64[1 + groups, states]: of what is made of the partial matches of a group (the first row: of none) for a
        state, the variance from window to window by the mean: 1 where each comes by itself.
    windows, by_window
        Of a piece of a stream, so that `varies` can be told of all: the windows of the whole stream, and how much was
        ``made`` of each ``pair`` (a place in `varies`) in each ``window``.
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
    varies: Floats | None = None
    windows: Windows | None = None
    by_window: pa.Table | None = None

    def alone(self) -> Flow:
        """Without what only serves to add flows up."""
        return replace(self, windows=None, by_window=None)

    @cached_property
    def child(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of `children`."""
        return _columns(self.children)

    @cached_property
    def look(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of `looks`."""
        return _columns(self.looks)

    @property
    def per_event(self) -> float:
        """How many children are made per event."""
        return float(self.child["made"].sum()) / self.events

    @property
    def births(self) -> Floats:
        """How many partial matches were stored of each state: float64[states]."""
        states = self.child["target"] // self.stride
        return np.bincount(states, self.child["stored"], self.states).astype(np.float64)

    def cascade(self, prices: CostTable, events: bool = True, rows: bool = True) -> Cascade:
        """What follows if some of it is dropped: events, partial matches, or both."""
        child, look = self.child, self.look
        return Cascade(
            child["source"], child["slice"], child["kind"], child["target"], child["stored"], child["matched"],
            look["group"], look["slice"], look["kind"], look["looked"],
            self.states * self.stride, self.slices, self.members * self.event_stride,
            np.array([0.0, 0.0, 0.0] if self.memory else [prices.visited, prices.match, prices.refused]),
            np.repeat(self.lengths if self.memory else np.full(self.states, prices.created), self.stride), events, rows,
        )  # fmt: skip

    def steps(self, prices: CostTable, events: bool = True, rows: bool = True) -> list[Step]:
        """In which order it is best dropped, what contributes least per consumption first."""
        cascade = self.cascade(prices, events, rows)
        fixed = self.fixed(prices)
        cost, found = cascade.cost + fixed, cascade.matches
        what, left = cascade.steps()
        return [
            self._step(bool(is_event), item, at, 1 - (work + fixed) / cost, matches / found)
            for (is_event, item, at), (work, matches) in zip(what.tolist(), left.tolist(), strict=True)
        ]

    def fixed(self, prices: CostTable) -> float:
        """What events cost whatever becomes of them."""
        return 0.0 if self.memory else self.events * prices.event + float(self.asked.sum()) * prices.relevant

    def _step(self, events: bool, item: int, at: int, saved: float, kept: float) -> Step:
        of, number = divmod(item, self.event_stride if events else self.stride)
        return Step(events, of, number, at, saved, kept)


def count_flow(account: Account, classes: Kinds, event_classes: Kinds, windows: Windows | None = None) -> Flow:
    """Count the flow of a piece of history: what its owned events make, and how what they made is looked at.

    Parameters
    ----------
    account
        Of the piece.
    classes, event_classes
        By variable how partial matches are told apart, and events.
    windows
        Of the whole stream, so that flows of all its pieces add up to that of the stream. None: the piece is all.
    """
    record = account.record
    states, members = len(record.plan.states), len(record.plan.negated)
    stride = max([1, *(of.count for of in classes.values())])
    event_stride = max([1, *(of.count for of in event_classes.values())])
    groups = record.states.astype(np.int32) * stride
    for name, own in classes.items():
        for state in account.states_of(name):
            rows, values, null = record.features(state)
            groups[rows] += _told(own, account.features[name], values, null)
    keys, kinds = record.tried * members + record.tried_for, record.tried_for.astype(np.int32) * event_stride
    for name, own in event_classes.items():
        member = account.members.index(name)
        _, values, null = record.event_features(member)
        kinds[record.tried_for == member] += _told(own, account.event_features[name], values, null)
    kind = kinds[np.searchsorted(keys, record.events * members + record.members)]
    asking = record.probed * members + record.asked_for
    looks = account.visits(groups, states * stride, kinds[np.searchsorted(keys, asking)], members * event_stride)
    source = np.where(record.parents < 0, -1, groups[record.parents]).astype(np.int32)
    first, last = account.owned
    over = windows or Windows.of(account.reach, last - first)
    by_window = _by_window(account, source, states, over)
    flow = Flow(
        float(last - first), states, stride, members, event_stride, account.slices,
        _children(account, source, kind, groups), _looks(looks),
        np.bincount(kinds[account.owns(record.tried)], minlength=members * event_stride).astype(np.float64),
        _lengths(account, states), account.memory, None, over, by_window,
    )  # fmt: skip
    flow = replace(flow, varies=_varies(flow))
    return flow if windows else flow.alone()


def _told(own: Classes | Tree, names: Sequence[str], values: Floats, null: Bits) -> Bytes:
    columns = [list(names).index(feature) for feature in own.features]
    return own.of(values[:, columns], null[:, columns])


def total(flows: Sequence[Flow]) -> Flow:
    """The flow of several pieces of one stream, which are told apart in the same way.

    Where they were counted with the windows of the whole stream, it is the flow of the whole; else how much it varies
    is only the mean of what it does in the pieces.
    """
    varies = [(flow.varies, flow.events) for flow in flows if flow.varies is not None]
    tables = [flow.by_window for flow in flows if flow.by_window is not None and flow.windows == flows[0].windows]
    whole = len(tables) == len(flows)
    made = [flow.lengths * flow.births for flow in flows]
    births = sum(flow.births for flow in flows)
    found = replace(
        flows[0],
        events=sum(flow.events for flow in flows),
        children=_summed([flow.children for flow in flows], _CHILD, ("made", "stored", "matched")),
        looks=_summed([flow.looks for flow in flows], _LOOK, ("looked",)),
        asked=np.sum([flow.asked for flow in flows], axis=0),
        lengths=np.sum([np.rint(own) for own in made], axis=0) / np.maximum(births, 1.0),
        varies=np.average([own for own, _ in varies], 0, [events for _, events in varies]) if varies else None,
        windows=flows[0].windows if whole else None,
        by_window=_summed(tables, ("pair", "window"), ("made",)) if whole else None,
    )  # fmt: skip
    return replace(found, varies=_varies(found)) if whole else found


def _summed(tables: Sequence[pa.Table], keys: Sequence[str], counts: Sequence[str]) -> pa.Table:
    added = pa.concat_tables(tables).group_by(list(keys)).aggregate([(name, "sum") for name in counts])
    return added.rename_columns([*keys, *counts]).sort_by([(name, "ascending") for name in keys])


def _by_window(account: Account, source: Shorts, states: int, windows: Windows) -> pa.Table:
    """What was made of each pair of a source and a state, by window."""
    record, many = account.record, max(windows.last - windows.first, 1)
    at = (account.base + record.events) // windows.length
    inside = account.mine & (at >= windows.first) & (at < windows.last)
    pair = (source[inside] + 1).astype(np.int64) * states + record.states[inside]
    pairs, of = np.unique(pair, return_inverse=True)
    counts = np.bincount(of * many + at[inside] - windows.first, minlength=len(pairs) * many)
    some = np.flatnonzero(counts)
    columns = [pairs[some // many], windows.first + some % many, counts[some].astype(np.float64)]
    return pa.table(columns, names=["pair", "window", "made"])


def _varies(flow: Flow) -> Floats:
    """How much what is made varies from window to window; 1 where there are too few windows to tell."""
    found = np.ones((1 + flow.states * flow.stride) * flow.states)
    assert flow.windows is not None and flow.by_window is not None
    many, own = flow.windows.last - flow.windows.first, _columns(flow.by_window)
    if many and len(flow.by_window):
        pairs, of = np.unique(own["pair"], return_inverse=True)
        by_window = np.zeros((len(pairs), many))
        by_window[of, own["window"] - flow.windows.first] = own["made"]
        found[pairs] = np.maximum(by_window.var(axis=1, ddof=1) / by_window.mean(axis=1), 1.0)
    return found.reshape(-1, flow.states)


def _columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _lengths(account: Account, states: int) -> Floats:
    rows, of = account.stored & account.mine, account.record.states
    return np.bincount(of[rows], account.lengths[rows], states) / np.maximum(np.bincount(of[rows], minlength=states), 1)


def _children(account: Account, source: Shorts, kind: Shorts, target: Shorts) -> pa.Table:
    mine = account.mine
    columns = [column if mine.all() else column[mine] for column in (source, account.born, kind, target)]
    sizes = [int(column.max(initial=0)) + 2 for column in columns]
    key = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + column + 1
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    ones, stored, matched = np.ones(len(key)), account.stored[mine], account.matched[mine]
    counted = [np.bincount(which, of, len(first)).astype(np.float64) for of in (ones, stored, matched)]
    names = [*_CHILD, "made", "stored", "matched"]
    return pa.table([*(column[first] for column in columns), *counted], names=names)


def _looks(counts: Floats) -> pa.Table:
    group, at, kind = (index.astype(np.int32) for index in np.nonzero(counts))
    return pa.table([group, at, kind, counts[group, at, kind]], names=["group", "slice", "kind", "looked"])
