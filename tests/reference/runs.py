"""Partial matches of the reference matcher, one by one: the operational half, which can follow every strategy.

A run is the bindings of a partial match and the remaining pattern. Each event is offered to every run; the ways to bind
it that violate no condition decided by then are its children. The strategy decides what becomes of the run itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastcep.query import ast, traversal
from fastcep.query.patterns import PatternVariable
from reference.chosen import Chosen, Pair, birth_order, bound_in, numbered
from reference.conditions import Bound, agree, holds
from reference.policies import Policy
from reference.rest import Rest, Way, may_end, open_variables, rest_of, ways
from reference.search import Gap, Search


@dataclass(frozen=True)
class Run:
    """A partial match. ``found``: it is also a match, though it may continue."""

    chosen: Chosen
    rest: Rest
    found: bool = False


@dataclass(frozen=True)
class Expired:
    """A run at the end of its window: its time, its bindings, and the variables that it could bind next."""

    time: int
    chosen: Chosen
    waits_for: tuple[int, ...]


class Runs:
    """The runs of a query in one window."""

    def __init__(self, search: Search, policy: Policy) -> None:
        self.search = search
        self.query = search.query
        self.events = search.events
        self.policy = policy
        self.empty = Run((), rest_of(self.query.pattern, 0))
        self.runs: list[Run] = []
        self.expired: list[Expired] = []

    def complete(self, position: int) -> list[Chosen]:
        """Offer the next event to all runs; return the matches that end with it, in no order."""
        self.expire(position)
        kept, children = [], []
        for run in [*self.runs, self.empty]:
            advanced = list(self.advanced(run, position))
            children += [child for child, _ in advanced]
            if run is not self.empty and self.stays(run, [way for _, way in advanced], position):
                kept.append(run)
        self.runs = kept + [child for child in children if open_variables(child.rest)]
        return [child.chosen for child in children if child.found]

    def advanced(self, run: Run, position: int) -> Iterator[tuple[Run, Way]]:
        """Return the children of a run: every way to bind the event that violates nothing."""
        event, contiguity = self.events[position], self.search.contiguity

        def fits(variable: int) -> bool:
            return event.type in self.search.variables[variable].declaration.types

        def adjacent(earlier: int) -> bool:
            return contiguity.adjacent(earlier, position)

        if run.chosen and not contiguity.follows(run.chosen[-1].position, position):
            return
        for way in ways(run.rest, position, fits, adjacent):
            chosen = (*run.chosen, Pair(position, way.variable, way.round))
            if self.search.in_window(chosen[0].position, position) and not self.broken(chosen, way.rest):
                yield Run(chosen, way.rest, may_end(way.rest) and self.search.accepts(chosen)), way

    def stays(self, run: Run, taken: list[Way], position: int) -> bool:
        """Return True if a run stays beside its children."""
        last, event = self.events[run.chosen[-1].position], self.events[position]
        match self.query.strategy:
            case "skip_till_any":
                return True
            case "skip_till_next":
                return all(way.enters for way in taken)
            case "partition_contiguity":
                return not self.search.contiguity.same_partition(last, event)
        assert self.query.strategy == "strict_contiguity", self.query.strategy
        return False

    # ------------------------------------------------------------------ what is decided

    def broken(self, chosen: Chosen, rest: Rest) -> bool:
        """Return True if a condition that can be decided is not true, or if a negated event has come."""
        search, bound = self.search, self.search.bound(chosen)
        unfinished = open_variables(rest)
        if not agree(search.bound_events(chosen), search.keys) or not self.distinct(self.query.pattern, 0, chosen):
            return True
        if any(
            self.decided(part, bound, unfinished) and not holds(part, bound)
            for part in search.filters
            if not isinstance(part, ast.SameAttributes)
        ):
            return True
        return any(
            search.forbidden(chosen, bound, gap, position)
            for gap in search.gaps(self.query.pattern, 0, chosen)
            if self.forbids(gap, bound, unfinished)
            for position in search.inside(gap, chosen)
        )

    def distinct(self, pattern: ast.Pattern, number: int, chosen: Chosen) -> bool:
        """Return True if the events of every ANY with DISTINCT differ."""
        own = bound_in(pattern, number, chosen)
        if (
            isinstance(pattern, ast.AnyOf)
            and pattern.distinct is not None
            and not self.search.differ(own, pattern.distinct)
        ):
            return False
        return all(self.distinct(part, first, own) for part, first in numbered(pattern, number))

    def decided(self, conjunct: ast.Expr, bound: Bound, unfinished: set[int]) -> bool:
        """Return True if a conjunct can be judged; for ``x[i]`` every element is judged when it comes."""
        return all(relative(mention) or self.known(mention, None, bound, unfinished) for mention in mentions(conjunct))

    def forbids(self, gap: Gap, bound: Bound, unfinished: set[int]) -> bool:
        """Return True if the forbidden events of a gap are known: its ends, and all variables that conditions mention.

        If nothing is bound after the gap, it reaches to the end of the window, and `Search.accepts` checks it. A
        leading one reaches back from the last event unless the window is explicit.
        """
        if gap.high is None:
            return False
        if gap.low is None and not isinstance(self.query.window, ast.ExplicitWindow) and unfinished:
            return False
        name = self.search.variables[gap.variable].name
        for part in self.search.forbidding:
            own = [mention for mention in mentions(part) if mention.qualified_name == name]
            if not own:
                continue
            # In a group, x[i] of another variable refers to the round of the gap, or one at a fixed distance from it.
            shift = own[0].index.offset if isinstance(own[0], ast.Attribute) and own[0].index is not None else None
            for mention in mentions(part):
                turn = None if shift is None else gap.round - shift
                if mention.qualified_name != name and not self.known(mention, turn, bound, unfinished):
                    return False
        return True

    def known(self, mention: ast.Attribute | ast.Aggregate, i: int | None, bound: Bound, unfinished: set[int]) -> bool:
        """Return True if no later event changes what a mention means; ``i`` is the index of ``x[i]``."""
        if not any(concerns(mention, self.search.variables[variable]) for variable in unfinished):
            return True
        if isinstance(mention, ast.Aggregate):
            return False
        index, elements = mention.index, bound.get(mention.qualified_name, ())
        if index is None or index.kind in ("first", "position"):
            place: int | None = 0 if index is None else index.offset
        else:
            place = i + index.offset if index.kind == "relative" and i is not None else None
        if place is None:
            return False
        # A round that does not bind it is over when the next one has started.
        return place < 0 or place < len(elements) - 1 or (place == len(elements) - 1 and elements[place] is not None)

    # ------------------------------------------------------------------ the end of a window

    def expire(self, position: int) -> None:
        """Remove the runs that are dropped, and those whose window ends before the event at ``position``."""
        self.runs = [run for run in self.runs if not self.policy.dropped(run.chosen)]
        over = [run for run in self.runs if not self.search.in_window(run.chosen[0].position, position)]
        self.runs = [run for run in self.runs if run not in over]
        self.time_out(over, position)

    def end(self) -> None:
        """End the window, and all runs that still wait with it."""
        self.time_out([run for run in self.runs if not self.policy.dropped(run.chosen)], len(self.events))
        self.runs = []

    def time_out(self, runs: list[Run], position: int) -> None:
        """Record the runs that wait for something that could still have come, and are not matches themselves."""
        for run in sorted(runs, key=lambda run: birth_order(run.chosen)):
            coming = {way.variable for way in self.next_ways(run, position)}
            if coming and not run.found:
                self.expired.append(Expired(self.ends(run, position), run.chosen, tuple(sorted(coming))))

    def next_ways(self, run: Run, position: int) -> Iterator[Way]:
        """Return the ways to bind an event at ``position`` if it were of the right type."""
        return ways(
            run.rest, position, lambda number: True, lambda earlier: self.search.contiguity.adjacent(earlier, position)
        )

    def ends(self, run: Run, position: int) -> int:
        """Return the time at which a run's window has ended; for count windows that of the first event after it."""
        if isinstance(self.query.window, ast.TimeWindow):
            return self.events[run.chosen[0].position].time + self.query.window.nanoseconds
        if self.search.window.until is not None:
            return self.search.window.until
        if position < len(self.events):
            return self.events[position].time
        assert self.search.window.end is not None
        return self.search.window.end


def mentions(conjunct: ast.Expr) -> list[ast.Attribute | ast.Aggregate]:
    """Return the mentions of variables in a conjunct."""
    return [part for part in traversal.walk(conjunct) if isinstance(part, ast.Attribute | ast.Aggregate)]


def concerns(mention: ast.Attribute | ast.Aggregate, variable: PatternVariable) -> bool:
    """Return True if one more event for a variable may change a mention; a repeated group grows as a whole."""
    group = variable.group
    if group is None or mention.variable != group.name:
        return mention.qualified_name == variable.name
    return group.repeated or mention.inner is None or mention.qualified_name == variable.name


def relative(mention: ast.Attribute | ast.Aggregate) -> bool:
    """Return True if it is ``x[i]``."""
    return isinstance(mention, ast.Attribute) and mention.index is not None and mention.index.kind == "relative"
