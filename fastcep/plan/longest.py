"""SELECT longest: the partial matches that can still become longer."""

from __future__ import annotations

from fastcep.plan.automaton import Automaton, Edge
from fastcep.plan.ir import FALSE, TRUE, Op, const, count, either

__all__ = ["can_grow"]


def can_grow(state: int, automaton: Automaton) -> Op:
    """Return the condition that a partial match in a state can bind another event, as a view of the state.

    It is true unless all edges repeat a loop that may be full.
    """
    result = FALSE
    for edge in automaton.edges:
        if edge.source == state:
            result = either(result, _below_maximum(edge, automaton))
    return result


def _below_maximum(edge: Edge, automaton: Automaton) -> Op:
    if not edge.loop:
        return TRUE
    unit = edge.variable if edge.again else edge.group
    maximum = automaton.variables[unit].declaration.maximum if edge.again else automaton.bounds[unit][1]
    return TRUE if maximum is None else Op("lt_i", "b", (count(unit), const(maximum, "i")))
