"""Equalities that others imply: of ``a.k = b.k`` and ``a.k = c.k`` that ``b.k = c.k``.

They let an edge join by key when the conditions as written say nothing yet about the event and the row: ``b`` with
``c`` before ``a`` has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastcep.plan.automaton import START, YES, Automaton, Edge
from fastcep.plan.ir import Op

__all__ = ["implied_equalities"]


def implied_equalities(conditions: Iterable[Op], places: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield ``(edge, equality)`` where no condition equates the edge's member with a bound one, but others imply it.

    Only equalities of single variables that every match binds count, and of one dtype: a match satisfies all of them,
    so that what they imply rejects nothing but what cannot become a match.
    """
    pairs = [expr.args for expr in conditions if _joins(expr, places)]
    for group in _classes(pairs):
        for edge in places.edges:
            own = [node for node in group if node.data[1] == edge.member]
            bound = [node for node in group if edge.source != START and edge.before[node.data[1]] == YES]
            if not own or not bound:
                continue
            written = any(
                (one in own and other in bound) or (one in bound and other in own) for one, other in pairs
            )
            if not written:
                first = min(bound, key=lambda node: (node.data[1], node.data[3]))
                yield edge, Op("eq_i", "b", (first, own[0]))


def _joins(expr: Op, places: Automaton) -> bool:
    """Whether a condition equates attributes of two single variables that every match binds."""
    if expr.name != "eq_i" or expr.args[0].dtype != expr.args[1].dtype:
        return False
    return all(
        arg.name == "q" and arg.data[0] == "first" and places.chain[arg.data[1]] < 0
        and not places.leaves[arg.data[1]].repeated and places.mandatory(arg.data[1])
        for arg in expr.args
    )  # fmt: skip


def _classes(pairs: Iterable[tuple[Op, ...]]) -> list[list[Op]]:
    """What is equated, directly or by others, class by class."""
    classes: list[list[Op]] = []
    for pair in pairs:
        joined = [found for found in classes if pair[0] in found or pair[1] in found]
        merged = list(dict.fromkeys([*(node for found in joined for node in found), *pair]))
        classes = [found for found in classes if found not in joined] + [merged]
    return classes
