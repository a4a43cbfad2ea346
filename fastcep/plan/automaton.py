"""Build the automaton of a pattern: its states and edges.

This is Glushkov's construction: one position per variable, and an edge binds one event to one variable. A *state*
records the progress of each part of the pattern: the position in a ``SEQ``, the positions in all parts of an ``AND``,
the branch of an ``OR``, the bound variables of an ``ANY``, and the position in the current round of a group. Skipped
optional variables are not recorded, so a ``SEQ`` has one state per variable, however many of them are optional.

Invariant: the bindings of a match in stream order, with the starts of its rounds, determine exactly one path.
Therefore every match is found once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fastcep.query import ast
from fastcep.query.patterns import PatternVariable, groups_of, is_nullable, pattern_variables, sub_patterns

__all__ = ["MAYBE", "NO", "START", "YES", "Automaton", "Edge", "Negated", "State", "build_automaton", "entry", "repeat"]

START = -1
NO, MAYBE, YES = 0, 1, 2

Frontier = Any  # progress of a part: None if nothing is bound, otherwise nested tuples that depend on the part's kind


@dataclass(frozen=True, slots=True)
class Edge:
    """Transition that binds an event to ``variable``, from state ``source`` (``START``: none is bound) to ``target``.

    Attributes
    ----------
    again
        Whether the variable is a Kleene variable that already holds events.
    group, round
        Number of the repeated group that contains the variable, or -1. ``"first"`` starts the group, ``"next"`` starts
        another round and ``""`` continues the round.
    before, now
        Per variable, and then per group, whether it is bound in the source: ``NO``, ``MAYBE`` or ``YES``.
        For variables in a group, ``now`` refers to the current round.
    peers
        Variables of the group.
    """

    source: int
    target: int
    variable: int
    again: bool = False
    group: int = -1
    round: str = ""
    before: tuple[int, ...] = ()
    now: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()

    @property
    def loop(self) -> bool:
        """True if the edge repeats a Kleene variable or a group."""
        return self.again or self.round == "next"


@dataclass(frozen=True, slots=True)
class State:
    """State of the automaton: the variables that are bound, and those that can still be bound or grow (``open``)."""

    variable: int
    bound: tuple[int, ...]
    open: frozenset[int]
    accepting: bool


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated variable, the variables before and after it in its SEQ, and the repeated group of the SEQ, or -1.

    With ``FOR t`` (``nanoseconds``) ``before`` and ``after`` include the variables of the enclosing SEQs. It applies to
    a match if the match binds one of the first and none of the second variables of each of ``branches``.
    With ``until``, its event ends the loop of the variables ``after``.
    """

    variable: int
    before: frozenset[int]
    after: frozenset[int]
    group: int = -1
    nanoseconds: int | None = None
    branches: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    until: bool = False


@dataclass(frozen=True, slots=True)
class Automaton:
    """States and edges of a pattern.

    Variables are numbered by their position in the pattern, and repeated groups after them. ``chain[v]`` is the number
    of v's group, or -1. ``inner[g]`` holds the variables of a group, ``bounds[g]`` its minimum and maximum number of
    rounds. ``branches[v]`` holds the variables of the innermost branch of an OR that contains v. ``sets`` holds the
    variables of each ANY that can bind the same events in several ways. Edges are sorted by variable, then source;
    edges that continue a round come before those that start one.
    """

    variables: tuple[PatternVariable, ...]
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


def entry(variable: int, group: int = -1) -> Edge:
    """Return an edge that binds a match's first event to ``variable``, to rewrite conditions on the event alone."""
    return Edge(START, 0, variable, False, group, "first" if group >= 0 else "", (NO,) * (max(variable, group) + 1))


def repeat(variable: int) -> Edge:
    """Return an edge that binds one more event to a Kleene variable."""
    return Edge(variable, variable, variable, True, before=(YES,) * (variable + 1))


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
        case ast.AnyOf(_, variables) if variables[0].repeated:
            return variables[0]
        case ast.Sequence() | ast.Conjunction() | ast.Disjunction():
            return type(pattern)(tuple(map(lowered, pattern.patterns)))
        case ast.Until(ast.Group() as group, negation):
            loop = lowered(group)
            assert isinstance(loop, ast.Group)
            return ast.Until(loop, negation)
        case ast.Group():
            return ast.Group(lowered(pattern.pattern), pattern.name, pattern.minimum, pattern.maximum, pattern.repeated)
    return pattern


def _negation(variable: ast.Variable) -> ast.Negation:
    return ast.Negation(variable.types, variable.name)


@dataclass(slots=True)
class _Builder:
    pattern: ast.Pattern
    variables: tuple[PatternVariable, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)

    def build(self) -> Automaton:
        self.variables = pattern_variables(self.pattern)
        self.numbers = {variable.declaration.name: number for number, variable in enumerate(self.variables)}
        repeated = [group for group in groups_of(self.pattern) if group.repeated]
        self.groups = {group.name: len(self.variables) + number for number, group in enumerate(repeated)}
        self.pattern = lowered(self.pattern)
        chain = tuple(
            self.groups[variable.group.name] if variable.group is not None and variable.group.repeated else -1
            for variable in self.variables
        )
        inner = {
            g: tuple(m for m, group in enumerate(chain) if group == g and not self.variables[m].negated)
            for g in self.groups.values()
        }
        states, edges = self._states(chain, inner)
        return Automaton(
            variables=self.variables,
            chain=chain,
            inner=inner,
            bounds={self.groups[group.name]: (group.minimum, group.maximum) for group in repeated},
            states=states,
            edges=edges,
            negated=(*self._negated(self.pattern, -1), *self._silences(self.pattern)),
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
            for variable, again, part, there in self._steps(self.pattern, here):
                moves.append((here, variable, again, part, there))
                if there not in numbers:
                    numbers[there] = -1
                    unvisited.append(there)
        frontiers = sorted(numbers, key=lambda frontier: self._rank(self.pattern, frontier))
        numbers = {frontier: number for number, frontier in enumerate(frontiers)} | {None: START}
        last = {numbers[there]: variable for _, variable, _, _, there in moves}
        transitions = sorted({(variable, numbers[here], part == "next", numbers[there], again, part)
                      for here, variable, again, part, there in moves})  # fmt: skip
        bound = self._bound(len(frontiers), transitions, chain, {})
        now = self._bound(len(frontiers), transitions, chain, inner)
        unbound = (NO,) * (len(self.variables) + len(self.groups))
        bound[START], now[START] = unbound, unbound
        edges = tuple(
            Edge(source, target, variable, again, chain[variable], part, bound[source], now[source],
                 inner.get(chain[variable], ()))
            for variable, source, _, target, again, part in transitions
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
        unbound = (NO,) * (len(self.variables) + len(self.groups))
        bound: dict[int, tuple[int, ...]] = {START: unbound}
        changed = True
        while changed:
            changed = False
            for variable, source, _, target, _, part in transitions:
                before = bound.get(source)
                if before is None:
                    continue
                cleared = inner.get(chain[variable], ()) if part else ()
                bound_now = (variable, chain[variable])
                after = tuple(YES if n in bound_now else NO if n in cleared else old for n, old in enumerate(before))
                previous = bound.get(target, after)
                merged = tuple(a if a == b else MAYBE for a, b in zip(after, previous, strict=True))
                if merged != bound.get(target):
                    bound[target] = merged
                    changed = True
        return bound

    def _steps(self, pattern: ast.Pattern, here: Frontier) -> Iterator[tuple[int, bool, str, Frontier]]:
        """Yield every way to bind one event: ``(variable, again, round, frontier after it)``."""
        match pattern:
            case ast.Variable():
                if here is None or (pattern.repeated and pattern.maximum != 1):
                    yield self.numbers[pattern.name], here is not None, "", (1,)
            case ast.Sequence(patterns):
                yield from self._sequence(patterns, here)
            case ast.Conjunction(patterns):
                parts = here or (None,) * len(patterns)
                for n, inner in enumerate(patterns):
                    for number, again, part, there in self._steps(inner, parts[n]):
                        yield number, again, part, (*parts[:n], there, *parts[n + 1 :])
            case ast.Disjunction(patterns):
                for n, inner in enumerate(patterns):
                    if here is None or here[0] == n:
                        for number, again, part, there in self._steps(inner, here and here[1]):
                            yield number, again, part, (n, there)
            case ast.AnyOf(count, variables):
                taken: tuple[int, ...] = here or ()
                for n, variable in enumerate(variables):
                    if len(taken) < count and n not in taken:
                        yield self.numbers[variable.name], False, "", tuple(sorted((*taken, n)))
            case ast.Until(inner):
                yield from self._steps(inner, here)
            case ast.Group(inner):
                for number, again, _, there in self._steps(inner, here and here[0]):
                    yield number, again, "first" if here is None and pattern.repeated else "", (there,)
                if here is not None and pattern.maximum != 1 and self._done(inner, here[0]):
                    for number, again, _, there in self._steps(inner, None):
                        yield number, again, "next", (there,)

    def _sequence(self, patterns: tuple[ast.Pattern, ...], here: Frontier) -> Iterator[tuple[int, bool, str, Frontier]]:
        first = 0
        if here is not None:
            first, inside = here
            for number, again, part, there in self._steps(patterns[first], inside):
                yield number, again, part, (first, there)
            if not self._done(patterns[first], inside):
                return
            first += 1
        for n in range(first, len(patterns)):
            for number, again, part, there in self._steps(patterns[n], None):
                yield number, again, part, (n, there)
            if not self._done(patterns[n], None):
                return

    def _done(self, part: ast.Pattern, here: Frontier) -> bool:
        """Return whether the part is complete at a frontier, so that the next part can begin."""
        match part:
            case ast.Variable():
                return here is not None or part.minimum == 0
            case ast.Negation():
                return True
            case ast.Sequence(patterns):
                if here is None:
                    return all(self._done(inner, None) for inner in patterns)
                return self._done(patterns[here[0]], here[1]) and all(
                    self._done(inner, None) for inner in patterns[here[0] + 1 :]
                )
            case ast.Conjunction(patterns):
                parts = here or (None,) * len(patterns)
                return all(map(self._done, patterns, parts))
            case ast.Disjunction(patterns):
                if here is None:
                    return any(self._done(inner, None) for inner in patterns)
                return self._done(patterns[here[0]], here[1])
            case ast.AnyOf(count, _):
                return len(here or ()) == count
            case ast.Until(inner):
                return self._done(inner, here)
        assert isinstance(part, ast.Group)
        return part.minimum == 0 if here is None else self._done(part.pattern, here[0])

    def _rank(self, part: ast.Pattern, here: Frontier) -> tuple[int, ...]:
        """Return the sort key of a state: its position in a SEQ, the total progress of the parts of an AND."""
        if here is None:
            return (0,)
        match part:
            case ast.Sequence(patterns) | ast.Disjunction(patterns):
                return (here[0] + 1, *self._rank(patterns[here[0]], here[1]))
            case ast.Conjunction(patterns):
                ranks = list(map(self._rank, patterns, here))
                return (sum(rank[0] for rank in ranks), *(-item for rank in ranks for item in rank))
            case ast.AnyOf():
                return (len(here), *here)
            case ast.Group(inner):
                return self._rank(inner, here[0])
            case ast.Until(inner):
                return self._rank(inner, here)
        return (1,)

    # ------------------------------------------------------ variables and branches

    def _variables(self, part: ast.Pattern) -> frozenset[int]:
        if isinstance(part, ast.Variable):
            return frozenset([self.numbers[part.name]])
        return frozenset().union(*map(self._variables, sub_patterns(part)))

    def _negated(self, part: ast.Pattern, group: int, before: frozenset[int] = frozenset()) -> Iterator[Negated]:
        """Yield the negated variables of a part; ``before`` holds the variables before it, if it is a part of a SEQ."""
        if isinstance(part, ast.Group) and part.repeated:
            group = self.groups[part.name]
        if isinstance(part, ast.Until):
            yield Negated(self.numbers[part.negation.name], before, self._variables(part.pattern), group, until=True)
        if isinstance(part, ast.Sequence):
            for n, inner in enumerate(part.patterns):
                if isinstance(inner, ast.Negation) and inner.nanoseconds is None:
                    sides = [frozenset().union(*map(self._variables, side))
                             for side in (part.patterns[:n], part.patterns[n + 1 :])]  # fmt: skip
                    yield Negated(self.numbers[inner.name], sides[0], sides[1], group)
        before = frozenset()
        for inner in sub_patterns(part):
            yield from self._negated(inner, group, before)
            if isinstance(part, ast.Sequence):
                before |= self._variables(inner)

    def _silences(
        self,
        part: ast.Pattern,
        before: frozenset[int] = frozenset(),
        after: frozenset[int] = frozenset(),
        branches: tuple[tuple[frozenset[int], frozenset[int]], ...] = (),
    ) -> Iterator[Negated]:
        """Yield every ``NEG … FOR t`` of a part, given the variables before and after the part."""
        if isinstance(part, ast.Negation) and part.nanoseconds is not None:
            yield Negated(self.numbers[part.name], before, after, -1, part.nanoseconds, branches)
        inner = sub_patterns(part)
        own = list(map(self._variables, inner))
        for n, each in enumerate(inner):
            if isinstance(part, ast.Sequence):
                yield from self._silences(each, before.union(*own[:n]), after.union(*own[n + 1 :]), branches)
            elif isinstance(part, ast.Disjunction) and len(inner) > 1:
                others = frozenset[int]().union(*own[:n], *own[n + 1 :])
                taken = (frozenset[int](), others) if is_nullable(each) else (own[n], frozenset[int]())
                yield from self._silences(each, before, after, (*branches, taken))
            else:
                yield from self._silences(each, before, after, branches)

    def _branches(self, part: ast.Pattern) -> Iterator[tuple[int, tuple[int, ...]]]:
        if isinstance(part, ast.Disjunction):
            for branch in part.patterns:
                variables = tuple(sorted(self._variables(branch)))
                yield from ((variable, variables) for variable in variables)
                yield from ((self.groups[group.name], variables) for group in groups_of(branch) if group.repeated)
        for inner in sub_patterns(part):
            yield from self._branches(inner)

    def _sets(self, part: ast.Pattern) -> Iterator[tuple[int, ...]]:
        if isinstance(part, ast.AnyOf):
            type_sets = [set(variable.types) for variable in part.variables]
            if any(left & right for n, left in enumerate(type_sets) for right in type_sets[:n]):
                yield tuple(sorted(self._variables(part)))
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
            variables = reachable[edge.source] | {edge.variable} | reachable[edge.target]
            if edge.group >= 0:
                variables |= {edge.group}
            if variables != reachable[edge.source]:
                reachable[edge.source] = variables
                changed = True
    return reachable
