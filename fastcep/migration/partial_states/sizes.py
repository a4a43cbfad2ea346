"""Sizes of partial states as sent: the bytes of all entries that a state needs, whether or not others need them too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fastcep.migration.partial_states.query_entries import Needed, QueryEntries
from fastcep.migration.states import Ints

__all__ = ["sizes_of"]


def sizes_of(
    queries: Sequence[QueryEntries],
    count: int,
    lengths: Ints,
    events: tuple[Callable[[Ints], Ints], Ints],
    single: bool,
) -> Ints:
    """Return the size of each partial state, in bytes.

    Parameters
    ----------
    queries
        The entries of each query.
    count
        Number of states.
    lengths
        Bytes of each text.
    events
        Function that maps positions to numbers of events (-1: none is stored); the bytes of each event.
    single
        True if a state is one partial match, whose events all differ, but several states may have a start in common.
        Otherwise a start and its nodes belong to one state.
    """
    number_of, event_sizes = events
    total = np.zeros(count, np.int64)
    bound = Needed()

    def add(entries: Needed, sizes: Ints) -> None:
        """Add the bytes of entries to the states that need them, each once for a state."""
        numbers, states = entries.all()
        if len(numbers):
            pairs = np.sort(states * len(sizes) + numbers)
            pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
            np.add.at(total, pairs // len(sizes), sizes[pairs % len(sizes)])

    for query in queries:
        sizes = {name: table.sizes(lengths) for name, table in query.tables.items()}
        starts = Needed()
        for name, uses in query.uses.items():
            np.add.at(total, uses.owner, sizes[name])
            if uses.start is not None:
                starts.add(uses.start, uses.owner)
                bound.add(number_of(query.state["starts"][2][uses.start]), uses.owner)
            if uses.buckets is not None:
                buckets = Needed()
                buckets.add(uses.buckets[1], uses.owner)
                add(buckets, sizes[uses.buckets[0]])
            for positions in uses.positions:
                bound.add(number_of(positions), uses.owner)
        add(starts, sizes["starts"])
        if not len(sizes["nodes"]):
            continue
        if single:
            _add_lists(query, sizes["nodes"], events, total)
        else:
            numbers, states = starts.once()
            owner = states[np.searchsorted(numbers, query.state["nodes"][0])]
            np.add.at(total, owner, sizes["nodes"])
            bound.add(number_of(query.layout.node_positions(query.state)), owner)
    add(bound, event_sizes)
    return total


def _add_lists(query: QueryEntries, node_sizes: Ints, events: tuple[Callable[[Ints], Ints], Ints], total: Ints) -> None:
    """Add the nodes of the lists of each partial match, and their events.

    An event is bound once by a partial match. Only the first event of a list may also be the start.
    """
    number_of, event_sizes = events
    positions = query.layout.node_positions(query.state)
    sizes, first = node_sizes + _size_of(number_of(positions), event_sizes), positions
    sizes, first, previous = np.append(sizes, 0), np.append(first, np.iinfo(np.int64).max), query.state["nodes"][2]
    end = len(node_sizes)
    previous = np.append(np.where(previous < 0, end, previous), end)
    while (previous != end).any():  # doubles the part of each list that is summed up
        sizes = sizes + sizes[previous]
        first = np.minimum(first, first[previous])
        previous = previous[previous]
    seen = np.zeros(len(total), np.bool_)  # copies of a row in other indexes have the same lists
    for uses in query.uses.values():
        rows = np.flatnonzero(~seen[uses.owner])
        owner = uses.owner[rows]
        for last in uses.nodes:
            np.add.at(total, owner, sizes[last[rows]])
            assert uses.start is not None
            start = query.state["starts"][2][uses.start[rows]]
            common = (last[rows] >= 0) & (first[last[rows]] == start)
            total[owner[common]] -= _size_of(number_of(start[common]), event_sizes)
        seen[owner] = True


def _size_of(numbers: Ints, sizes: Ints) -> Ints:
    """Return the sizes of entries; 0 for -1."""
    return np.append(sizes, 0)[numbers]
