"""Contiguity: an event is bound only if no event lies between it and the last event bound before.

This is an equality like those of WHERE. On the side of the row it has the position of the *latest* event that some
variables bind, and on the side of the event the position of the *previous* event, in the stream or in its partition.
The equality is a word of the edge's key, so partial matches that an event in between has invalidated are not visited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastcep.plan.automaton import NO, START, YES, Automaton, Edge
from fastcep.plan.ir import PREVIOUS, Op, leaves
from fastcep.plan.plan import PartitionPlan
from fastcep.plan.rewrite import latest
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables, sub_patterns

__all__ = ["adjacency_partition", "contiguities", "invalidation_words", "partition_plan"]


def contiguities(query: ast.Query, automaton: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield ``(edge, equality)`` for the strategy, ``NEXT`` and ``CONSECUTIVE``; equalities are views of the target."""
    if query.strategy in ("strict_contiguity", "partition_contiguity"):
        positive = [m for m, variable in enumerate(automaton.variables) if not variable.negated]
        for edge in automaton.edges:
            if edge.source != START:
                yield edge, _follows(edge, positive)
    yield from _from_pattern(query.pattern, 0, -1, automaton)


def adjacency_partition(query: ast.Query) -> PartitionPlan | None:
    """Return the partitions in which an event has a previous event, or None if that is the stream.

    Events that are adjacent in the stream are also adjacent in their partition, so ``strict_contiguity`` needs no
    partitions for ``NEXT`` and ``CONSECUTIVE``.
    """
    return None if query.strategy == "strict_contiguity" else partition_plan(query)


def partition_plan(query: ast.Query) -> PartitionPlan | None:
    """Return the partitions of a query; None without ``PARTITION BY``."""
    if not query.partition:
        return None
    schema = query.schema
    dtypes = schema.attributes(pattern_variables(query.pattern)[0].declaration.types[0])
    return PartitionPlan(
        floats=tuple(dtypes[attribute] == "float64" for attribute in query.partition),
        columns=tuple(
            tuple(schema.column_of(name, attribute) for attribute in query.partition)
            if all(schema.attributes(name).get(attribute) == dtypes[attribute] for attribute in query.partition)
            else ()
            for name in schema.type_names
        ),
    )


def invalidation_words(query: ast.Query, keys: Sequence[Op]) -> tuple[int, tuple[int, ...]]:
    """Return ``latest`` and ``partition`` of `IndexPlan`, by which the engine finds rows that an event invalidates."""
    first_leaves: list[Any] = [next(leaves(key)).data for key in keys]  # the relevant words have only one leaf
    latest_word = next((n for n, data in enumerate(first_leaves) if data[0] == "latest"), -1)
    parts = {data[3]: n for n, data in enumerate(first_leaves) if data[0] == "part"}
    words = tuple(parts[name] for name in query.partition if name in parts)
    if latest_word >= 0 and adjacency_partition(query) is not None and len(words) < len(query.partition):
        return -1, ()
    return latest_word, words if len(words) == len(query.partition) else ()


def _follows(edge: Edge, variables: Sequence[int]) -> Op:
    """Return the condition that the edge's event directly follows the last event that the variables bind before it."""
    before = latest(variables, int(edge.variable in variables))
    return Op("eq_i", "b", (before, Op("event", "i", (), (edge.variable, PREVIOUS))))


def _from_pattern(pattern: ast.Pattern, first: int, group: int, automaton: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield the equalities of a part whose first variable is ``first``; ``group`` repeats the part, or is -1."""
    match pattern:
        case ast.Variable(consecutive=True):
            for edge in automaton.edges:
                if edge.variable == first and edge.again:
                    yield edge, _follows(edge, [first])
        case ast.Group(repeated=True):
            group = automaton.chain[first]
            for edge in automaton.edges:
                if pattern.consecutive and edge.group == group and edge.round == "next":
                    yield edge, _follows(edge, automaton.inner[group])
    parts, start = sub_patterns(pattern), first
    for index, part in enumerate(parts):
        end = start + len(pattern_variables(part))
        if isinstance(pattern, ast.Sequence) and index in pattern.adjacent:
            yield from _next(range(first, start), range(start, end), group, automaton)
        yield from _from_pattern(part, start, group, automaton)
        start = end


def _next(earlier: range, part: range, group: int, automaton: Automaton) -> Iterator[tuple[Edge, Op]]:
    """Yield the equalities of ``NEXT`` before a part of a SEQ: its first event follows the last event of earlier parts.

    They apply only if the earlier parts bind any event. A state of a SEQ determines which part was bound last, so at
    least one part is known to be bound.
    """
    positive = [m for m in earlier if not automaton.variables[m].negated]
    for edge in automaton.edges:
        begins = edge.variable in part and all(_bound(edge, m, group) == NO for m in part)
        if begins and any(_bound(edge, m, group) == YES for m in positive):
            yield edge, _follows(edge, positive)


def _bound(edge: Edge, variable: int, group: int) -> int:
    """Return whether a variable is bound before the edge; in a repeated group, in the round that the edge continues."""
    if group < 0:
        return edge.before[variable]
    return NO if edge.round else edge.now[variable]
