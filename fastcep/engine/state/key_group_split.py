"""Split the state of a keyed query by key groups, and join parts of a state.

All partial matches that grow from a start have the start's key (:mod:`fastcep.plan.partition_key`), so a part is a
selection of starts and buckets. Explicit windows belong to the stream: every part has all of them.

Invariant (tested): joining the parts of a state in any order gives the same state, except for the numbers of births, of
which only the order matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.keygroups import NO_KEY
from fastcep.engine.state.selection import Selection, kept_starts, renumber, select_entries
from fastcep.engine.state.word_layout import START, STATE, State, WordLayout
from fastcep.plan.plan import KeyPlan

__all__ = ["Groups", "groups_of", "join_states", "select_groups"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """Key groups of the entries of a state.

    Attributes
    ----------
    starts
        Group of each start; -1 if it has no partial match.
    buckets
        Group of each bucket, for each index.
    waiting
        Group of each waiting match.
    partitions
        Group of each partition.
    """

    starts: Ints
    buckets: tuple[Ints, ...]
    waiting: Ints
    partitions: Ints


def groups_of(layout: WordLayout, state: State, key: KeyPlan, group: Callable[[Ints], npt.NDArray[Any]]) -> Groups:
    """Return the key groups of the entries of a state; ``group`` maps the words of keys to groups.

    Entries without a key are in the group `NO_KEY`.
    """
    starts = np.full(state["starts"].shape[1], -1, np.int64)
    buckets = []
    counts = (0,) * (layout.index_count - len(key.indexes) - len(key.negations))  # of matches, by partition
    for number, word in enumerate((*key.indexes, *key.negations, *counts)):
        heads = state[f"index {number}"]
        buckets.append(group(heads[2 + word]).astype(np.int64))
        if number < len(layout.plan.kept):
            if layout.plan.kept[number].variable == 0:  # each of its events is a start
                starts[kept_starts(layout, state, number)] = np.repeat(buckets[-1], heads[1])
        elif number < len(key.indexes):
            starts[state[f"rows {number}"][0]] = np.repeat(buckets[-1], heads[1])
    waiting = state["waiting"]
    waiting_groups = np.full(waiting.shape[1], NO_KEY, np.int64)
    for number, output in enumerate(key.waiting):
        word = layout.output(output)
        keyed = np.flatnonzero((waiting[STATE] == number) & (waiting[word + 1] == 0))
        if len(keyed):
            waiting_groups[keyed] = group(waiting[word][keyed])
    starts[waiting[START]] = waiting_groups
    partitions = np.empty(0, np.int64)
    if layout.plan.partition is not None:
        partitions = group(state["partitions"][1]).astype(np.int64)
    return Groups(starts, tuple(buckets), waiting_groups, partitions)


def select_groups(layout: WordLayout, state: State, groups: Groups, selected: Flags) -> State:
    """Return the part of a state that is in the selected groups.

    Parameters
    ----------
    layout
        Layout of the state.
    state
        The state.
    groups
        Key groups of its entries.
    selected
        bool[GROUPS], True for the groups to select.
    """
    flags = np.append(selected, False)  # -1, no group, selects the last element
    return select_entries(layout, state, Selection(
        flags[groups.starts], tuple(flags[buckets] for buckets in groups.buckets), flags[groups.waiting],
        flags[groups.partitions],
    ))  # fmt: skip


def join_states(layout: WordLayout, one: State, other: State) -> tuple[State, int]:
    """Join two parts of a state that have no group, and so no bucket, in common.

    Births get new numbers, by the event that created a row, because each part may have its own count.

    Returns
    -------
    state, births
        The joined state, and its number of births.
    """
    starts = np.concatenate([one["starts"], other["starts"]], axis=1)
    order = np.lexsort((starts[2], starts[0]))
    out: State = {"windows": one["windows"], "starts": starts[:, order]}
    start_numbers = np.empty(len(order) + 1, np.int64)
    start_numbers[order] = np.arange(len(order))
    start_numbers[-1] = -1
    shifted = _shifted(layout, other, one["starts"].shape[1], one["nodes"].shape[1])
    nodes = np.concatenate([one["nodes"], shifted["nodes"]], axis=1)
    order = np.argsort(start_numbers[nodes[0]], kind="stable")
    node_numbers = np.empty(len(order) + 1, np.int64)
    node_numbers[order] = np.arange(len(order))
    node_numbers[-1] = -1
    out["nodes"] = nodes[:, order]
    for number in range(layout.index_count):
        heads = np.concatenate([one[f"index {number}"], shifted[f"index {number}"]], axis=1)
        rows = np.concatenate([one[f"rows {number}"], shifted[f"rows {number}"]], axis=1)
        out[f"index {number}"], out[f"rows {number}"] = _by_place(heads, rows)
    waiting = np.concatenate([one["waiting"], shifted["waiting"]], axis=1)
    out["waiting"] = waiting[:, np.argsort(waiting[0], kind="stable")]
    out["partitions"] = np.concatenate([one["partitions"], shifted["partitions"]], axis=1)
    renumber(layout, out, start_numbers, node_numbers)
    return out, _renumber_births(layout, out)


def _shifted(layout: WordLayout, state: State, starts: int, nodes: int) -> State:
    """Copy a state, and add ``starts`` and ``nodes`` to the numbers of its starts and nodes."""
    out: State = {name: table.copy() for name, table in state.items()}
    out["nodes"][0] += starts
    for table, row in layout.starts():
        out[table][row] += starts
    for table, row in (("nodes", 2), *layout.nodes()):
        out[table][row][out[table][row] >= 0] += nodes
    return out


def _by_place(heads: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Sort buckets by their places, with their rows."""
    if (heads[0, 1:] >= heads[0, :-1]).all():
        return heads, rows
    order = np.argsort(heads[0], kind="stable")
    ends = np.cumsum(heads[1])
    sizes = heads[1][order]
    offsets = np.repeat((ends - heads[1])[order] - (np.cumsum(sizes) - sizes), sizes)
    return heads[:, order], rows[:, offsets + np.arange(len(offsets))]


def _renumber_births(layout: WordLayout, state: State) -> int:
    """Number all births by the event that created the row, then by the old number; return how many there are."""
    parts = [(table, row, layout.created_at(state, table)) for table, row in layout.births() if state[table].shape[1]]
    if not parts:
        return 0
    created = np.concatenate([events for _, _, events in parts])
    births = np.concatenate([state[table][row] for table, row, _ in parts])
    _, numbers = np.unique(np.stack([created, births]), axis=1, return_inverse=True)
    first = 0
    for table, row, events in parts:
        state[table][row] = numbers[first : first + len(events)]
        first += len(events)
    return int(numbers.max()) + 1
