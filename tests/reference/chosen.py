"""What a match of the reference matcher binds: events in their places, and which part of the pattern has which."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from fastcep.query import ast
from fastcep.query.patterns import leaves_of, sub_patterns


@dataclass(frozen=True, order=True)
class Pair:
    """An event in its place: position in the stream, number of the variable, and the round if that is in a group."""

    position: int
    leaf: int
    round: int = 0


Parts = tuple[tuple[ast.Pattern, int], ...]
Chosen = tuple[Pair, ...]  # what a match, or a partial one, binds, in stream order


def birth_order(chosen: Chosen) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """From the last binding backwards: place in the stream, then pattern position; a shorter match comes first.

    Of the same events in the same variables: at the first that differs, the one whose round goes on comes first.
    """
    backwards = [(pair.position, pair.leaf) for pair in reversed(chosen)]
    return tuple(itertools.chain.from_iterable(backwards)), tuple(pair.round for pair in chosen)


@functools.cache
def size(pattern: ast.Pattern) -> int:
    """How many variables a pattern has."""
    return len(leaves_of(pattern))


@functools.cache
def numbered(pattern: ast.Pattern, number: int) -> Parts:
    """The parts of a pattern, each with the number of its first variable."""
    parts = sub_patterns(pattern)
    return tuple((part, number + sum(map(size, parts[:k]))) for k, part in enumerate(parts))


def bound_in(pattern: ast.Pattern, number: int, chosen: Chosen) -> Chosen:
    """What a part of the pattern binds; ``number`` is that of its first variable."""
    return tuple(pair for pair in chosen if number <= pair.leaf < number + size(pattern))


def by_round(chosen: Chosen) -> list[Chosen]:
    """What each round of a group binds, given what the group does."""
    rounds = sorted({pair.round for pair in chosen})
    return [tuple(pair for pair in chosen if pair.round == turn) for turn in rounds]
