"""The entries of one query's state that belong to partial states, and what each of them needs.

A row of a partial match needs its start, its bucket, the nodes of its lists, and the events that it binds. The rows of
the factorised store are events; those of the first variable need their start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fastcep.engine.state.selection import kept_starts, lists_before
from fastcep.engine.state.word_layout import START, State, WordLayout
from fastcep.migration.partial_states.entries import Table
from fastcep.migration.partial_states.owners import Owners
from fastcep.migration.states import Ints

__all__ = ["Needed", "QueryEntries", "Uses", "moved_tables"]


def moved_tables(layout: WordLayout) -> list[str]:
    """Return the names of the tables whose entries belong to partial states."""
    indexes = range(len(layout.plan.kept) or len(layout.fixed))
    return ["starts", "nodes", *(f"{kind} {number}" for number in indexes for kind in ("index", "rows")), "waiting"]


@dataclass(frozen=True, eq=False)
class Uses:
    """The needs of the entries of ``rows N`` or ``waiting``, in arrays with an element per entry.

    Attributes
    ----------
    owner
        Its partial state.
    start
        Number of its start; None if the entries have none.
    buckets
        Name of the table of its bucket, and the number of the bucket; None: there is none.
    nodes
        Last node of each of its lists; -1: none.
    positions
        Position of each of its single events; -1: none.
    """

    owner: Ints
    start: Ints | None
    buckets: tuple[str, Ints] | None
    nodes: list[Ints]
    positions: list[Ints]


class Needed:
    """Collects numbers of entries, each with a state that needs it."""

    def __init__(self) -> None:
        self._entries: list[Ints] = []
        self._states: list[Ints] = []

    def add(self, entries: Ints, states: Ints) -> None:
        """Add entries; -1 is none."""
        if len(entries) and int(entries.min()) < 0:
            entries, states = entries[entries >= 0], states[entries >= 0]
        self._entries.append(entries)
        self._states.append(states)

    def all(self) -> tuple[Ints, Ints]:
        """Return all entries and states."""
        if not self._entries:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(self._entries), np.concatenate(self._states)

    def once(self) -> tuple[Ints, Ints]:
        """Return each entry once, in ascending order, with one of its states."""
        entries, states = self.all()
        entries, first = np.unique(entries, return_index=True)
        return entries, states[first]


@dataclass(eq=False)
class QueryEntries:
    """The tables of a query's state whose entries belong to partial states.

    Attributes
    ----------
    layout, state
        Layout and state of the query.
    owners
        The partial states of its entries.
    tables
        The tables by name, in the order of `moved_tables`. A bucket has the number of its first row instead of the
        number of its rows, because only some of the rows may arrive.
    uses
        The needs of the entries of the tables ``rows N`` and ``waiting``, by name.
    """

    layout: WordLayout
    state: State
    owners: Owners
    tables: dict[str, Table] = field(init=False)
    uses: dict[str, Uses] = field(init=False)
    _orders: dict[str, tuple[Ints, Ints]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = {name: Table(self.state[name]) for name in moved_tables(self.layout)}
        for name, row, mask in self.layout.texts(self.state):
            if name in self.tables:
                self.tables[name].texts.append((row, mask))
        self.uses = dict(self._find_uses())
        for name, table in self.tables.items():
            table.texts.sort(key=lambda item: item[0])
            if name.startswith("index"):
                sizes = table.words[1].copy()
                table.words[1] = np.cumsum(sizes) - sizes
        for name, uses in self.uses.items():
            self._orders[name] = np.argsort(uses.owner, kind="stable"), np.sort(uses.owner)

    def _find_uses(self) -> Iterator[tuple[str, Uses]]:
        layout, state = self.layout, self.state
        for number, owner in enumerate(self.owners.rows):
            rows, heads = state[f"rows {number}"], state[f"index {number}"]
            buckets = f"index {number}", np.repeat(np.arange(heads.shape[1]), heads[1])
            if layout.plan.kept:
                start = kept_starts(layout, state, number) if layout.plan.kept[number].variable == 0 else None
                yield f"rows {number}", Uses(owner, start, buckets, [], [rows[0]])
            else:
                bindings = self._bindings(rows, layout.fixed[number].bindings.items())
                yield f"rows {number}", Uses(owner, rows[0], buckets, *bindings)
        waiting = state["waiting"]
        bindings = self._bindings(waiting, layout.waiting_bindings())
        yield "waiting", Uses(self.owners.waiting, waiting[START], None, *bindings)

    def _bindings(self, entries: Ints, places: Iterable[tuple[int, int]]) -> tuple[list[Ints], list[Ints]]:
        """Return the last nodes and the positions that entries bind."""
        bound: tuple[list[Ints], list[Ints]] = [], []
        for binding, word in places:
            bound[0 if self.layout.is_node(binding) else 1].append(entries[word])
        return bound

    def take(self, numbers: Ints, positions: Needed) -> Iterator[tuple[str, Ints, Ints]]:
        """Yield the entries of some states that have not been sent, and mark them as sent.

        Parameters
        ----------
        numbers
            Numbers of the states, each once.
        positions
            Collects the positions of the events that these entries bind.

        Yields
        ------
        table, entries, states
            Name of a table, numbers of its entries, and for each the state that needs it.
        """
        starts, nodes = Needed(), Needed()
        for name, uses in self.uses.items():
            rows = self._unsent(name, numbers)
            if not len(rows):
                continue
            owner = uses.owner[rows]
            yield name, rows, owner
            if uses.start is not None:
                starts.add(uses.start[rows], owner)
            if uses.buckets is not None:
                buckets = Needed()
                buckets.add(uses.buckets[1][rows], owner)
                yield self._new(uses.buckets[0], *buckets.once())
            for last in uses.nodes:
                nodes.add(last[rows], owner)
            for bound in uses.positions:
                positions.add(bound[rows], owner)
        used_starts, owner = starts.once()
        yield from self._new_nodes(nodes.once()[0], used_starts, owner, positions)
        yield self._new("starts", used_starts, owner)
        positions.add(self.state["starts"][2][used_starts], owner)

    def _new_nodes(self, last: Ints, starts: Ints, owner: Ints, positions: Needed) -> Iterator[tuple[str, Ints, Ints]]:
        """Yield the nodes of some lists; they belong to some of these starts, and to their states."""
        table = self.tables["nodes"]
        last = last[~table.sent[last]]
        if not len(last):
            return
        table.sent[last] = True
        nodes = np.concatenate([last, lists_before(self.state["nodes"][2], last, table.sent)])
        states = owner[np.searchsorted(starts, self.state["nodes"][0][nodes])]
        positions.add(self.layout.node_positions(self.state)[nodes], states)
        yield "nodes", nodes, states

    def _new(self, name: str, entries: Ints, states: Ints) -> tuple[str, Ints, Ints]:
        """Return the entries that have not been sent, and mark them as sent."""
        sent = self.tables[name].sent
        new = ~sent[entries]
        sent[entries] = True
        return name, entries[new], states[new]

    def _unsent(self, name: str, numbers: Ints) -> Ints:
        """Return the entries of a table in some states that have not been sent, and mark them as sent."""
        order, owners = self._orders[name]
        first, end = np.searchsorted(owners, numbers), np.searchsorted(owners, numbers, "right")
        counts = end - first
        places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        entries = order[places]
        return self._new(name, entries, entries)[1]
