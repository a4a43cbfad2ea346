"""Place the checks of ``NEG N n FOR t``: silence for a time after the last event bound before it.

An event that is bound after the silence must come when the time has passed, which is a condition on its edge. The check
that no event of the negated variable came in that time runs on this edge, or as soon as all that its conditions mention
is known. If nothing is bound after the silence, the match waits until the time has passed (`Absences.dues`).
"""

from __future__ import annotations

from dataclasses import replace

from fastcep.plan.absence import Absences, absence_of
from fastcep.plan.automaton import MAYBE, NO, START, YES, Edge, Negated
from fastcep.plan.conjuncts import Conjunct, guarded
from fastcep.plan.decidability import early_guard
from fastcep.plan.ir import TRUE, Op, all_of, const, quantity
from fastcep.plan.placement import Placer
from fastcep.plan.rewrite import any_bound, latest_time
from fastcep.query import ast

__all__ = ["limit_span", "place_silence"]


def place_silence(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    """Place the checks of a silence; ``items`` are the conditions on its events."""
    states, edges = placer.automaton.states, placer.automaton.edges
    due = Op("add_i", "i", (latest_time(negated.before), const(negated.nanoseconds, "i")))
    in_time = Op("le_i", "b", (Op("neg", "i", (), (negated.variable, "time")), due))
    guard = _guard(negated)
    absence = absence_of(placer, negated, items)
    absence = replace(absence, conditions=(*absence.conditions, in_time), guard=guard)

    def ends(edge: Edge) -> bool:
        """Return whether the first event after the silence is bound, if the match is in its branches of OR."""
        first = edge.variable in negated.after and all(edge.before[m] == NO for m in negated.after)
        return first and _applies(negated, edge.before) != NO

    def over(edge: Edge) -> bool:
        return ends(edge) or any(edge.before[m] == YES for m in negated.after)

    def checked_on(edge: Edge) -> bool:
        return over(edge) and all(item.decided(states[edge.target]) for item in items)

    for edge in edges:
        if ends(edge):
            late_enough = Op("lt_i", "b", (due, latest_time([edge.variable])))
            condition = guarded(TRUE if _applies(negated, edge.before) == YES else guard, late_enough)
            placer.result.on_edge.setdefault(edge, []).append(condition)
    waiting: set[int] = set()  # states with a path on which the check has not run yet

    def waits(edge: Edge) -> bool:
        if edge.source in waiting or edge.source == START:
            return not checked_on(edge)
        return _applies(negated, edge.before) == NO and edge.variable not in negated.after  # it may enter the branch

    changed = True
    while changed:
        changed = False
        for edge in edges:
            if waits(edge) and edge.target not in waiting and _applies(negated, states[edge.target].bound) != NO:
                waiting.add(edge.target)
                changed = True
    for edge in edges:
        if edge.source not in waiting:
            continue
        if checked_on(edge):
            out.on_edge.setdefault(edge, []).append(absence)
        elif placer.at_once and over(edge):
            guards = [early_guard(item, edge, placer.automaton, all_elements=True) for item in items]
            possible = [each for each in guards if each is not None]
            if len(possible) == len(guards):
                out.on_edge.setdefault(edge, []).append(replace(absence, guard=all_of([guard, *possible])))
    for number in waiting:
        state = states[number]
        if not state.accepting:
            continue
        if any(state.bound[m] != NO for m in negated.after):
            out.on_accept.setdefault(number, []).append(absence)
        else:
            out.at_end.setdefault(number, []).append(absence)
            out.dues.setdefault(number, []).append(due)


def limit_span(placer: Placer) -> None:
    """Limit the time between a match's first event and the others to WITHIN.

    Where matches wait for a silence, partial matches live longer than WITHIN (`Plan.lives`).
    """
    window = placer.query.window
    if not isinstance(window, ast.TimeWindow):
        return
    first = quantity("part", "i", -1, 0, "time")
    for edge in placer.automaton.edges:
        if edge.source != START:
            age = Op("sub_i", "i", (latest_time([edge.variable]), first))
            in_window = Op("le_i", "b", (age, const(window.nanoseconds, "i")))
            placer.result.on_edge.setdefault(edge, []).append(in_window)


def _applies(negated: Negated, bound: tuple[int, ...]) -> int:
    """Return whether a match that has bound these variables is in the branches of OR that contain the silence."""
    result = YES
    for one_of, none_of in negated.branches:
        if any(bound[m] == YES for m in none_of) or (one_of and all(bound[m] == NO for m in one_of)):
            return NO
        if any(bound[m] == MAYBE for m in none_of) or (one_of and all(bound[m] != YES for m in one_of)):
            result = MAYBE
    return result


def _guard(negated: Negated) -> Op:
    """Return the condition that a match is in the branches of OR that contain the silence, as a state view."""
    parts = []
    for one_of, none_of in negated.branches:
        if one_of:
            parts.append(any_bound(tuple(sorted(one_of))))
        if none_of:
            parts.append(Op("not", "b", (any_bound(tuple(sorted(none_of))),)))
    return all_of(parts)
