"""What became of every partial match and event of history, as tables: what a model is fitted to.

Data flow: `observe` gives the record of a query, `Account` adds up what was derived from what, and `matches_of` and
`events_of` give a table for the partial matches of each state and for the events of each variable: a row each, with its
features, its contribution and its consumption by slices of the window. All are pure functions of a piece of history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.fit.account import derive, visits
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.query.patterns import leaves_of
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
    """Contribution and consumption of all that a record tells of.

    Parameters
    ----------
    record
        Of a query.
    times
        Of the stream's events, ns, ascending.
    slices
        Into how many the window is cut.
    prices
        What operations cost.
    features, event_features
        By variable the names of what was recorded of the partial matches that have bound it last, and of the events
        that were tried for it.
    memory
        Whether what is consumed is memory, the lengths of partial matches, and not work.
    owned
        Places of the piece, from the first on and up to before the last: tables and counts are of what their events
        make. What lies around, one window on either side, tells what that came of and what came of it. None: all.
    base
        How many events of the stream come before the piece.

    Attributes
    ----------
    mine
        Per record whether an owned event made it.
    born
        Per record the slice of its window in which it was made: int32.
    stored, matched
        Per record whether it became a row, and whether it is a match.
    """

    def __init__(
        self,
        record: Lineage,
        times: Ints,
        slices: int,
        prices: CostTable,
        features: Names,
        event_features: Names,
        memory: bool = False,
        owned: tuple[int, int] | None = None,
        base: int = 0,
    ) -> None:
        self.record, self.slices, self.prices, self.memory = record, slices, prices, memory
        self.features, self.event_features = features, event_features
        self.owned, self.base = owned or (0, len(times)), base
        self.mine = self.owns(record.events)
        self.members = [leaf.name for leaf in leaves_of(record.plan.query.pattern)]
        self.matched, self.stored = np.zeros((2, len(record.parents)), bool)
        self.matched[record.matches] = True
        self.stored[record.placed] = True
        self.starts = _starts(record)
        self.limits = last_in_slices(record.plan.query.window, times, slices)
        self.born = np.zeros(len(record.parents), np.int32)
        for limit in self.limits[:-1]:
            self.born += limit[self.starts] < record.events
        names, bucket_of_probe = np.unique(record.probes, return_inverse=True)
        at = np.searchsorted(names, record.places)
        at[at == len(names)] = 0
        known = names[at] == record.places if len(names) else np.zeros(len(at), bool)
        self._buckets = np.where(known, at, -1).astype(np.int32)
        self._order = np.lexsort((record.probed, bucket_of_probe))
        sizes = np.bincount(bucket_of_probe, minlength=len(names))
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def owns(self, places: Ints) -> Bits:
        """Which of some places of the piece are owned."""
        first, last = self.owned
        return (places >= first) & (places < last)

    def visits(self, groups: Shorts, n_groups: int, kinds: Shorts, n_kinds: int) -> Floats:
        """How often owned rows were looked at, by whomever: float64[groups, slices, kinds of probes]."""
        counts = np.zeros((n_groups, self.slices, n_kinds))
        self._visit(kinds, self.mine[self.record.placed], groups=groups, counts=counts)
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
        """Per record and slice its contribution, and its consumption (ns, or events): float32[records, slices] each."""
        contribution = np.zeros((len(self.born), self.slices), np.float32)
        consumption = contribution.copy()
        rows = np.flatnonzero(self.stored)
        if self.memory:
            consumption[rows, self.born[rows]] = self.lengths[rows]
        else:
            kinds = np.zeros(len(self.record.probes), np.int32)
            self._visit(kinds, spent=consumption, price=self.prices.visited)
            consumption[rows, self.born[rows]] += self.prices.created
        matched = self.matched.astype(np.uint8)
        price = 0.0 if self.memory else self.prices.match
        derive(self.record.parents, self.born, matched, contribution, consumption, price)
        return contribution, consumption

    @cached_property
    def lengths(self) -> Ints:
        """Per record how many events it binds."""
        found = np.ones(len(self.record.parents), np.int64)
        above = self.record.parents
        while (more := np.flatnonzero(above >= 0)).size:
            found[more] += 1
            above = np.where(above >= 0, self.record.parents[above], -1)
        return found

    def matches_of(self, name: str) -> pa.Table:
        """The owned partial matches that have bound a variable last, in the order of the stream.

        Features, ``contribution`` and ``consumption``, and who each is: the ``position`` in the whole stream of the
        event that made it, and its number (``ordinal``) among those that this event made.
        """
        contribution, consumption = self.derived
        found = [self.record.features(state) for state in self.states_of(name)]
        own, values, null = (np.concatenate(parts) for parts in zip(*found, strict=True))
        kept = np.flatnonzero(self.stored[own] & self.mine[own])
        if len(found) > 1:
            kept = kept[np.argsort(own[kept])]
        own = own[kept]
        return self._table(
            self.features[name], values[kept], null[kept], contribution[own], consumption[own], self.record.events[own]
        )

    def states_of(self, name: str) -> list[int]:
        """The states whose partial matches have bound a variable last, and have features."""
        states = enumerate(self.record.plan.states)
        return [number for number, state in states if self.members[state.member] == name and state.features]

    @cached_property
    def reach(self) -> int:
        """How many events follow in the windows that begin with owned events, in sum; -1: of no known length."""
        if not isinstance(self.record.plan.query.window, ast.TimeWindow | ast.CountWindow):
            return -1
        own = np.arange(*self.owned)
        return int((self.limits[-1, own] - own).sum())

    @property
    def variables(self) -> tuple[str, ...]:
        """By state the variable that its partial matches have bound last."""
        return tuple(self.members[state.member] for state in self.record.plan.states)

    def events_of(self, name: str) -> pa.Table:
        """The owned events that were tried for a variable: the same, of all that they have led to, in one slice."""
        member = self.members.index(name)
        record, (contribution, consumption) = self.record, self.derived
        positions, values, null = record.event_features(member)
        children = np.flatnonzero(record.members == member)
        at = np.searchsorted(positions, record.events[children])
        of_matches = contribution[children].sum(axis=1) + self.matched[children]
        led = np.bincount(at, of_matches, len(positions)).astype(np.float64)
        spent = np.bincount(at, consumption[children].sum(axis=1), len(positions)).astype(np.float64)
        asked = record.asked_for == member
        looked = np.searchsorted(positions, record.probed[asked])
        price = 0.0 if self.memory else self.prices.visited
        spent += price * np.bincount(looked, record.visited[asked], len(positions))
        own = self.owns(positions)
        return self._table(
            self.event_features[name], values[own], null[own], led[own, None], spent[own, None], positions[own]
        )

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
            pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(of, np.float32).reshape(-1)), of.shape[1])
            for of in (contribution, consumption)
        ]
        ordinals = np.arange(len(places)) - np.searchsorted(places, places)
        return pa.table(
            [*columns, *lists, self.base + places, ordinals],
            names=[*names, "contribution", "consumption", POSITION, ORDINAL],
        )


def last_in_slices(window: ast.Window, times: Ints, slices: int) -> Ints:
    """By slice and event, the last event in that slice of a window that begins with the event: int64[slices, events].

    Explicit windows are taken for one slice that does not end.
    """
    positions = np.arange(len(times))
    if isinstance(window, ast.CountWindow):
        return np.array([positions - (-window.events * (s + 1) // slices) - 1 for s in range(slices)])
    if isinstance(window, ast.TimeWindow):
        span = max(window.nanoseconds, 1)  # of a window without any time the first slice is all
        ends = [times - (-span * (s + 1) // slices) for s in range(slices - 1)]
        inner = [np.searchsorted(times, end, "left") - 1 for end in ends]
        return np.array([*inner, np.searchsorted(times, times + window.nanoseconds, "right") - 1])
    return np.full((slices, len(times)), len(times))


def _starts(record: Lineage) -> Ints:
    """Per record the position of its first event; parents come before their children, so a few rounds find all."""
    first = record.parents.copy()
    roots = np.flatnonzero(first < 0)
    first[roots] = roots
    while True:
        further = first[first]
        if np.array_equal(further, first):
            return record.events[first]
        first = further
