"""Implied equalities: ``a.k = b.k`` and ``a.k = c.k`` imply ``b.k = c.k``.

They let an edge join by key where no condition of the query compares the event with the row, for example ``b`` with
``c`` before ``a`` has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastcep.plan.automaton import START, YES, Automaton, Edge
from fastcep.plan.ir import Op

__all__ = ["implied_equalities"]


def implied_equalities(conditions: Iterable[Op], automaton: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield ``(edge, equality)`` where no condition equates the edge's variable with a bound one, but others imply it.

    Only equalities between single variables that every match binds are used, with the same dtype on both sides. Every
    match satisfies all of them, so an implied equality rejects only rows that cannot become a match.
    """
    pairs = [expr.args for expr in conditions if _joins(expr, automaton)]
    for group in _classes(pairs):
        for edge in automaton.edges:
            of_event = [node for node in group if node.data[1] == edge.variable]
            bound = [node for node in group if edge.source != START and edge.before[node.data[1]] == YES]
            if not of_event or not bound:
                continue
            written = any(
                (one in of_event and other in bound) or (one in bound and other in of_event) for one, other in pairs
            )
            if not written:
                first = min(bound, key=lambda node: (node.data[1], node.data[3]))
                yield edge, Op("eq_i", "b", (first, of_event[0]))


def _joins(expr: Op, automaton: Automaton) -> bool:
    """Return whether a condition equates attributes of two single variables that every match binds."""
    if expr.name != "eq_i" or expr.args[0].dtype != expr.args[1].dtype:
        return False
    return all(
        arg.name == "q" and arg.data[0] == "first" and automaton.chain[arg.data[1]] < 0
        and not automaton.variables[arg.data[1]].repeated and automaton.mandatory(arg.data[1])
        for arg in expr.args
    )  # fmt: skip


def _classes(pairs: Iterable[tuple[Op, ...]]) -> list[list[Op]]:
    """Return the equivalence classes of the equated values."""
    classes: list[list[Op]] = []
    for pair in pairs:
        joined = [group for group in classes if pair[0] in group or pair[1] in group]
        merged = list(dict.fromkeys([*(node for group in joined for node in group), *pair]))
        classes = [group for group in classes if group not in joined] + [merged]
    return classes
