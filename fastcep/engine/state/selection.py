"""Select entries of a dumped state and number the rest anew; key groups, snapshots and partial states do this.

Rows and waiting matches refer to starts and nodes by number. If some starts or nodes are left out, the others get new
numbers, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.word_layout import State, WordLayout

__all__ = ["Selection", "drop_unused", "kept_starts", "lists_before", "new_numbers", "renumber", "select_entries"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries of a state, one flag for each: True for those that are selected.

    Attributes
    ----------
    starts
        The starts. Their nodes are selected with them, if `nodes` is None.
    buckets
        The buckets of each index, with their rows; None: all.
    waiting, partitions
        The waiting matches and the partitions; None: all.
    nodes
        The nodes.
    """

    starts: Flags
    buckets: tuple[Flags, ...] | None = None
    waiting: Flags | None = None
    partitions: Flags | None = None
    nodes: Flags | None = None


def select_entries(layout: WordLayout, state: State, selection: Selection) -> State:
    """Return the selected part of a state; everything that it refers to must be selected too.

    Tables of which all entries are selected are overwritten.
    """
    out: State = {"windows": state["windows"]}
    nodes = selection.starts[state["nodes"][0]] if selection.nodes is None else selection.nodes
    out["starts"], out["nodes"] = state["starts"][:, selection.starts], state["nodes"][:, nodes]
    for number in range(layout.index_count):
        heads, rows = state[f"index {number}"], state[f"rows {number}"]
        if selection.buckets is not None:
            buckets = selection.buckets[number]
            heads, rows = heads[:, buckets], rows[:, np.repeat(buckets, heads[1])]
        out[f"index {number}"], out[f"rows {number}"] = heads, rows
    for name, flags in (("waiting", selection.waiting), ("partitions", selection.partitions)):
        out[name] = state[name] if flags is None else state[name][:, flags]
    renumber(layout, out, new_numbers(selection.starts), new_numbers(nodes))
    return out


def new_numbers(selected: Flags) -> Ints:
    """Return the new number of each selected entry; the last element maps -1 to -1."""
    return np.append(np.cumsum(selected) - 1, -1)


def renumber(layout: WordLayout, state: State, starts: Ints, nodes: Ints) -> None:
    """Replace the numbers of starts and nodes in a state by those in the arrays ``starts`` and ``nodes``, in place."""
    for table, row in (("nodes", 0), *layout.starts()):
        state[table][row] = starts[state[table][row]]
    for table, row in (("nodes", 2), *layout.nodes()):
        state[table][row] = nodes[state[table][row]]


def drop_unused(layout: WordLayout, state: State) -> State:
    """Leave out starts without partial matches, and nodes that are in no list of a partial match.

    The arrays of ``state`` may be overwritten.
    """
    starts = np.zeros(state["starts"].shape[1], np.bool_)
    if layout.plan.kept:
        starts[kept_starts(layout, state, 0)] = True
    for table, row in layout.starts():
        starts[state[table][row]] = True
    nodes = np.zeros(state["nodes"].shape[1], np.bool_)
    for table, row in layout.nodes() if len(nodes) else ():
        lists = state[table][row]
        nodes[lists[lists >= 0]] = True
    lists_before(state["nodes"][2], np.flatnonzero(nodes), nodes)
    if starts.all() and nodes.all():
        return state
    return select_entries(layout, state, Selection(starts, nodes=nodes))


def kept_starts(layout: WordLayout, state: State, number: int) -> Ints:
    """Return the start of each event of the factorised store in an index of the first variable."""
    starts: Ints = np.searchsorted(state["starts"][2], state[f"rows {number}"][0])
    return starts


def lists_before(previous: Ints, nodes: Ints, reached: Flags) -> Ints:
    """Follow lists from their last nodes to their first ones, as far as the nodes are not reached yet.

    Parameters
    ----------
    previous
        Previous node of each node, -1 for the first one of a list.
    nodes
        Numbers of the last nodes.
    reached
        Flags of the nodes; those that are met get True.

    Returns
    -------
    before
        Numbers of the nodes that were met, each once.
    """
    steps = [nodes[:0]]
    while len(nodes):
        nodes = previous[nodes]
        nodes = nodes[nodes >= 0]
        nodes = np.unique(nodes[~reached[nodes]])
        reached[nodes] = True
        steps.append(nodes)
    return np.concatenate(steps)
