"""Where it is checked that no event of a negated variable came.

The events of a negated variable are kept, hashed by the equalities that its conditions ask for; a check looks for one
between the neighbours that a match binds. It is made on the edge behind which the neighbours are known and all that
the conditions mention, or where the match ends. If nothing is bound after the negated variable the check waits
for the end of the window. (A leading one under ``WITHIN`` looks back from the last event, so it is always made where
the match ends.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fastcep.errors import ValidationError
from fastcep.plan.automaton import NO, START, YES, Edge, Negated, State
from fastcep.plan.conjuncts import Conjunct, guarded
from fastcep.plan.decidability import known_guard
from fastcep.plan.ir import TRUE, Op, all_of, equality, key_pair, leaves, quantity, transform
from fastcep.plan.placement import ForAll, Placer, of_last_rounds
from fastcep.query import ast

__all__ = ["Absence", "Absences", "place_negations"]


@dataclass(frozen=True, slots=True)
class Absence:
    """No event of ``negated.member`` between its neighbours satisfies all of this.

    Attributes
    ----------
    keys
        Pairs of a state view and a value of the event that must be equal.
    conditions
        State views with ``neg`` leaves.
    walks
        The same with ``elem`` leaves; in a group for the round of the neighbours.
    latest
        In a group: for the latest round only, not for all.
    guard
        A state view: when the conditions are known, so that the check can be made.
    """

    negated: Negated
    keys: tuple[tuple[Op, Op], ...]
    conditions: tuple[Op, ...]
    walks: tuple[ForAll, ...]
    latest: bool = False
    guard: Op = TRUE


@dataclass(slots=True)
class Absences:
    """Where the checks are made: on edges, where a match ends, and when its window has ended."""

    on_edge: dict[Edge, list[Absence]] = field(default_factory=dict)
    on_accept: dict[int, list[Absence]] = field(default_factory=dict)
    at_end: dict[int, list[Absence]] = field(default_factory=dict)


def place_negations(placer: Placer) -> Absences:
    """Place the checks of a query whose conditions ``placer`` has placed."""
    out = Absences()
    for negated in placer.places.negated:
        conditions = placer.on_negated.get(negated.member, [])
        if negated.group >= 0:
            _in_group(placer, negated, conditions, out)
        else:
            _in_sequence(placer, negated, conditions, out)
    return out


def _absence(placer: Placer, negated: Negated, items: list[Conjunct], crossing: Sequence[Edge] = ()) -> Absence:
    """The check of all rounds; of the latest one, if it is made on the edges ``crossing``."""
    keys: list[tuple[Op, Op]] = []
    conditions: list[Op] = []
    walks: list[ForAll] = []
    for name in placer.same:
        own = placer.translate.dtype(negated.member, name)
        keys.append(key_pair(quantity("part", own, -1, 0, name), Op("neg", own, (), (negated.member, name))))
    for item in items:
        if item.elements() and not crossing:
            walks.append(ForAll(item.guard, item.expr))
            continue
        condition = of_last_rounds(item, 0) if item.elements() else guarded(item.guard, item.expr)
        condition = _known(condition, crossing)
        pair = equality(condition, "neg")
        if pair is not None:
            keys.append(pair)
        elif condition != TRUE:
            conditions.append(condition)
    return Absence(negated, tuple(dict.fromkeys(keys)), tuple(conditions), tuple(walks), bool(crossing))


def _known(expr: Op, crossing: Sequence[Edge]) -> Op:
    """Fold what is known of the round on all of the edges: which variables it binds."""

    def leaf(node: Op) -> Op | None:
        here = node.name == "q" and node.data[0] == "has_last" and node.data[2] == 0
        return TRUE if here and all(edge.now[node.data[1]] == YES for edge in crossing) else None

    return transform(expr, leaf) if crossing else expr


def _in_sequence(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    states, edges = placer.places.states, placer.places.edges
    absence = _absence(placer, negated, items)
    sides = negated.before | negated.after
    nested = len(sides) < sum(not leaf.negated for leaf in placer.leaves)
    begun = isinstance(placer.query.window, ast.ExplicitWindow)  # it is known where the window begins

    def begins(edge: Edge) -> bool:
        """Whether the check comes due on the edge: the SEQ of the negated variable begins."""
        if not nested:
            return edge.source == START
        return edge.member in sides and all(edge.before[m] == NO for m in sides)

    def between(edge: Edge) -> bool:
        """Whether both neighbours are known behind the edge."""
        after = [edge.before[m] == YES or m == edge.member for m in negated.after]
        before = [edge.before[m] == YES for m in negated.before]
        return any(after) and (begun or any(before))

    def checked_on(edge: Edge) -> bool:
        """Whether what the conditions mention is known as well."""
        return between(edge) and all(item.decided(states[edge.target]) for item in items)

    # States with a path on which the check is due and not made yet.
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
            guards = [known_guard(item, edge, placer.places, all_elements=True) for item in items]
            known = [guard for guard in guards if guard is not None]
            if len(known) == len(guards):
                out.on_edge.setdefault(edge, []).append(replace(absence, guard=all_of(known)))
    for number, state in enumerate(states):
        if state.accepting and number in due:
            crossed = any(state.bound[m] != NO for m in negated.after)
            (out.on_accept if crossed or nested else out.at_end).setdefault(number, []).append(absence)


def _in_group(placer: Placer, negated: Negated, items: list[Conjunct], out: Absences) -> None:
    states, edges, group = placer.places.states, placer.places.edges, negated.group
    crossing = [edge for edge in edges if edge.member in negated.after
                and all(edge.now[m] == NO for m in negated.after) and not edge.round]  # fmt: skip
    if all(_known_at(item, edge, negated, states) for item in items for edge in crossing):
        absence = _absence(placer, negated, items, crossing)
        for edge in crossing:
            out.on_edge.setdefault(edge, []).append(absence)
        return
    if placer.at_once and not _known_behind_group(items, group, states):
        name = placer.leaves[negated.member].name
        raise ValidationError(
            f"query {placer.query.name!r}: the conditions on {name!r} mention what is bound after the event behind it, "
            "or several rounds; with STRATEGY skip_till_next and for timed_out=True it must be known with that event "
            "whether it came: mention only what is bound by then, or use skip_till_any without timed_out"
        )
    absence = _absence(placer, negated, items)
    whole = Conjunct(TRUE, TRUE, closed=frozenset([group]).union(*(item.closed for item in items)),
                     bound=frozenset().union(*(item.bound for item in items)))  # fmt: skip
    for edge in edges:
        if whole.decided_by(edge, states):
            out.on_edge.setdefault(edge, []).append(absence)
    for number, state in enumerate(states):
        if state.accepting and not whole.decided(state):
            out.on_accept.setdefault(number, []).append(absence)


def _known_behind_group(items: Sequence[Conjunct], group: int, states: tuple[State, ...]) -> bool:
    """Whether a group has always closed when what the conditions mention is known, and then it is known at once."""
    growing = [state for state in states if group in state.open]
    late = any(all(not replace(item, closed=frozenset()).decided(state) for state in growing) for item in items)
    return late and all(item.closed <= {group} for item in items)


def _known_at(item: Conjunct, edge: Edge, negated: Negated, states: tuple[State, ...]) -> bool:
    """Whether a condition mentions no more than what is known when the right neighbour is bound in its round."""
    group = {negated.group}
    for leaf in leaves(item.expr):
        if leaf.name == "elem":
            member, offset, _ = leaf.data
            here = {*negated.before, edge.member}
            if member not in edge.peers or offset > 0 or (offset == 0 and member not in here):
                return False
        if leaf.name == "q" and leaf.data[1] in (*group, *edge.peers):
            return False
    rest = Conjunct(item.expr, item.guard, closed=item.closed - group, bound=item.bound, branches=item.branches)
    return rest.decided(states[edge.target])
