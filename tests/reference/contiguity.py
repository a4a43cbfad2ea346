"""Contiguity strategies, NEXT and CONSECUTIVE in the reference matcher."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from fastcep.query import ast
from reference.chosen import Chosen, bound_in, by_round, numbered
from reference.conditions import Event, agree


class Contiguity:
    """Contiguity on one stream, for one query."""

    def __init__(self, query: ast.Query, events: Sequence[Event]) -> None:
        self.query = query
        self.events = events

    def same_partition(self, one: Event, other: Event) -> bool:
        """Return True if two events are in one partition; an event with a missing, null or NaN key is in none."""
        kinds = [self.query.schema.attributes(event.type) for event in (one, other)]
        return all(
            name in kinds[0] and name in kinds[1] and kinds[0][name] == kinds[1][name] and agree([one, other], [name])
            for name in self.query.partition
        )

    def nothing_between(self, earlier: int, later: int, partitioned: bool) -> bool:
        """Return True if no event lies between two positions; ``partitioned``: none of the earlier one's partition."""
        return not any(
            not partitioned or self.same_partition(self.events[earlier], event)
            for event in self.events[earlier + 1 : later]
        )

    def adjacent(self, earlier: int, later: int) -> bool:
        """Return True if NEXT and CONSECUTIVE allow this pair: no event between, in the partition if there is one."""
        return self.nothing_between(earlier, later, bool(self.query.partition))

    def follows(self, earlier: int, later: int) -> bool:
        """Return True if the strategy allows an event after the one bound before it."""
        if self.query.strategy == "strict_contiguity":
            return self.nothing_between(earlier, later, False)
        if self.query.strategy == "partition_contiguity":
            return self.nothing_between(earlier, later, True)
        return True

    def holds(self, chosen: Chosen) -> bool:
        """Return True if a complete match satisfies the strategy, and every NEXT and CONSECUTIVE."""
        positions = [pair.position for pair in chosen]
        return all(itertools.starmap(self.follows, itertools.pairwise(positions))) and all(
            itertools.starmap(self.adjacent, self.neighbours(self.query.pattern, 0, chosen))
        )

    def neighbours(self, pattern: ast.Pattern, number: int, chosen: Chosen) -> Iterator[tuple[int, int]]:
        """Yield the pairs of positions that NEXT and CONSECUTIVE connect. ``chosen``: for a group, only one round."""
        own = bound_in(pattern, number, chosen)
        parts = numbered(pattern, number)
        if isinstance(pattern, ast.Variable) and pattern.consecutive:
            yield from itertools.pairwise(pair.position for pair in own)
        if isinstance(pattern, ast.Group):
            rounds = by_round(own)
            if pattern.consecutive:
                yield from ((one[-1].position, other[0].position) for one, other in itertools.pairwise(rounds))
            for one in rounds:
                yield from self.neighbours(pattern.pattern, number, one)
            return
        if isinstance(pattern, ast.Sequence):
            for place in pattern.adjacent:
                before = [pair.position for part in parts[:place] for pair in bound_in(*part, own)]
                after = [pair.position for pair in bound_in(*parts[place], own)]
                if before and after:
                    yield max(before), min(after)
        for part in parts:
            yield from self.neighbours(*part, own)
