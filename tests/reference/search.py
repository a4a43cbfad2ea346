"""The declarative half of the reference matcher: every way to bind variables, and the conditions of a match."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastcep.query import ast, traversal
from fastcep.query.patterns import groups_of, pattern_variables
from reference.chosen import Chosen, Pair, Parts, birth_order, bound_in, by_round, numbered, size
from reference.conditions import Bound, Event, agree, attribute, holds
from reference.contiguity import Contiguity
from reference.silences import Silence, silences_of
from reference.values import compare
from reference.windows import Window

Detected = tuple[Chosen, int, bool]  # a match, the time of its detection, whether it had to wait for that time


@dataclass(frozen=True)
class Gap:
    """A gap in which a negated variable must find no event: between two positions, None at an edge of the match."""

    variable: int
    round: int
    low: int | None
    high: int | None


class Search:
    """One query on one stream, or on the part of it that a window holds.

    ``consumed`` are the positions of events that have left it.
    """

    def __init__(self, query: ast.Query, events: Sequence[Event], window: Window, consumed: set[int]) -> None:
        self.query = query
        self.events = events[window.start : window.stop]
        self.window = window
        self.consumed = consumed
        self.contiguity = Contiguity(query, self.events)
        self.variables = pattern_variables(query.pattern)
        self.groups = groups_of(query.pattern)
        negated = {variable.name for variable in self.variables if variable.negated}
        parts = traversal.conjuncts(query.where)
        self.filters = [part for part in parts if not traversal.variables(part) & negated]
        self.forbidding = [part for part in parts if traversal.variables(part) & negated]
        same = [name for part in parts if isinstance(part, ast.SameAttributes) for name in part.names]
        self.keys = [*query.partition, *same]

    def matches(self) -> Iterator[Chosen]:
        """Return all matches, each once."""
        ways = {tuple(sorted(way)) for way in self.ways(self.query.pattern, 0, -1, ()) if way}
        return (chosen for chosen in ways if self.contiguity.holds(chosen) and self.accepts(chosen))

    # ------------------------------------------------------------------ ways to bind a pattern

    def ways(self, pattern: ast.Pattern, number: int, after: int, taken: Chosen, turn: int = 0) -> Iterator[Chosen]:
        """Yield every way to bind ``pattern``.

        The events come after position ``after``, are not in ``taken``, and lie in one window with all of those.
        ``number`` is that of the pattern's first variable; ``turn`` is the round, in a group.
        """
        match pattern:
            case ast.Variable():
                yield from self.variable(pattern, number, after, taken, turn)
            case ast.Negation():
                yield ()
            case ast.Sequence():
                yield from self.in_order(numbered(pattern, number), after, taken, turn)
            case ast.Aperiodic():
                yield from self.in_order(numbered(pattern, number)[:2], after, taken, turn)
            case ast.Periodic():
                yield from self.ways(pattern.opening, number, after, taken, turn)
            case ast.Conjunction():
                yield from self.in_any_order(numbered(pattern, number), after, taken, turn)
            case ast.Disjunction():
                for part, first in numbered(pattern, number):
                    yield from self.ways(part, first, after, taken, turn)
            case ast.AnyOf():
                parts = numbered(pattern, number)
                for chosen in itertools.combinations(parts, 1 if pattern.variables[0].repeated else pattern.count):
                    for way in self.in_any_order(chosen, after, taken, turn):
                        if pattern.distinct is None or self.differ(way, pattern.distinct):
                            yield way
            case ast.Until():
                yield from self.ways(pattern.pattern, number, after, taken, turn)
            case ast.Group():
                yield from self.rounds(pattern, number, after, taken, 0)
            case _:
                raise AssertionError(pattern)

    def variable(self, variable: ast.Variable, number: int, after: int, taken: Chosen, turn: int) -> Iterator[Chosen]:
        """Yield every set of events of the right types and number."""
        used = [pair.position for pair in taken]
        eligible = [
            position
            for position in range(after + 1, len(self.events))
            if self.events[position].type in variable.types
            and position not in used
            and self.in_window(min([position, *used]), max([position, *used]))
        ]
        longest = len(eligible) if variable.maximum is None else min(variable.maximum, len(eligible))
        for count in range(variable.minimum, longest + 1):
            for positions in itertools.combinations(eligible, count):
                if not positions or self.in_window(min([*positions, *used]), max([*positions, *used])):
                    yield tuple(Pair(position, number, turn) for position in positions)

    def in_order(self, parts: Parts, after: int, taken: Chosen, turn: int) -> Iterator[Chosen]:
        """Yield the ways to bind one part after the other."""
        if not parts:
            yield ()
            return
        for way in self.ways(*parts[0], after, taken, turn):
            last = max((pair.position for pair in way), default=after)
            for rest in self.in_order(parts[1:], last, taken + way, turn):
                yield way + rest

    def in_any_order(self, parts: Parts, after: int, taken: Chosen, turn: int) -> Iterator[Chosen]:
        """Yield the ways to bind all parts, interleaved or not."""
        if not parts:
            yield ()
            return
        for way in self.ways(*parts[0], after, taken, turn):
            for rest in self.in_any_order(parts[1:], after, taken + way, turn):
                yield way + rest

    def rounds(self, group: ast.Group, number: int, after: int, taken: Chosen, turn: int) -> Iterator[Chosen]:
        """Yield the ways to bind rounds number ``turn`` and on, one after the other."""
        if turn >= group.minimum:
            yield ()
        if group.maximum is not None and turn >= group.maximum:
            return
        for way in self.ways(group.pattern, number, after, taken, turn):
            if way:
                last = max(pair.position for pair in way)
                for rest in self.rounds(group, number, last, taken + way, turn + 1):
                    yield way + rest

    def in_window(self, first: int, last: int) -> bool:
        """Return True if the events at positions ``first`` and ``last`` lie in one window."""
        match self.query.window:
            case ast.TimeWindow(nanoseconds):
                return self.events[last].time - self.events[first].time <= nanoseconds
            case ast.CountWindow(count):
                return last - first < count
        return True  # unbounded, or an explicit window, which holds all of the events here

    def differ(self, way: Chosen, name: str) -> bool:
        """Return True if the events differ pairwise in an attribute."""
        values = [attribute(self.events[pair.position], name) for pair in way]
        return all(compare("!=", one, other) is True for one, other in itertools.combinations(values, 2))

    # -------------------------------------------------------------------- conditions

    def accepts(self, chosen: Chosen) -> bool:
        """Return True if a complete binding is in one partition, satisfies all conjuncts and has no forbidden event."""
        if not agree(self.bound_events(chosen), self.keys):
            return False
        bound = self.bound(chosen)
        if not all(isinstance(part, ast.SameAttributes) or holds(part, bound) for part in self.filters):
            return False
        return not any(
            self.forbidden(chosen, bound, gap, position)
            for gap in self.gaps(self.query.pattern, 0, chosen)
            for position in self.inside(gap, chosen)
        ) and not any(self.is_broken(silence, chosen, bound) for silence in self.silences(chosen))

    def silences(self, chosen: Chosen) -> list[Silence]:
        """Return the silences that apply to a match, or to what a partial match has bound."""
        return list(silences_of(self.query.pattern, 0, chosen))

    def due(self, silence: Silence) -> int:
        """Return the time at which a silence has passed."""
        return self.events[silence.low].time + silence.nanoseconds

    def is_early(self, silence: Silence) -> bool:
        """Return True if an event is bound after a silence that had not passed by then."""
        return silence.high is not None and self.events[silence.high].time <= self.due(silence)

    def is_broken(self, silence: Silence, chosen: Chosen, bound: Bound) -> bool:
        """Return True if a forbidden event has come, or an event is bound before the silence has passed."""
        gap = Gap(silence.variable, 0, silence.low, silence.high)
        return self.is_early(silence) or any(
            self.forbidden(chosen, bound, gap, position)
            for position in range(silence.low + 1, len(self.events))
            if self.events[position].time <= self.due(silence) and position not in self.consumed
        )

    def bound_events(self, chosen: Chosen) -> list[Event]:
        """Return all events of a match."""
        return [self.events[pair.position] for pair in chosen]

    def bound(self, chosen: Chosen) -> dict[str, list[Event | None]]:
        """Return the elements of each variable, without those of OR branches that are not taken."""
        untaken = self.untaken(self.query.pattern, 0, chosen)
        elements: dict[str, list[Event | None]] = {}
        for number, variable in enumerate(self.variables):
            own = {pair.round: self.events[pair.position] for pair in chosen if pair.variable == number}
            if variable.negated or variable.name in untaken:
                continue
            if variable.group is None:
                elements[variable.name] = [self.events[pair.position] for pair in chosen if pair.variable == number]
            else:
                elements[variable.name] = [own.get(turn) for turn in range(self.turns(variable.group, chosen))]
        for group in self.groups:
            if group.name not in untaken:
                elements[group.name] = [None] * self.turns(group, chosen)
        return elements

    def turns(self, group: ast.Group, chosen: Chosen) -> int:
        """Return the number of rounds of a group."""
        return len({pair.round for pair in chosen if self.variables[pair.variable].group == group})

    def untaken(self, pattern: ast.Pattern, number: int, chosen: Chosen) -> set[str]:
        """Return the variables and groups whose innermost OR branch is not taken; an OR of one part is that part."""
        found: set[str] = set()
        for part, first in numbered(pattern, number):
            if isinstance(pattern, ast.Disjunction) and len(pattern.patterns) > 1 and not bound_in(part, first, chosen):
                found |= {variable.name for variable in self.variables[first : first + size(part)]}
                found |= {group.name for group in groups_of(part)}
            else:
                found |= self.untaken(part, first, chosen)
        return found

    # --------------------------------------------------------------------- negation

    def gaps(self, pattern: ast.Pattern, number: int, chosen: Chosen) -> Iterator[Gap]:
        """Yield the gaps of all negated variables that apply. ``chosen``: for a group, only one round."""
        own = bound_in(pattern, number, chosen)
        if not own:
            return  # not taken
        parts = numbered(pattern, number)
        if isinstance(pattern, ast.Aperiodic):
            opening, body, closing = parts
            parts = (opening, closing, body)
        for place, (part, first) in enumerate(parts):
            before = [pair.position for other in parts[:place] for pair in bound_in(*other, own)]
            behind = [pair.position for other in parts[place + 1 :] for pair in bound_in(*other, own)]
            if isinstance(part, ast.Negation) and part.nanoseconds is not None:
                continue  # see `silences`
            if isinstance(part, ast.Negation) or (isinstance(pattern, ast.Aperiodic) and place == 1):
                yield Gap(first, own[0].round, max(before, default=None), min(behind, default=None))
            elif isinstance(part, ast.Until):
                loop = bound_in(part, first, own)
                if not isinstance(pattern, ast.Sequence | ast.Aperiodic):
                    before = []  # nothing comes before it in its SEQ
                if loop:
                    low = max(before, default=loop[0].position)
                    yield Gap(first + size(part) - 1, 0, low, loop[-1].position)
                if isinstance(part.pattern, ast.Group):
                    for one in by_round(loop):
                        yield from self.gaps(part.pattern.pattern, first, one)
            elif isinstance(part, ast.Group):
                for one in by_round(bound_in(part, first, own)):
                    yield from self.gaps(part.pattern, first, one)
            else:
                yield from self.gaps(part, first, own)

    def inside(self, gap: Gap, chosen: Chosen) -> Iterator[int]:
        """Return the positions strictly between the gap's ends; an edge reaches as far as the window may."""
        first, last = self.events[chosen[0].position], self.events[chosen[-1].position]
        for position, event in enumerate(self.events):
            begun = self.reaches(last.time - event.time) if gap.low is None else position > gap.low
            over = not self.reaches(event.time - first.time) if gap.high is None else position >= gap.high
            if begun and not over and position not in self.consumed:
                yield position

    def reaches(self, nanoseconds: int) -> bool:
        """Return True if a window reaches this far from the event at its edge; an explicit one has all events here."""
        return isinstance(self.query.window, ast.ExplicitWindow) or nanoseconds <= self.duration

    @property
    def duration(self) -> int:
        """Return the window's length in nanoseconds; only called for time windows."""
        assert isinstance(self.query.window, ast.TimeWindow), "a negation at the edge, and PERIODIC, need WITHIN t"
        return self.query.window.nanoseconds

    def forbidden(self, chosen: Chosen, bound: Bound, gap: Gap, position: int) -> bool:
        """Return True if an event has a negated variable's type and partition, and all conjuncts on it are true."""
        event, variable = self.events[position], self.variables[gap.variable]
        elements = dict(bound)
        elements[variable.name] = [None] * gap.round + [event]  # so that [i] is the round of a group
        return (
            event.type in variable.declaration.types
            and agree([*self.bound_events(chosen), event], self.keys)
            and all(holds(part, elements) for part in self.forbidding if variable.name in traversal.variables(part))
        )

    # --------------------------------------------------------------------- results

    def detected(self, complete: list[Chosen]) -> list[Detected]:
        """Return the detections when these matches are complete, in birth order; each set of events of an ANY once."""
        ordered = sorted(complete, key=birth_order)
        return self.each_set_once([(chosen, *when) for chosen in ordered for when in self.decided(chosen)])

    def each_set_once(self, detected: list[Detected]) -> list[Detected]:
        """Keep the first of detections at one time that differ only in the variables of an ANY that bind the events."""
        owner = dict(self.owners(self.query.pattern, 0))
        first: dict[tuple[frozenset[Pair], int], Detected] = {}
        for chosen, time, deferred in detected:
            events = frozenset(
                Pair(pair.position, owner.get(pair.variable, pair.variable), pair.round) for pair in chosen
            )
            first.setdefault((events, time), (chosen, time, deferred))
        return list(first.values())

    def owners(self, pattern: ast.Pattern, number: int) -> Iterator[tuple[int, int]]:
        """Return for each variable of an ANY the ANY's number, which is that of its first variable."""
        for part, first in numbered(pattern, number):
            if isinstance(pattern, ast.AnyOf):
                yield first, number
            yield from self.owners(part, first)

    def decided(self, chosen: Chosen) -> list[tuple[int, bool]]:
        """Return when a match is detected, and whether that is deferred; for PERIODIC every tick."""
        pattern = self.query.pattern
        first, last = self.events[chosen[0].position], self.events[chosen[-1].position]
        if not isinstance(pattern, ast.Periodic):
            if any(gap.high is None for gap in self.gaps(pattern, 0, chosen)):
                until = self.window.until
                return [(first.time + self.duration if until is None else until, True)]
            due = max((self.due(one) for one in self.silences(chosen) if one.high is None), default=last.time - 1)
            return [(due, True) if due >= last.time else (last.time, False)]
        bound, gap = self.bound(chosen), Gap(len(self.variables) - 1, 0, chosen[-1].position, None)
        closed = [
            self.events[position].time
            for position in range(chosen[-1].position + 1, len(self.events))
            if self.forbidden(chosen, bound, gap, position)
        ]
        ticks = range(last.time + pattern.nanoseconds, first.time + self.duration + 1, pattern.nanoseconds)
        return [(tick, True) for tick in ticks if not any(time <= tick for time in closed)]
