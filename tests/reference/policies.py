"""Selection, consumption and AFTER MATCH of the reference matcher, for the matches that end in one event."""

from __future__ import annotations

from collections.abc import Sequence

from fastcep.query import ast
from fastcep.query.patterns import pattern_variables
from reference.chosen import Chosen, birth_order
from reference.conditions import Event
from reference.values import Value

Partition = tuple[Value, ...]


def positions(chosen: Chosen) -> tuple[int, ...]:
    """Return the positions of all events of a match, in stream order."""
    return tuple(sorted(pair.position for pair in chosen))


class Policy:
    """The policies of a query in one window with these events, and their state.

    With PARTITION BY they act in each partition separately.

    Attributes
    ----------
    consumed
        Positions of the events that have left the window.
    starts
        Positions at which no match may start any more, by SKIP TO NEXT.
    past
        By partition, the last position at which no match may start any more, by SKIP PAST LAST, TO FIRST and TO LAST.
    """

    def __init__(self, query: ast.Query, events: Sequence[Event]) -> None:
        self.query = query
        self.events = events
        self.variables = pattern_variables(query.pattern)
        self.consumed: set[int] = set()
        self.starts: set[int] = set()
        self.past: dict[Partition, int] = {}

    @property
    def none(self) -> bool:
        """Return True if all matches are reported and nothing else happens."""
        return (self.query.select, self.query.consume, self.query.after_match) == ("each", "zero", "no skip")

    def dropped(self, chosen: Chosen) -> bool:
        """Return True if a match, or a partial match, has been eliminated."""
        own = positions(chosen)
        past = self.past.get(self.partition(chosen), -1)
        return not self.consumed.isdisjoint(own) or own[0] in self.starts or own[0] <= past

    def partition(self, chosen: Chosen) -> Partition:
        """Return the partition of a match: the common values of its events in the attributes of PARTITION BY."""
        values = self.events[chosen[0].position].values
        return tuple(values[name] for name in self.query.partition)

    def report(self, candidates: list[Chosen]) -> list[Chosen]:
        """Return the reported ones of the matches that end in one event, both in birth order.

        With ``cumulative`` it is one match with all their bindings.
        """
        if not candidates:
            return []
        reported = []
        for one in sorted(self.selected(candidates), key=lambda one: (positions(one)[0], birth_order(one))):
            if not self.dropped(one):
                reported.append(one)
                self.skip(one)
        if self.query.consume == "consumed":
            # Matches that `last` passes over are superseded, so their events leave as well.
            leaving = candidates if self.query.select == "last" else reported
            self.consumed.update(position for one in leaving for position in positions(one))
        return sorted(reported, key=birth_order)

    def selected(self, candidates: list[Chosen]) -> list[Chosen]:
        """Return the matches that SELECT selects."""
        match self.query.select:
            case "each":
                return candidates
            case "first":  # of equal ones the first in birth order
                return [min(candidates, key=positions)]
            case "last":
                return [max(candidates, key=lambda one: positions(one)[::-1])]
        assert self.query.select == "cumulative", self.query.select
        return [tuple(sorted({pair for one in candidates for pair in one}))]

    def skip(self, reported: Chosen) -> None:
        """Apply AFTER MATCH."""
        own = positions(reported)
        if self.query.after_match == "skip to next":
            self.starts.add(own[0])
        elif self.query.after_match == "skip past last":
            partition = self.partition(reported)
            self.past[partition] = max(self.past.get(partition, -1), own[-1])
        elif self.query.skip_to is not None:
            target = self.target(reported)
            if target is None or target == own[0]:
                self.starts.add(own[0])
            else:
                partition = self.partition(reported)
                self.past[partition] = max(self.past.get(partition, -1), target - 1)

    def target(self, reported: Chosen) -> int | None:
        """Return the event to which SKIP TO FIRST or TO LAST skips; None if the match does not bind the variable."""
        events = [
            pair.position
            for pair in reported
            for variable in [self.variables[pair.variable]]
            if self.query.skip_to in (variable.name, None if variable.group is None else variable.group.name)
        ]
        first = self.query.after_match == "skip to first"
        return None if not events else min(events) if first else max(events)
