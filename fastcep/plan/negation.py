"""Place the checks that no event of a negated variable occurred.

The events of a negated variable are kept, hashed by the equalities in its conditions. A check looks for such an event
between the neighbours that a match binds. It runs on the edge after which the neighbours and everything that the
conditions mention are known, or where the match ends. If nothing is bound after the negated variable, the check waits
for the end of the window. A leading negated variable under ``WITHIN`` looks back from the last event, so it is always
checked where the match ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastcep.errors import ValidationError
from fastcep.plan.absence import Absences, absence_of
from fastcep.plan.automaton import NO, START, YES, Edge, Negated, State
from fastcep.plan.conjuncts import Conjunct
from fastcep.plan.decidability import early_guard
from fastcep.plan.ir import TRUE, all_of, leaves
from fastcep.plan.placement import Placer
from fastcep.plan.silence import limit_span, place_silence
from fastcep.query import ast

__all__ = ["place_negations"]


def place_negations(placer: Placer) -> Absences:
    """Place the checks of a query whose conditions ``placer`` has placed."""
    out = Absences()
    for negated in placer.automaton.negated:
        conditions = placer.on_negated.get(negated.variable, [])
        if negated.nanoseconds is not None:
            place_silence(placer, negated, conditions, out)
        elif negated.until:
            _in_loop(placer, negated, conditions, out)
        elif negated.group >= 0:
            _in_group(placer, negated, conditions, out)
        else:
            _in_sequence(placer, negated, conditions, out)
    if out.dues:
        limit_span(placer)
    return out


def _in_sequence(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    states, edges = placer.automaton.states, placer.automaton.edges
    absence = absence_of(placer, negated, items)
    sides = negated.before | negated.after
    nested = len(sides) < sum(not variable.negated for variable in placer.variables)
    start_known = isinstance(placer.query.window, ast.ExplicitWindow)  # otherwise it depends on the last event

    def begins(edge: Edge) -> bool:
        """Return whether the check becomes due on the edge, because the SEQ of the negated variable begins."""
        if not nested:
            return edge.source == START
        return edge.variable in sides and all(edge.before[m] == NO for m in sides)

    def between(edge: Edge) -> bool:
        """Return whether both neighbours are known after the edge."""
        after = [edge.before[m] == YES or m == edge.variable for m in negated.after]
        before = [edge.before[m] == YES for m in negated.before]
        return any(after) and (start_known or any(before))

    def checked_on(edge: Edge) -> bool:
        """Return whether everything that the conditions mention is known as well."""
        return between(edge) and all(item.decided(states[edge.target]) for item in items)

    # States with a path on which the check is due and has not run yet.
    due: set[int] = set()
    changed = True
    while changed:
        changed = False
        for edge in edges:
            if (edge.source in due or begins(edge)) and not checked_on(edge) and edge.target not in due:
                due.add(edge.target)
                changed = True
    for edge in edges:
        if (edge.source in due or begins(edge)) and checked_on(edge):
            out.on_edge.setdefault(edge, []).append(absence)
        elif placer.at_once and between(edge):
            guards = [early_guard(item, edge, placer.automaton, all_elements=True) for item in items]
            possible = [guard for guard in guards if guard is not None]
            if len(possible) == len(guards):
                out.on_edge.setdefault(edge, []).append(replace(absence, guard=all_of(possible)))
    for number, state in enumerate(states):
        if state.accepting and number in due:
            crossed = any(state.bound[m] != NO for m in negated.after)
            (out.on_accept if crossed or nested else out.at_end).setdefault(number, []).append(absence)


def _in_loop(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    """Place the check of UNTIL wherever an element of the loop is bound; the first event of a match needs none."""
    absence = absence_of(placer, negated, items)
    for edge in placer.automaton.edges:
        if edge.variable in negated.after and edge.source != START:
            out.on_edge.setdefault(edge, []).append(absence)


def _in_group(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    states, edges, group = placer.automaton.states, placer.automaton.edges, negated.group
    crossing = [edge for edge in edges if edge.variable in negated.after
                and all(edge.now[m] == NO for m in negated.after) and not edge.round]  # fmt: skip
    if all(_decided_on(item, edge, negated, states) for item in items for edge in crossing):
        absence = absence_of(placer, negated, items, crossing)
        for edge in crossing:
            out.on_edge.setdefault(edge, []).append(absence)
        return
    if placer.at_once and not _decided_after_group(items, group, states):
        name = placer.variables[negated.variable].name
        raise ValidationError(
            f"query {placer.query.name!r}: the conditions on {name!r} mention several rounds, or variables bound after "
            f"the event that follows {name!r}; STRATEGY skip_till_next and timed_out=True must check for {name!r} at "
            "that event. Mention only variables bound by then, or use skip_till_any without timed_out"
        )
    absence = absence_of(placer, negated, items)
    all_conditions = Conjunct(TRUE, TRUE, closed=frozenset([group]).union(*(item.closed for item in items)),
                     bound=frozenset().union(*(item.bound for item in items)))  # fmt: skip
    for edge in edges:
        if all_conditions.decided_by(edge, states):
            out.on_edge.setdefault(edge, []).append(absence)
    for number, state in enumerate(states):
        if state.accepting and not all_conditions.decided(state):
            out.on_accept.setdefault(number, []).append(absence)


def _decided_after_group(items: Sequence[Conjunct], group: int, states: tuple[State, ...]) -> bool:
    """Return whether the conditions are decided only after the group has closed, and then at once."""
    growing = [state for state in states if group in state.open]
    late = any(all(not replace(item, closed=frozenset()).decided(state) for state in growing) for item in items)
    return late and all(item.closed <= {group} for item in items)


def _decided_on(item: Conjunct, edge: Edge, negated: Negated, states: tuple[State, ...]) -> bool:
    """Return whether a condition is decided when the right neighbour is bound in its round."""
    group = {negated.group}
    for leaf in leaves(item.expr):
        if leaf.name == "elem":
            variable, offset, _ = leaf.data
            bound_in_round = {*negated.before, edge.variable}
            if variable not in edge.peers or offset > 0 or (offset == 0 and variable not in bound_in_round):
                return False
        if leaf.name == "q" and leaf.data[1] in (*group, *edge.peers):
            return False
    without_group = replace(item, mentioned=(), closed=item.closed - group)
    return without_group.decided(states[edge.target])
