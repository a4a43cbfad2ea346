"""Decide conditions before the variables that they mention are closed.

A condition on all elements of a Kleene variable or a group usually waits until that is closed (:mod:`placement`). Some
conditions are decided earlier: ``a[1].v = 2`` when the second event is bound, whatever follows; ``SUM(a[].v) > 5`` when
the variable has its maximum number of events; and a condition on ``[i]`` for each element when it is bound. This
matters for ``skip_till_next``, because an event that makes the condition false does not extend the partial match, and
for time-outs, because a partial match that violates a condition is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastcep.plan.automaton import NO, START, YES, Automaton, Edge
from fastcep.plan.conjuncts import Conjunct
from fastcep.plan.ir import TRUE, Op, all_of, const, count, leaves, quantity
from fastcep.plan.rewrite import is_bound

__all__ = ["early_decisions", "early_guard"]


def early_decisions(item: Conjunct, automaton: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield ``(edge, guard)``: after the edge the conjunct is decided before its variables close, if the guard holds.

    The guard is a view of the edge's target.
    """
    without_closed = replace(item, closed=frozenset[int]())
    for edge in automaton.edges:
        state = automaton.states[edge.target]
        if item.closed & state.open and _is_affected(item, without_closed, edge, automaton):
            guard = early_guard(item, edge, automaton)
            if guard is not None:
                yield edge, guard


def early_guard(item: Conjunct, edge: Edge, automaton: Automaton, all_elements: bool = False) -> Op | None:
    """Return when a conjunct is decided after an edge, as a state view; None if never.

    With ``all_elements`` it needs all elements over which it iterates with ``[i]``, not only those bound so far.
    """
    state = automaton.states[edge.target]
    if not replace(item, closed=frozenset[int]()).decided(state):
        return None
    growing = sorted(item.closed & state.open)
    guards = [_variable_guard(item, variable, edge, automaton, all_elements) for variable in growing]
    possible = [guard for guard in guards if guard is not None]
    return all_of(possible) if len(possible) == len(guards) else None


def _is_affected(item: Conjunct, without_closed: Conjunct, edge: Edge, automaton: Automaton) -> bool:
    """Return whether the edge binds a variable that the conjunct mentions, or decides one that it waits for."""
    if edge.source == START or edge.variable in item.mentioned or edge.group in item.closed:
        return True
    source, target = automaton.states[edge.source], automaton.states[edge.target]
    return without_closed.decided_by(edge, automaton.states) or item.closed & source.open != item.closed & target.open


def _variable_guard(item: Conjunct, variable: int, edge: Edge, automaton: Automaton, all_elements: bool) -> Op | None:
    """Return when a conjunct's references to a variable are decided after an edge; None if never.

    Elements ``[i]`` are checked one by one. A specific element (``x[k]``, ``g[first].x``) is decided when it is bound,
    anything else when the variable has its maximum number of events or complete rounds.
    """
    single, state = variable < len(automaton.variables), automaton.states[edge.target]
    if state.bound[variable] == NO:
        return None
    guards = [TRUE if state.bound[variable] == YES else is_bound(variable)]
    inner = (variable, *automaton.inner.get(variable, ()))
    for leaf in leaves(item.expr):
        if all_elements and leaf.name == "elem" and leaf.data[0] in inner:
            return _full_guard(variable, edge, automaton)
        if leaf.name != "q" or leaf.data[1] not in inner:
            continue
        kind, mentioned, extra, _ = leaf.data
        if kind not in ("first", "at"):
            return _full_guard(variable, edge, automaton)
        if not single:
            guards.append(quantity(f"has_{kind}", "b", mentioned, extra))
        elif kind == "at":
            guards.append(Op("lt_i", "b", (const(extra, "i"), count(mentioned))))
    return all_of(list(dict.fromkeys(guards)))


def _full_guard(variable: int, edge: Edge, automaton: Automaton) -> Op | None:
    """Return when a variable cannot grow any more; None if it always can."""
    single = variable < len(automaton.variables)
    maximum = automaton.variables[variable].declaration.maximum if single else automaton.bounds[variable][1]
    round_can_continue = not single and any(
        other.source == edge.target and other.group == variable and not other.round for other in automaton.edges
    )
    if maximum is None or round_can_continue:
        return None
    return Op("eq_i", "b", (count(variable), const(maximum, "i")))
