"""How an edge joins: which of its equalities are words of the key of an index, and what is tested row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fastcep.plan.automaton import Edge
from fastcep.plan.ir import TRUE, Op, compare, equality, leaves
from fastcep.plan.rewrite import step

__all__ = ["INDEXES", "OF_ONE", "EdgeWork", "join", "share_keys"]

#: Which equalities become keys: all of them, those between plain attributes, none.
INDEXES = ("full", "key", "off")

#: Quantities (:mod:`fastcep.plan.rewrite`) that are the attribute of an event.
OF_ONE = ("first", "last", "at")

Pair = tuple[Op, Op]  # something of the row, and what of the event equals it


@dataclass(slots=True)
class EdgeWork:
    """What is asked of a row and an event: ``keys``, each with its condition in ``equalities``, and the ``residual``.

    ``replace`` says by what of the event something of the row can be replaced behind the edge, because they are equal.
    """

    keys: list[Pair] = field(default_factory=list)
    equalities: dict[Pair, Op] = field(default_factory=dict)
    residual: list[Op] = field(default_factory=list)
    replace: dict[Op, Op] = field(default_factory=dict)
    index: int = -1


def join(conditions: Iterable[Op], edge: Edge, index: str, by_partition: bool) -> EdgeWork:
    """Divide the conditions of an edge, views of its target; ``index`` is one of `INDEXES`.

    ``by_partition``: the words of the partition are in the key in any case.
    """
    work = EdgeWork()
    for condition in conditions:
        expr = step(condition, edge)
        if expr == TRUE:
            continue
        pair = equality(expr, "event")
        if pair is None:
            work.residual.append(expr)
            continue
        if pair not in work.equalities:
            work.equalities[pair] = _as_condition(expr)
            if _is_key(pair, index) or (by_partition and expr.name == "partition"):
                work.keys.append(pair)
            else:
                work.residual.append(work.equalities[pair])
        if pair[0].dtype == pair[1].dtype != "f":
            work.replace.setdefault(*pair)
    work.keys.sort(key=repr)
    return work


def share_keys(works: Sequence[EdgeWork]) -> None:
    """Leave in the keys only what all edges of a state ask for, so that a row stands in one index."""
    shared = set.intersection(*({row for row, _ in work.keys} for work in works)) if works else set()
    for work in works:
        kept: dict[Op, Pair] = {}
        for pair in work.keys:
            if pair[0] not in shared or pair[0] in kept:
                work.residual.append(work.equalities[pair])
            else:
                kept[pair[0]] = pair
        work.keys = sorted(kept.values(), key=lambda pair: repr(pair[0]))


def _as_condition(expr: Op) -> Op:
    """An equality as a program can test it: what agrees in a partition attribute has no operation of its own."""
    return compare("eq", *expr.args) if expr.name == "partition" else expr


def _is_key(pair: Pair, index: str) -> bool:
    if index == "full" or any(leaf.name == "q" and leaf.data[0] == "latest" for leaf in leaves(pair[0])):
        return True  # rows that an event has cut off are found by the latter
    return index == "key" and all(map(_is_plain, pair))


def _is_plain(value: Op) -> bool:
    """Whether a word of a key is an attribute as it is, if perhaps as float64."""
    while value.name in ("key_f", "i2f"):
        value = value.args[0]
    return value.name == "event" or (value.name == "q" and value.data[0] in ("part", *OF_ONE))
