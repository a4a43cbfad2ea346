"""Divide the conditions of an edge into the key of an index and the predicate that is tested row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fastcep.plan.automaton import Edge
from fastcep.plan.ir import TRUE, Op, compare, equality, leaves
from fastcep.plan.rewrite import step

__all__ = ["EVENT_ATTRIBUTES", "INDEXES", "EdgeWork", "join", "share_keys"]

#: Which equalities become keys: all of them, those between plain attributes, none.
INDEXES = ("full", "key", "off")

#: Quantities (:mod:`fastcep.plan.rewrite`) that are an attribute of a single event.
EVENT_ATTRIBUTES = ("first", "last", "at")

Pair = tuple[Op, Op]  # a value of the row, and the value of the event that it must equal


@dataclass(slots=True)
class EdgeWork:
    """Conditions on a row and an event: ``keys``, each with its condition in ``equalities``, and the ``residual``.

    ``replace`` maps a value of the row to the equal value of the event, which can replace it after the edge.
    """

    keys: list[Pair] = field(default_factory=list)
    equalities: dict[Pair, Op] = field(default_factory=dict)
    residual: list[Op] = field(default_factory=list)
    replace: dict[Op, Op] = field(default_factory=dict)
    index: int = -1


def join(conditions: Iterable[Op], edge: Edge, index: str, by_partition: bool) -> EdgeWork:
    """Divide the conditions of an edge, which are views of its target; ``index`` is one of `INDEXES`.

    With ``by_partition`` the words of the partition are always part of the key.
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


def share_keys(edge_works: Sequence[EdgeWork]) -> None:
    """Reduce the keys to those that all edges of a state have in common, so that a row is in one index."""
    shared = set.intersection(*({row for row, _ in work.keys} for work in edge_works)) if edge_works else set()
    for work in edge_works:
        kept: dict[Op, Pair] = {}
        for pair in work.keys:
            if pair[0] not in shared or pair[0] in kept:
                work.residual.append(work.equalities[pair])
            else:
                kept[pair[0]] = pair
        work.keys = sorted(kept.values(), key=lambda pair: repr(pair[0]))


def _as_condition(expr: Op) -> Op:
    """Return an equality that a program can test; ``partition`` has no operation of its own."""
    return compare("eq", *expr.args) if expr.name == "partition" else expr


def _is_key(pair: Pair, index: str) -> bool:
    if index == "full" or any(leaf.name == "q" and leaf.data[0] == "latest" for leaf in leaves(pair[0])):
        return True  # rows that an event invalidates are found by the word ``latest``
    return index == "key" and all(map(_is_plain, pair))


def _is_plain(value: Op) -> bool:
    """Return whether a word of a key is a plain attribute, possibly converted to float64."""
    while value.name in ("key_f", "i2f"):
        value = value.args[0]
    return value.name == "event" or (value.name == "q" and value.data[0] in ("part", *EVENT_ATTRIBUTES))
