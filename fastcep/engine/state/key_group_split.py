"""Cut the state of a keyed query along its key groups, and put parts together again.

Everything that a start leads to has its start's key (:mod:`fastcep.plan.partition_key`), so a part is a choice of
starts and of buckets. Explicit windows belong to the stream: every part has them.

Invariant (tested): parts of a state put together in any order are that state, but for the numbers of births, of which
only the order counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.keygroups import GROUPS, NO_KEY
from fastcep.engine.state.word_layout import START, STATE, State, WordLayout
from fastcep.plan.plan import KeyPlan

__all__ = ["Groups", "choose", "groups_of", "join"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """The key group of each start (`GROUPS`: it has no partial match), bucket, waiting match and partition."""

    starts: Ints
    buckets: tuple[Ints, ...]
    waiting: Ints
    partitions: Ints


def groups_of(words: WordLayout, state: State, key: KeyPlan, group: Callable[[Ints], npt.NDArray[np.uint8]]) -> Groups:
    """Find the key groups in a state; ``group`` gives those of words of keys."""
    starts = np.full(state["starts"].shape[1], GROUPS, np.int64)
    buckets = []
    counts = (0,) * (words.stores - len(key.indexes) - len(key.negations))  # of matches, by partition
    for number, word in enumerate((*key.indexes, *key.negations, *counts)):
        heads = state[f"index {number}"]
        buckets.append(group(heads[2 + word]).astype(np.int64))
        if number < len(words.plan.kept):
            if words.plan.kept[number].member == 0:  # each of its events is a start
                own_starts = np.searchsorted(state["starts"][2], state[f"rows {number}"][0])
                starts[own_starts] = np.repeat(buckets[-1], heads[1])
        elif number < len(key.indexes):
            starts[state[f"rows {number}"][0]] = np.repeat(buckets[-1], heads[1])
    waiting = state["waiting"]
    own = np.full(waiting.shape[1], NO_KEY, np.int64)
    for at, output in enumerate(key.waiting):
        word = words.output(output)
        here = np.flatnonzero((waiting[STATE] == at) & (waiting[word + 1] == 0))
        if len(here):
            own[here] = group(waiting[word][here])
    starts[waiting[START]] = own
    partitions = np.empty(0, np.int64)
    if words.plan.partition is not None:
        partitions = group(state["partitions"][1]).astype(np.int64)
    return Groups(starts, tuple(buckets), own, partitions)


def choose(words: WordLayout, state: State, groups: Groups, wanted: Flags) -> State:
    """The part of a state that is in the groups whose flag is set (bool[GROUPS])."""
    flags = np.append(wanted, False)
    out: State = {"windows": state["windows"]}
    starts = flags[groups.starts]
    nodes = starts[state["nodes"][0]]
    out["starts"] = state["starts"][:, starts]
    out["nodes"] = state["nodes"][:, nodes]
    start_numbers, node_numbers = _numbers(starts), _numbers(nodes)
    out["nodes"][0] = start_numbers[out["nodes"][0]]
    out["nodes"][2] = node_numbers[out["nodes"][2]]
    for number, own in enumerate(groups.buckets):
        heads = state[f"index {number}"]
        out[f"index {number}"] = heads[:, flags[own]]
        out[f"rows {number}"] = state[f"rows {number}"][:, np.repeat(flags[own], heads[1])]
    out["waiting"] = state["waiting"][:, flags[groups.waiting]]
    out["partitions"] = state["partitions"][:, flags[groups.partitions]]
    for table, row in words.starts():
        out[table][row] = start_numbers[out[table][row]]
    for table, row in words.nodes():
        out[table][row] = node_numbers[out[table][row]]
    return out


def _numbers(chosen: Flags) -> Ints:
    """The new numbers of what is chosen; -1 stays -1, as the last entry."""
    numbers = np.cumsum(chosen) - 1
    return np.append(numbers, -1)


def join(words: WordLayout, one: State, other: State) -> tuple[State, int]:
    """Put two parts of a state together, that have no group and so no bucket in common.

    Births are numbered anew, by the event that made a row, because each part may have counted for itself.

    Returns
    -------
    state, births
        The whole, and how many births it has.
    """
    starts = np.concatenate([one["starts"], other["starts"]], axis=1)
    order = np.lexsort((starts[2], starts[0]))
    out: State = {"windows": one["windows"], "starts": starts[:, order]}
    start_numbers = np.empty(len(order) + 1, np.int64)
    start_numbers[order] = np.arange(len(order))
    start_numbers[-1] = -1
    before, nodes_before = one["starts"].shape[1], one["nodes"].shape[1]
    moved = _shifted(words, other, before, nodes_before)
    nodes = np.concatenate([one["nodes"], moved["nodes"]], axis=1)
    nodes[0] = start_numbers[nodes[0]]
    order = np.argsort(nodes[0], kind="stable")
    node_numbers = np.empty(len(order) + 1, np.int64)
    node_numbers[order] = np.arange(len(order))
    node_numbers[-1] = -1
    nodes[2] = node_numbers[nodes[2]]
    out["nodes"] = nodes[:, order]
    for number in range(words.stores):
        heads = np.concatenate([one[f"index {number}"], moved[f"index {number}"]], axis=1)
        rows = np.concatenate([one[f"rows {number}"], moved[f"rows {number}"]], axis=1)
        out[f"index {number}"], out[f"rows {number}"] = _by_place(heads, rows)
    waiting = np.concatenate([one["waiting"], moved["waiting"]], axis=1)
    out["waiting"] = waiting[:, np.argsort(waiting[0], kind="stable")]
    out["partitions"] = np.concatenate([one["partitions"], moved["partitions"]], axis=1)
    for table, row in words.starts():
        out[table][row] = start_numbers[out[table][row]]
    for table, row in words.nodes():
        out[table][row] = node_numbers[out[table][row]]
    return out, _give_births(words, out)


def _shifted(words: WordLayout, state: State, starts: int, nodes: int) -> State:
    """A copy whose numbers of starts and nodes begin behind those of another."""
    out: State = {name: table.copy() for name, table in state.items()}
    out["nodes"][0] += starts
    for table, row in words.starts():
        out[table][row] += starts
    for table, row in (("nodes", 2), *words.nodes()):
        out[table][row][out[table][row] >= 0] += nodes
    return out


def _by_place(heads: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Buckets in the order of their places, and their rows."""
    if (heads[0, 1:] >= heads[0, :-1]).all():
        return heads, rows
    order = np.argsort(heads[0], kind="stable")
    ends = np.cumsum(heads[1])
    sizes = heads[1][order]
    first = np.repeat((ends - heads[1])[order] - (np.cumsum(sizes) - sizes), sizes)
    return heads[:, order], rows[:, first + np.arange(len(first))]


def _give_births(words: WordLayout, state: State) -> int:
    """Number all births anew, by the event that made a row and then as they were; returns how many there are."""
    parts = [(table, row, words.made_at(state, table)) for table, row in words.births() if state[table].shape[1]]
    if not parts:
        return 0
    made = np.concatenate([events for _, _, events in parts])
    births = np.concatenate([state[table][row] for table, row, _ in parts])
    _, numbers = np.unique(np.stack([made, births]), axis=1, return_inverse=True)
    at = 0
    for table, row, events in parts:
        state[table][row] = numbers[at : at + len(events)]
        at += len(events)
    return int(numbers.max()) + 1
