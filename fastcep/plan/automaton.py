"""Build the automaton of a pattern: its states and edges.

This is Glushkov's construction: one position per variable, and an edge binds one event to one variable. A *state*
records the progress of each part of the pattern: the position in a ``SEQ``, the positions in all parts of an ``AND``,
the branch of an ``OR``, the bound members of an ``ANY``, and the position in the current round of a group. Skipped
optional variables are not recorded, so a ``SEQ`` has one state per variable, however many of them are optional.

Invariant: the bindings of a match in stream order, with the starts of its rounds, determine exactly one path.
Therefore every match is found once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fastcep.query import ast
from fastcep.query.patterns import Leaf, groups_of, leaves_of, sub_patterns

__all__ = ["MAYBE", "NO", "START", "YES", "Automaton", "Edge", "Negated", "State", "build_automaton", "entry", "repeat"]

START = -1
NO, MAYBE, YES = 0, 1, 2

Frontier = Any  # progress of a part: None if nothing is bound, otherwise nested tuples that depend on the part's kind


@dataclass(frozen=True, slots=True)
class Edge:
    """Transition that binds an event to ``member``: from state ``source`` (``START``: nothing is bound) to ``target``.

    Attributes
    ----------
    again
        Whether the member is a Kleene variable that already holds events.
    group, round
        Number of the repeated group that contains the member, or -1. ``"first"`` starts the group, ``"next"`` starts
        another round and ``""`` continues the round.
    before, now
        Per variable, members first and then groups, whether it is bound in the source: ``NO``, ``MAYBE`` or ``YES``.
        For variables in a group, ``now`` refers to the current round.
    peers
        Members of the group.
    """

    source: int
    target: int
    member: int
    again: bool = False
    group: int = -1
    round: str = ""
    before: tuple[int, ...] = ()
    now: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()

    @property
    def loop(self) -> bool:
        """True if the edge repeats a Kleene member or a group."""
        return self.again or self.round == "next"


@dataclass(frozen=True, slots=True)
class State:
    """State of the automaton: the variables that are bound, and those that can still be bound or grow (``open``)."""

    member: int
    bound: tuple[int, ...]
    open: frozenset[int]
    accepting: bool


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated variable, the members before and after it in its SEQ, and the repeated group of the SEQ, or -1."""

    member: int
    before: frozenset[int]
    after: frozenset[int]
    group: int = -1


@dataclass(frozen=True, slots=True)
class Automaton:
    """States and edges of a pattern.

    Variables are numbered: members by their position in the pattern, then the repeated groups. ``chain[m]`` is the
    number of m's group, or -1. ``inner[g]`` holds the members of a group, ``bounds[g]`` its minimum and maximum number
    of rounds. ``branches[m]`` holds the members of the innermost branch of an OR that contains m. ``sets`` holds the
    members of each ANY that can bind the same events in several ways. Edges are sorted by member, then source; edges
    that continue a round come before those that start one.
    """

    leaves: tuple[Leaf, ...]
    chain: tuple[int, ...]
    inner: dict[int, tuple[int, ...]]
    bounds: dict[int, tuple[int, int | None]]
    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    negated: tuple[Negated, ...]
    branches: dict[int, tuple[int, ...]]
    sets: tuple[tuple[int, ...], ...]

    def mandatory(self, variable: int) -> bool:
        """Return whether every match binds the variable."""
        return all(state.bound[variable] == YES for state in self.states if state.accepting)


def entry(member: int, group: int = -1) -> Edge:
    """Return an edge that binds the first event of a match to ``member``, to rewrite conditions on the event alone."""
    return Edge(START, 0, member, False, group, "first" if group >= 0 else "", (NO,) * (max(member, group) + 1))


def repeat(member: int) -> Edge:
    """Return an edge that binds one more event to a Kleene member."""
    return Edge(member, member, member, True, before=(YES,) * (member + 1))


def build_automaton(pattern: ast.Pattern) -> Automaton:
    """Build the automaton of a checked pattern."""
    return _Builder(pattern).build()


def lowered(pattern: ast.Pattern) -> ast.Pattern:
    """Return the pattern with APERIODIC, PERIODIC and ``ANY(n, T x[])`` replaced by basic operators."""
    match pattern:
        case ast.Aperiodic(opening, body, closing):
            return ast.Sequence((lowered(opening), _negation(closing), lowered(body)))
        case ast.Periodic(opening, _, closing):
            return ast.Sequence((lowered(opening), _negation(closing)))
        case ast.AnyOf(_, members) if members[0].repeated:
            return members[0]
        case ast.Sequence() | ast.Conjunction() | ast.Disjunction():
            return type(pattern)(tuple(map(lowered, pattern.members)))
        case ast.Group():
            return ast.Group(
                lowered(pattern.pattern), pattern.variable, pattern.minimum, pattern.maximum, pattern.repeated
            )
    return pattern


def _negation(member: ast.Member) -> ast.Negation:
    return ast.Negation(member.types, member.variable)


@dataclass(slots=True)
class _Builder:
    pattern: ast.Pattern
    leaves: tuple[Leaf, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)

    def build(self) -> Automaton:
        self.leaves = leaves_of(self.pattern)
        self.numbers = {leaf.member.variable: number for number, leaf in enumerate(self.leaves)}
        repeated = [group for group in groups_of(self.pattern) if group.repeated]
        self.groups = {group.variable: len(self.leaves) + number for number, group in enumerate(repeated)}
        self.pattern = lowered(self.pattern)
        chain = tuple(
            self.groups[leaf.group.variable] if leaf.group is not None and leaf.group.repeated else -1
            for leaf in self.leaves
        )
        inner = {
            g: tuple(m for m, group in enumerate(chain) if group == g and not self.leaves[m].negated)
            for g in self.groups.values()
        }
        states, edges = self._states(chain, inner)
        return Automaton(
            leaves=self.leaves,
            chain=chain,
            inner=inner,
            bounds={self.groups[group.variable]: (group.minimum, group.maximum) for group in repeated},
            states=states,
            edges=edges,
            negated=tuple(self._negated(self.pattern, -1)),
            branches=dict(self._branches(self.pattern)),
            sets=tuple(self._sets(self.pattern)),
        )

    # ---------------------------------------------------------------- states

    def _states(
        self, chain: tuple[int, ...], inner: dict[int, tuple[int, ...]]
    ) -> tuple[tuple[State, ...], tuple[Edge, ...]]:
        numbers: dict[Frontier, int] = {}
        moves: list[tuple[Frontier, int, bool, str, Frontier]] = []
        unvisited: list[Frontier] = [None]
        while unvisited:
            here = unvisited.pop()
            for member, again, part, there in self._steps(self.pattern, here):
                moves.append((here, member, again, part, there))
                if there not in numbers:
                    numbers[there] = -1
                    unvisited.append(there)
        frontiers = sorted(numbers, key=lambda frontier: self._rank(self.pattern, frontier))
        numbers = {frontier: number for number, frontier in enumerate(frontiers)} | {None: START}
        last = {numbers[there]: member for _, member, _, _, there in moves}
        transitions = sorted({(member, numbers[here], part == "next", numbers[there], again, part)
                      for here, member, again, part, there in moves})  # fmt: skip
        bound = self._bound(len(frontiers), transitions, chain, {})
        now = self._bound(len(frontiers), transitions, chain, inner)
        unbound = (NO,) * (len(self.leaves) + len(self.groups))
        bound[START], now[START] = unbound, unbound
        edges = tuple(
            Edge(source, target, member, again, chain[member], part, bound[source], now[source],
                 inner.get(chain[member], ()))
            for member, source, _, target, again, part in transitions
        )  # fmt: skip
        reachable = _reach(len(frontiers), edges)
        states = tuple(
            State(last[number], bound[number], reachable[number], self._done(self.pattern, frontier))
            for number, frontier in enumerate(frontiers)
        )
        return states, edges

    def _bound(
        self, states: int, transitions: list[Any], chain: tuple[int, ...], inner: dict[int, tuple[int, ...]]
    ) -> dict[int, tuple[int, ...]]:
        """Return per state whether each variable is bound: a least fixed point. A new round clears ``inner``."""
        unbound = (NO,) * (len(self.leaves) + len(self.groups))
        bound: dict[int, tuple[int, ...]] = {START: unbound}
        changed = True
        while changed:
            changed = False
            for member, source, _, target, _, part in transitions:
                before = bound.get(source)
                if before is None:
                    continue
                cleared = inner.get(chain[member], ()) if part else ()
                after = tuple(
                    YES if n in (member, chain[member]) else NO if n in cleared else old for n, old in enumerate(before)
                )
                previous = bound.get(target, after)
                merged = tuple(a if a == b else MAYBE for a, b in zip(after, previous, strict=True))
                if merged != bound.get(target):
                    bound[target] = merged
                    changed = True
        return bound

    def _steps(self, pattern: ast.Pattern, here: Frontier) -> Iterator[tuple[int, bool, str, Frontier]]:
        """Yield every way to bind one event: ``(member, again, round, frontier after it)``."""
        match pattern:
            case ast.Member():
                if here is None or (pattern.repeated and pattern.maximum != 1):
                    yield self.numbers[pattern.variable], here is not None, "", (1,)
            case ast.Sequence(members):
                yield from self._sequence(members, here)
            case ast.Conjunction(members):
                parts = here or (None,) * len(members)
                for n, member in enumerate(members):
                    for number, again, part, there in self._steps(member, parts[n]):
                        yield number, again, part, (*parts[:n], there, *parts[n + 1 :])
            case ast.Disjunction(members):
                for n, member in enumerate(members):
                    if here is None or here[0] == n:
                        for number, again, part, there in self._steps(member, here and here[1]):
                            yield number, again, part, (n, there)
            case ast.AnyOf(count, members):
                taken: tuple[int, ...] = here or ()
                for n, member in enumerate(members):
                    if len(taken) < count and n not in taken:
                        yield self.numbers[member.variable], False, "", tuple(sorted((*taken, n)))
            case ast.Group(inner):
                for number, again, _, there in self._steps(inner, here and here[0]):
                    yield number, again, "first" if here is None and pattern.repeated else "", (there,)
                if here is not None and pattern.maximum != 1 and self._done(inner, here[0]):
                    for number, again, _, there in self._steps(inner, None):
                        yield number, again, "next", (there,)

    def _sequence(self, members: tuple[ast.Pattern, ...], here: Frontier) -> Iterator[tuple[int, bool, str, Frontier]]:
        first = 0
        if here is not None:
            first, inside = here
            for number, again, part, there in self._steps(members[first], inside):
                yield number, again, part, (first, there)
            if not self._done(members[first], inside):
                return
            first += 1
        for n in range(first, len(members)):
            for number, again, part, there in self._steps(members[n], None):
                yield number, again, part, (n, there)
            if not self._done(members[n], None):
                return

    def _done(self, part: ast.Pattern, here: Frontier) -> bool:
        """Return whether the part is complete at a frontier, so that the next part can begin."""
        match part:
            case ast.Member():
                return here is not None or part.minimum == 0
            case ast.Negation():
                return True
            case ast.Sequence(members):
                if here is None:
                    return all(self._done(member, None) for member in members)
                return self._done(members[here[0]], here[1]) and all(
                    self._done(member, None) for member in members[here[0] + 1 :]
                )
            case ast.Conjunction(members):
                parts = here or (None,) * len(members)
                return all(map(self._done, members, parts))
            case ast.Disjunction(members):
                if here is None:
                    return any(self._done(member, None) for member in members)
                return self._done(members[here[0]], here[1])
            case ast.AnyOf(count, _):
                return len(here or ()) == count
        assert isinstance(part, ast.Group)
        return part.minimum == 0 if here is None else self._done(part.pattern, here[0])

    def _rank(self, part: ast.Pattern, here: Frontier) -> tuple[int, ...]:
        """Return the sort key of a state: its position in a SEQ, the total progress of the parts of an AND."""
        if here is None:
            return (0,)
        match part:
            case ast.Sequence(members) | ast.Disjunction(members):
                return (here[0] + 1, *self._rank(members[here[0]], here[1]))
            case ast.Conjunction(members):
                ranks = list(map(self._rank, members, here))
                return (sum(rank[0] for rank in ranks), *(-item for rank in ranks for item in rank))
            case ast.AnyOf():
                return (len(here), *here)
            case ast.Group(inner):
                return self._rank(inner, here[0])
        return (1,)

    # ------------------------------------------------------ members and branches

    def _members(self, part: ast.Pattern) -> frozenset[int]:
        if isinstance(part, ast.Member):
            return frozenset([self.numbers[part.variable]])
        return frozenset().union(*map(self._members, sub_patterns(part)))

    def _negated(self, part: ast.Pattern, group: int) -> Iterator[Negated]:
        if isinstance(part, ast.Group) and part.repeated:
            group = self.groups[part.variable]
        if isinstance(part, ast.Sequence):
            for n, member in enumerate(part.members):
                if isinstance(member, ast.Negation):
                    sides = [frozenset().union(*map(self._members, side))
                             for side in (part.members[:n], part.members[n + 1 :])]  # fmt: skip
                    yield Negated(self.numbers[member.variable], sides[0], sides[1], group)
        for inner in sub_patterns(part):
            yield from self._negated(inner, group)

    def _branches(self, part: ast.Pattern) -> Iterator[tuple[int, tuple[int, ...]]]:
        if isinstance(part, ast.Disjunction):
            for branch in part.members:
                members = tuple(sorted(self._members(branch)))
                yield from ((member, members) for member in members)
                yield from ((self.groups[group.variable], members) for group in groups_of(branch) if group.repeated)
        for inner in sub_patterns(part):
            yield from self._branches(inner)

    def _sets(self, part: ast.Pattern) -> Iterator[tuple[int, ...]]:
        if isinstance(part, ast.AnyOf):
            type_sets = [set(member.types) for member in part.members]
            if any(left & right for n, left in enumerate(type_sets) for right in type_sets[:n]):
                yield tuple(sorted(self._members(part)))
        for inner in sub_patterns(part):
            yield from self._sets(inner)


def _reach(states: int, edges: tuple[Edge, ...]) -> list[frozenset[int]]:
    """Return per state the variables that some path from it binds."""
    reachable: list[frozenset[int]] = [frozenset()] * states
    changed = True
    while changed:
        changed = False
        for edge in reversed(edges):
            if edge.source == START:
                continue
            variables = reachable[edge.source] | {edge.member} | reachable[edge.target]
            if edge.group >= 0:
                variables |= {edge.group}
            if variables != reachable[edge.source]:
                reachable[edge.source] = variables
                changed = True
    return reachable
