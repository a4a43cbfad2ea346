"""Bindings of the reference matcher: the events of a match in their places, and the variables that bind them."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from fastcep.query import ast
from fastcep.query.patterns import pattern_variables, sub_patterns


@dataclass(frozen=True, order=True)
class Pair:
    """An event in its place: position in the stream, number of the variable, and the round if it is in a group."""

    position: int
    variable: int
    round: int = 0


Parts = tuple[tuple[ast.Pattern, int], ...]
Chosen = tuple[Pair, ...]  # what a match, or a partial one, binds, in stream order


def birth_order(chosen: Chosen) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sort key of birth order: from the last binding backwards, position and variable; shorter ones first.

    If the same variables bind the same events, the match whose round continues at the first difference comes first.
    """
    backwards = [(pair.position, pair.variable) for pair in reversed(chosen)]
    return tuple(itertools.chain.from_iterable(backwards)), tuple(pair.round for pair in chosen)


@functools.cache
def size(pattern: ast.Pattern) -> int:
    """Return the number of variables of a pattern."""
    return len(pattern_variables(pattern))


@functools.cache
def numbered(pattern: ast.Pattern, number: int) -> Parts:
    """Yield the parts of a pattern, each with the number of its first variable."""
    parts = sub_patterns(pattern)
    return tuple((part, number + sum(map(size, parts[:k]))) for k, part in enumerate(parts))


def bound_in(pattern: ast.Pattern, number: int, chosen: Chosen) -> Chosen:
    """Return the bindings of a part of the pattern; ``number`` is that of its first variable."""
    return tuple(pair for pair in chosen if number <= pair.variable < number + size(pattern))


def by_round(chosen: Chosen) -> list[Chosen]:
    """Split the bindings of a group by round."""
    rounds = sorted({pair.round for pair in chosen})
    return [tuple(pair for pair in chosen if pair.round == turn) for turn in rounds]
