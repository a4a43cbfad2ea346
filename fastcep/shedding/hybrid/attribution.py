"""Attribute contribution and consumption to the partial matches and events of history, as tables to fit models to.

`observe` records the lineage of a query, and `Account` sums it up. `Account.matches_of` and `Account.events_of` return
a table for the partial matches, and for the events, of each variable: a row per member, with its features, and its
contribution and consumption by slice of the window. All are pure functions of a piece of history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.fit.account import derive, visits
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.hybrid.columns import ORDINAL, POSITION
from fastcep.shedding.lineage import Lineage

__all__ = ["Account", "Names", "last_in_slices"]

Names = Mapping[str, Sequence[str]]  #: by variable

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float32]


class Account:
    """Contribution and consumption of the partial matches and events of a lineage record.

    Parameters
    ----------
    record
        Lineage of a query.
    times
        Times of the piece's events in ns, ascending: int64[events].
    slices
        Number of slices of time of the window.
    costs
        Costs of operations.
    features, event_features
        By variable, the names of the recorded features of the partial matches that have bound it last, and of the
        events that were tried for it.
    memory
        Whether consumption is memory (the lengths of partial matches) instead of work.
    owned
        Range of owned positions (first, and one after the last). Tables and counts cover the members that owned events
        create. The events around, one window on either side, complete their ancestors and descendants. None: all.
    base
        Number of events of the stream before the piece.

    Attributes
    ----------
    is_owned
        Per record, whether an owned event created it.
    born
        Per record, the slice of its window in which it was created: int32.
    stored, matched
        Per record, whether it became a row, and whether it is a match.
    """

    def __init__(
        self,
        record: Lineage,
        times: Ints,
        slices: int,
        costs: CostTable,
        features: Names,
        event_features: Names,
        memory: bool = False,
        owned: tuple[int, int] | None = None,
        base: int = 0,
    ) -> None:
        self.record, self.times, self.slices, self.costs, self.memory = record, times, slices, costs, memory
        self.features, self.event_features = features, event_features
        self.owned, self.base = owned or (0, len(times)), base
        self.is_owned = self.owns(record.events)
        self.members = [variable.name for variable in pattern_variables(record.plan.query.pattern)]
        self.matched, self.stored = np.zeros((2, len(record.parents)), bool)
        self.matched[record.matches] = True
        self.stored[record.placed] = True
        self.starts = _starts(record)
        self.limits = last_in_slices(record.plan.query.window, times, slices)
        self.born = np.zeros(len(record.parents), np.int32)
        for limit in self.limits[:-1]:
            self.born += limit[self.starts] < record.events
        ids, bucket_of_probe = np.unique(record.probes, return_inverse=True)
        bucket = np.searchsorted(ids, record.places)
        bucket[bucket == len(ids)] = 0
        probed = ids[bucket] == record.places if len(ids) else np.zeros(len(bucket), bool)
        self._buckets = np.where(probed, bucket, -1).astype(np.int32)
        self._order = np.lexsort((record.probed, bucket_of_probe))
        sizes = np.bincount(bucket_of_probe, minlength=len(ids))
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def restricted(self, first: int, last: int) -> Account:
        """Return the account of fewer owned positions of the same piece, from ``first`` to before ``last``."""
        account = copy(self)
        account.__dict__.pop("reach", None)
        account.owned = first, last
        account.is_owned = account.owns(self.record.events)
        return account

    def sliced(self, slices: int) -> Account:
        """Return the account of the same piece with another number of slices."""
        return Account(
            self.record, self.times, slices, self.costs, self.features, self.event_features, self.memory, self.owned,
            self.base,
        )  # fmt: skip

    def owns(self, places: Ints) -> Bits:
        """Return a mask of the positions that the piece owns."""
        first, last = self.owned
        return (places >= first) & (places < last)

    def visits(self, groups: Shorts, n_groups: int, kinds: Shorts, n_kinds: int) -> Floats:
        """Return the number of visits of owned rows by all probes: float64[groups, slices, kinds of probes]."""
        counts = np.zeros((n_groups, self.slices, n_kinds))
        self._visit(kinds, self.is_owned[self.record.placed], groups=groups, counts=counts)
        return counts

    def _visit(self, kinds: Shorts, rows: Bits | None = None, **results: Any) -> None:
        record, placed, buckets = self.record, self.record.placed, self._buckets
        if rows is not None and not rows.all():
            placed, buckets = placed[rows], buckets[rows]
        visits(
            self._first, record.probed[self._order], kinds[self._order], placed, buckets, record.events,
            self.starts, self.limits, **results,
        )  # fmt: skip

    @cached_property
    def derived(self) -> tuple[Reals, Reals]:
        """Contribution, and consumption in ns or events, by record and slice: float32[records, slices] each."""
        contribution = np.zeros((len(self.born), self.slices), np.float32)
        consumption = contribution.copy()
        rows = np.flatnonzero(self.stored)
        if self.memory:
            consumption[rows, self.born[rows]] = self.lengths[rows]
        else:
            kinds = np.zeros(len(self.record.probes), np.int32)
            self._visit(kinds, spent=consumption, price=self.costs.visited)
            consumption[rows, self.born[rows]] += self.costs.created
        matched = self.matched.astype(np.uint8)
        match_cost = 0.0 if self.memory else self.costs.match
        derive(self.record.parents, self.born, matched, contribution, consumption, match_cost)
        return contribution, consumption

    @cached_property
    def lengths(self) -> Ints:
        """Number of events that each record binds."""
        lengths = np.ones(len(self.record.parents), np.int64)
        ancestor = self.record.parents
        while (remaining := np.flatnonzero(ancestor >= 0)).size:
            lengths[remaining] += 1
            ancestor = np.where(ancestor >= 0, self.record.parents[ancestor], -1)
        return lengths

    def matches_of(self, name: str) -> pa.Table:
        """Return the owned partial matches that have bound a variable last, in the order of the stream.

        The columns are the features, ``contribution`` and ``consumption``, and the identity of each partial match: the
        ``position`` in the whole stream of the event that created it, and its number (``ordinal``) among the partial
        matches created by this event.
        """
        contribution, consumption = self.derived
        by_state = [self.record.features(state) for state in self.states_of(name)]
        records, values, null = (np.concatenate(parts) for parts in zip(*by_state, strict=True))
        kept = np.flatnonzero(self.stored[records] & self.is_owned[records])
        if len(by_state) > 1:
            kept = kept[np.argsort(records[kept])]
        records = records[kept]
        return self._table(
            self.features[name], values[kept], null[kept], contribution[records], consumption[records],
            self.record.events[records],
        )  # fmt: skip

    def states_of(self, name: str) -> list[int]:
        """Return the states whose partial matches have bound a variable last and have features."""
        states = enumerate(self.record.plan.states)
        return [number for number, state in states if self.members[state.variable] == name and state.features]

    @cached_property
    def reach(self) -> int:
        """Total number of events that follow in the windows of the owned events; -1 if windows have no fixed length."""
        if not isinstance(self.record.plan.query.window, ast.TimeWindow | ast.CountWindow):
            return -1
        positions = np.arange(*self.owned)
        return int((self.limits[-1, positions] - positions).sum())

    @property
    def variables(self) -> tuple[str, ...]:
        """Variable that the partial matches of each state have bound last."""
        return tuple(self.members[state.variable] for state in self.record.plan.states)

    def events_of(self, name: str) -> pa.Table:
        """Return the owned events that were tried for a variable, with columns as in `matches_of`.

        Contribution and consumption include all descendants and have one slice.
        """
        member = self.members.index(name)
        record, (contribution, consumption) = self.record, self.derived
        positions, values, null = record.event_features(member)
        children = np.flatnonzero(record.variables == member)
        event = np.searchsorted(positions, record.events[children])
        matches = contribution[children].sum(axis=1) + self.matched[children]
        contributed = np.bincount(event, matches, len(positions)).astype(np.float64)
        consumed = np.bincount(event, consumption[children].sum(axis=1), len(positions)).astype(np.float64)
        probes = record.asked_for == member
        probing = np.searchsorted(positions, record.probed[probes])
        visit_cost = 0.0 if self.memory else self.costs.visited
        consumed += visit_cost * np.bincount(probing, record.visited[probes], len(positions))
        owned = self.owns(positions)
        return self._table(
            self.event_features[name], values[owned], null[owned], contributed[owned, None], consumed[owned, None],
            positions[owned],
        )  # fmt: skip

    def _table(
        self,
        names: Sequence[str],
        values: Floats,
        null: Bits,
        contribution: Floats | Reals,
        consumption: Floats | Reals,
        places: Ints,
    ) -> pa.Table:
        columns = [pa.array(values[:, number], mask=null[:, number]) for number in range(len(names))]
        lists = [
            pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1)), vectors.shape[1]
            )
            for vectors in (contribution, consumption)
        ]
        ordinals = np.arange(len(places)) - np.searchsorted(places, places)
        return pa.table(
            [*columns, *lists, self.base + places, ordinals],
            names=[*names, "contribution", "consumption", POSITION, ORDINAL],
        )


def last_in_slices(window: ast.Window, times: Ints, slices: int) -> Ints:
    """Return the last event in each slice of the windows that begin with each event: int64[slices, events].

    Explicit windows count as one slice without an end.
    """
    positions = np.arange(len(times))
    if isinstance(window, ast.CountWindow):
        return np.array([positions - (-window.events * (s + 1) // slices) - 1 for s in range(slices)])
    if isinstance(window, ast.TimeWindow):
        span = max(window.nanoseconds, 1)  # a window of zero length has only its first slice
        ends = [times - (-span * (s + 1) // slices) for s in range(slices - 1)]
        inner = [np.searchsorted(times, end, "left") - 1 for end in ends]
        return np.array([*inner, np.searchsorted(times, times + window.nanoseconds, "right") - 1])
    return np.full((slices, len(times)), len(times))


def _starts(record: Lineage) -> Ints:
    """Return the position of the first event of each record, by pointer jumping over the parents."""
    root = record.parents.copy()
    roots = np.flatnonzero(root < 0)
    root[roots] = roots
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return record.events[root]
        root = further
