"""The variables of a pattern in the order written, which is the order of the output columns, and facts about them."""

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
        Types and quantifier; a negated variable has no quantifier.
    group
        Group that contains the variable; None outside groups.
    negated
        Whether its events must not occur: in ``NEG``, and the last part of ``APERIODIC`` and ``PERIODIC``.
    optional
        Whether a match, or in a group a round, can leave it unbound.
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
        """Name in expressions: ``variable`` and ``inner`` of `ast.Attribute`."""
        if self.group is None:
            return self.member.variable, None
        return self.group.variable, self.member.variable

    @property
    def repeated(self) -> bool:
        """True if the variable holds a list: a Kleene variable, or one inside a repeated group."""
        return self.member.repeated or (self.group is not None and self.group.repeated)


def sub_patterns(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    """Return the direct parts of a pattern, in the order written."""
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
    """Return the nesting depth of a pattern."""
    deepest = 0
    level: tuple[ast.Pattern, ...] = (pattern,)
    while level:
        deepest += 1
        level = tuple(part for outer in level for part in sub_patterns(outer))
    return deepest


def leaves_of(pattern: ast.Pattern) -> tuple[Leaf, ...]:
    """Return all variables in the order written; the index of a variable is its *position* in the pattern."""
    return tuple(_leaves(pattern, None, False))


def positive_leaves(pattern: ast.Pattern) -> tuple[Leaf, ...]:
    """Return the variables that a match binds; these have columns in the output."""
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
                unbound_possible = not part.repeated and pattern.count < len(pattern.members)
                yield from _leaves(part, group, optional or unbound_possible)
        case _:
            for part in sub_patterns(pattern):
                yield from _leaves(part, group, optional)


def groups_of(pattern: ast.Pattern) -> tuple[ast.Group, ...]:
    """Return all groups in the order written."""
    group = (pattern,) if isinstance(pattern, ast.Group) else ()
    return group + tuple(inner for part in sub_patterns(pattern) for inner in groups_of(part))


def variables_of(pattern: ast.Pattern) -> frozenset[str]:
    """Return all names that a pattern defines: of variables, including negated and inner ones, and of groups."""
    names = [leaf.member.variable for leaf in leaves_of(pattern)]
    return frozenset(names + [group.variable for group in groups_of(pattern)])


def trailing_negation(pattern: ast.Pattern) -> ast.Negation | None:
    """Return the first NEG after which a match can bind nothing, so that it waits for the end of the window, or None.

    Only the outermost SEQ can have such a NEG.
    """
    members = pattern.members if isinstance(pattern, ast.Sequence) else ()
    for number, part in enumerate(members):
        if isinstance(part, ast.Negation) and all(map(is_nullable, members[number + 1 :])):
            return part
    return None


def count_states(pattern: ast.Pattern) -> int:
    """Return the number of states of a pattern: those of the parts of a SEQ add up, those of an AND multiply."""
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
    """Return whether a pattern can match without binding any event."""
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
    """Return whether less input never gives more matches, so that load shedding causes no false matches.

    See docs/shedding.md. Contiguity conditions are allowed, because dropped events keep their positions.
    """
    return (
        query.strategy == "skip_till_any" and query.select == "each" and query.consume == "zero"
        and query.limit is None and query.after_match == "no skip"
        and not any(leaf.negated for leaf in leaves_of(query.pattern))
    )  # fmt: skip
