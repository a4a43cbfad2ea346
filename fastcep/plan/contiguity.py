"""Contiguity: where an event is bound only if nothing lies between it and one bound before.

That is an equality like those of WHERE. On the side of the row stands the position of the *latest* event that some
members bind; on the side of the event that of the *previous* one, in the stream or in its partition. So it is a word of
the edge's key, and partial matches that an event in between has cut off are not even visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastcep.plan.automaton import NO, START, YES, Automaton, Edge
from fastcep.plan.ir import PREVIOUS, Op, leaves
from fastcep.plan.plan import PartitionPlan
from fastcep.plan.rewrite import latest
from fastcep.query import ast
from fastcep.query.patterns import leaves_of, sub_patterns

__all__ = ["contiguities", "cut_off", "neighbours"]


def contiguities(query: ast.Query, places: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield ``(edge, equality)``, views of the edge's target, for the strategy, ``NEXT`` and ``CONSECUTIVE``."""
    if query.strategy in ("strict_contiguity", "partition_contiguity"):
        positive = [m for m, leaf in enumerate(places.leaves) if not leaf.negated]
        for edge in places.edges:
            if edge.source != START:
                yield edge, _follows(edge, positive)
    yield from _asked(query.pattern, 0, -1, places)


def neighbours(query: ast.Query) -> PartitionPlan | None:
    """In what the previous event is looked for: partitions, or (None) the stream.

    Between events that follow each other in the stream nothing lies in a partition either, so that
    ``strict_contiguity`` needs no partitions for ``NEXT`` and ``CONSECUTIVE``.
    """
    if not query.partition or query.strategy == "strict_contiguity":
        return None
    schema = query.schema
    own = schema.attributes(leaves_of(query.pattern)[0].member.types[0])
    return PartitionPlan(
        floats=tuple(own[attribute] == "float64" for attribute in query.partition),
        columns=tuple(
            tuple(schema.column_of(name, attribute) for attribute in query.partition)
            if all(schema.attributes(name).get(attribute) == own[attribute] for attribute in query.partition)
            else ()
            for name in schema.type_names
        ),
    )


def cut_off(query: ast.Query, keys: Sequence[Op]) -> tuple[int, tuple[int, ...]]:
    """``latest`` and ``partition`` of `IndexPlan`: where in a key it stands whether an event has cut the rows off."""
    told: list[Any] = [next(leaves(key)).data for key in keys]  # the first leaf; that of these words is all there is
    place = next((n for n, data in enumerate(told) if data[0] == "latest"), -1)
    parts = {data[3]: n for n, data in enumerate(told) if data[0] == "part"}
    words = tuple(parts[name] for name in query.partition if name in parts)
    if place >= 0 and neighbours(query) is not None and len(words) < len(query.partition):
        return -1, ()
    return place, words if len(words) == len(query.partition) else ()


def _follows(edge: Edge, members: Sequence[int]) -> Op:
    """That the edge's event comes right after the last one that the members bind before it."""
    before = latest(members, int(edge.member in members))
    return Op("eq_i", "b", (before, Op("event", "i", (), (edge.member, PREVIOUS))))


def _asked(pattern: ast.Pattern, first: int, group: int, places: Automaton) -> Iterator[tuple[Edge, Op]]:
    """What a part asks for, whose first variable has number ``first``; ``group`` is that which repeats it, or -1."""
    match pattern:
        case ast.Member(consecutive=True):
            for edge in places.edges:
                if edge.member == first and edge.again:
                    yield edge, _follows(edge, [first])
        case ast.Group(repeated=True):
            group = places.chain[first]
            for edge in places.edges:
                if pattern.consecutive and edge.group == group and edge.round == "next":
                    yield edge, _follows(edge, places.inner[group])
    parts, here = sub_patterns(pattern), first
    for place, part in enumerate(parts):
        behind = here + len(leaves_of(part))
        if isinstance(pattern, ast.Sequence) and place in pattern.adjacent:
            yield from _next(range(first, here), range(here, behind), group, places)
        yield from _asked(part, here, group, places)
        here = behind


def _next(earlier: range, part: range, group: int, places: Automaton) -> Iterator[tuple[Edge, Op]]:
    """``NEXT`` before a part of a SEQ: its first event follows the last one of the earlier parts, if they bind any.

    Each state of a SEQ tells which of its parts was bound last, so that there is always one that is bound for sure.
    """
    positive = [m for m in earlier if not places.leaves[m].negated]
    for edge in places.edges:
        begins = edge.member in part and all(_bound(edge, m, group) == NO for m in part)
        if begins and any(_bound(edge, m, group) == YES for m in positive):
            yield edge, _follows(edge, positive)


def _bound(edge: Edge, member: int, group: int) -> int:
    """Whether a member is bound before the edge; in a repeated group: in the round that the edge goes on with."""
    if group < 0:
        return edge.before[member]
    return NO if edge.round else edge.now[member]
