"""Where a condition is known although what it speaks of may still grow.

Conditions on the whole of a Kleene variable or a group wait until that has closed (:mod:`placement`). But some are
known before: ``a[1].v = 2`` when the second event is bound, whatever follows; ``SUM(a[].v) > 5`` with the last one that
fits; and of ``[i]`` each element when it comes. For ``skip_till_next`` it matters, for an event that makes such a
condition false does not go on with the partial match; and a partial match of which this is known is none when it times
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastcep.plan.automaton import NO, START, YES, Automaton, Edge
from fastcep.plan.conjuncts import Conjunct
from fastcep.plan.ir import TRUE, Op, all_of, const, count, leaves, quantity
from fastcep.plan.rewrite import is_bound

__all__ = ["known_behind", "known_guard"]


def known_behind(item: Conjunct, places: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield the edges behind which a conjunct may be known before all has closed, and when it is (a state view)."""
    rest = replace(item, closed=frozenset[int]())
    for edge in places.edges:
        state = places.states[edge.target]
        if item.closed & state.open and _news(item, rest, edge, places):
            guard = known_guard(item, edge, places)
            if guard is not None:
                yield edge, guard


def known_guard(item: Conjunct, edge: Edge, places: Automaton, all_elements: bool = False) -> Op | None:
    """When a conjunct is known behind an edge (a state view), None if it never is.

    ``all_elements``: it needs all elements that it goes through by ``[i]``, not those that there are.
    """
    state = places.states[edge.target]
    if not replace(item, closed=frozenset[int]()).decided(state):
        return None
    guards = [_known(item, variable, edge, places, all_elements) for variable in sorted(item.closed & state.open)]
    known = [guard for guard in guards if guard is not None]
    return all_of(known) if len(known) == len(guards) else None


def _news(item: Conjunct, rest: Conjunct, edge: Edge, places: Automaton) -> bool:
    """Whether the edge binds something that the conjunct speaks of, or decides something that it waits for."""
    if edge.source == START or edge.member in item.mentioned or edge.group in item.closed:
        return True
    source, target = places.states[edge.source], places.states[edge.target]
    return rest.decided_by(edge, places.states) or item.closed & source.open != item.closed & target.open


def _known(item: Conjunct, variable: int, edge: Edge, places: Automaton, all_elements: bool) -> Op | None:
    """When all that a conjunct says of a variable is known behind an edge; None if never.

    Elements ``[i]`` are judged one by one. One that is named (``x[k]``, ``g[first].x``) is known when it is there; all
    else when the variable holds as many events, or full rounds, as it may.
    """
    single, state = variable < len(places.leaves), places.states[edge.target]
    if state.bound[variable] == NO:
        return None
    guards = [TRUE if state.bound[variable] == YES else is_bound(variable)]
    inner = (variable, *places.inner.get(variable, ()))
    for leaf in leaves(item.expr):
        if all_elements and leaf.name == "elem" and leaf.data[0] in inner:
            return _full(variable, edge, places)
        if leaf.name != "q" or leaf.data[1] not in inner:
            continue
        kind, member, extra, _ = leaf.data
        if kind not in ("first", "at"):
            return _full(variable, edge, places)
        if not single:
            guards.append(quantity(f"has_{kind}", "b", member, extra))
        elif kind == "at":
            guards.append(Op("lt_i", "b", (const(extra, "i"), count(member))))
    return all_of(list(dict.fromkeys(guards)))


def _full(variable: int, edge: Edge, places: Automaton) -> Op | None:
    """When a variable can grow no more; None if it always can."""
    single = variable < len(places.leaves)
    most = places.leaves[variable].member.maximum if single else places.bounds[variable][1]
    goes_on = not single and any(
        other.source == edge.target and other.group == variable and not other.round for other in places.edges
    )
    if most is None or goes_on:
        return None
    return Op("eq_i", "b", (count(variable), const(most, "i")))
