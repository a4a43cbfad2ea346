"""Patterns seen flat: the variables at their leaves, in the order written, which is the order of the output columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fastcep.query import ast

__all__ = [
    "Leaf", "count_states", "groups_of", "is_monotonic", "is_nullable", "leaves_of", "nesting", "positive_leaves",
    "sub_patterns",
    "trailing_negation", "variables_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    """A variable of a pattern.

    Attributes
    ----------
    member
        Its types and quantifier; that of a negated variable is plain.
    group
        The group that it is in.
    negated
        Whether it stands for events that must not come: ``NEG``, and the last of ``APERIODIC`` and ``PERIODIC``.
    optional
        Whether a match may leave it unbound (of a variable in a group: whether a round may).
    """

    member: ast.Member
    group: ast.Group | None = None
    negated: bool = False
    optional: bool = False

    @property
    def name(self) -> str:
        """Name of the variable, ``g.a`` inside a group."""
        return ast.qualified(*self.key)

    @property
    def key(self) -> tuple[str, str | None]:
        """How expressions name it: ``variable`` and ``inner`` of `ast.Attribute`."""
        if self.group is None:
            return self.member.variable, None
        return self.group.variable, self.member.variable

    @property
    def repeated(self) -> bool:
        """Whether it holds a list: a Kleene variable, or one inside a repeated group."""
        return self.member.repeated or (self.group is not None and self.group.repeated)


def sub_patterns(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    """The direct parts of a pattern, in the order written."""
    match pattern:
        case ast.Sequence() | ast.Conjunction() | ast.Disjunction() | ast.AnyOf():
            return pattern.members
        case ast.Group():
            return (pattern.pattern,)
        case ast.Aperiodic():
            return (pattern.opening, pattern.body, pattern.closing)
        case ast.Periodic():
            return (pattern.opening, pattern.closing)
    return ()


def nesting(pattern: ast.Pattern) -> int:
    """How many levels of patterns are inside of each other."""
    deepest = 0
    level: tuple[ast.Pattern, ...] = (pattern,)
    while level:
        deepest += 1
        level = tuple(part for outer in level for part in sub_patterns(outer))
    return deepest


def leaves_of(pattern: ast.Pattern) -> tuple[Leaf, ...]:
    """All variables in the order written. The number of a variable in this tuple is its *position* in the pattern."""
    return tuple(_leaves(pattern, None, False))


def positive_leaves(pattern: ast.Pattern) -> tuple[Leaf, ...]:
    """The variables that a match binds, which the output has columns for."""
    return tuple(leaf for leaf in leaves_of(pattern) if not leaf.negated)


def _leaves(pattern: ast.Pattern, group: ast.Group | None, optional: bool) -> Iterator[Leaf]:
    match pattern:
        case ast.Member():
            yield Leaf(pattern, group, False, optional or pattern.minimum == 0)
        case ast.Negation():
            yield Leaf(ast.Member(pattern.types, pattern.variable, span=pattern.span), group, True, True)
        case ast.Aperiodic() | ast.Periodic():
            for part in sub_patterns(pattern)[:-1]:
                yield from _leaves(part, group, optional)
            yield Leaf(pattern.closing, group, True, True)
        case ast.Group():
            yield from _leaves(pattern.pattern, pattern, (optional or pattern.minimum == 0) and not pattern.repeated)
        case ast.Disjunction():
            for part in pattern.members:
                yield from _leaves(part, group, optional or len(pattern.members) > 1)
        case ast.AnyOf():
            for part in pattern.members:
                spare = not part.repeated and pattern.count < len(pattern.members)
                yield from _leaves(part, group, optional or spare)
        case _:
            for part in sub_patterns(pattern):
                yield from _leaves(part, group, optional)


def groups_of(pattern: ast.Pattern) -> tuple[ast.Group, ...]:
    """All groups in the order written."""
    own = (pattern,) if isinstance(pattern, ast.Group) else ()
    return own + tuple(group for part in sub_patterns(pattern) for group in groups_of(part))


def variables_of(pattern: ast.Pattern) -> frozenset[str]:
    """All names that a pattern gives: of variables, negated and inner ones too, and of groups."""
    names = [leaf.member.variable for leaf in leaves_of(pattern)]
    return frozenset(names + [group.variable for group in groups_of(pattern)])


def trailing_negation(pattern: ast.Pattern) -> ast.Negation | None:
    """The first NEG behind which a match may bind nothing, so that it waits for the end of the window; None if none.

    Only the outermost SEQ may have one.
    """
    members = pattern.members if isinstance(pattern, ast.Sequence) else ()
    for number, part in enumerate(members):
        if isinstance(part, ast.Negation) and all(map(is_nullable, members[number + 1 :])):
            return part
    return None


def count_states(pattern: ast.Pattern) -> int:
    """How many states of progress a pattern has: places of a SEQ add up, those of an AND multiply."""
    match pattern:
        case ast.Member():
            return 1
        case ast.Negation():
            return 0
        case ast.Conjunction():
            return math.prod(1 + count_states(part) for part in pattern.members) - 1
        case ast.AnyOf() if not pattern.members[0].repeated:
            return sum(math.comb(len(pattern.members), taken) for taken in range(1, pattern.count + 1))
        case ast.Aperiodic() | ast.Periodic():
            return sum(map(count_states, sub_patterns(pattern)[:-1]))
    return sum(map(count_states, sub_patterns(pattern)))


def is_nullable(pattern: ast.Pattern) -> bool:
    """Whether a pattern may bind no event at all."""
    match pattern:
        case ast.Member():
            return pattern.minimum == 0
        case ast.Negation():
            return True
        case ast.Disjunction():
            return any(map(is_nullable, pattern.members))
        case ast.AnyOf():
            return False
        case ast.Group():
            return pattern.minimum == 0
        case ast.Aperiodic():
            return is_nullable(pattern.opening) and is_nullable(pattern.body)
        case ast.Periodic():
            return is_nullable(pattern.opening)
    return all(map(is_nullable, sub_patterns(pattern)))


def is_monotonic(query: ast.Query) -> bool:
    """Whether less input never means more matches, so that a run that sheds finds true matches only.

    See "What stays true" in docs/shedding.md. Conditions on neighbours do no harm: what is dropped keeps its place.
    """
    return (
        query.strategy == "skip_till_any" and query.select == "each" and query.consume == "zero"
        and query.limit is None and query.after_match == "no skip"
        and not any(leaf.negated for leaf in leaves_of(query.pattern))
    )  # fmt: skip
