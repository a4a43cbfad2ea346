"""The variables of a pattern in the order written, which is the order of the output columns, and facts about them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fastcep.query import ast

__all__ = [
    "PatternVariable", "count_states", "finds_matches_separately", "groups_of", "is_monotonic", "is_nullable",
    "names_of", "nesting", "pattern_variables", "positive_variables", "sub_patterns", "trailing_negation",
    "trailing_silence",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PatternVariable:
    """A variable of a pattern.

    Attributes
    ----------
    declaration
        Name, types and quantifier; a negated variable has no quantifier.
    group
        Group that contains the variable; None outside groups.
    negated
        Whether its events must not occur: in ``NEG``, and the last part of ``APERIODIC`` and ``PERIODIC``.
    optional
        Whether a match, or in a group a round, can leave it unbound.
    """

    declaration: ast.Variable
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
            return self.declaration.name, None
        return self.group.name, self.declaration.name

    @property
    def repeated(self) -> bool:
        """True if the variable holds a list: a Kleene variable, or one inside a repeated group."""
        return self.declaration.repeated or (self.group is not None and self.group.repeated)


def sub_patterns(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    """Return the direct parts of a pattern, in the order written."""
    match pattern:
        case ast.Sequence() | ast.Conjunction() | ast.Disjunction():
            return pattern.patterns
        case ast.AnyOf():
            return pattern.variables
        case ast.Group():
            return (pattern.pattern,)
        case ast.Until():
            return (pattern.pattern, pattern.negation)
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


def pattern_variables(pattern: ast.Pattern) -> tuple[PatternVariable, ...]:
    """Return all variables in the order written; the index of a variable is its *position* in the pattern."""
    return tuple(_variables(pattern, None, False))


def positive_variables(pattern: ast.Pattern) -> tuple[PatternVariable, ...]:
    """Return the variables that a match binds; these have columns in the output."""
    return tuple(variable for variable in pattern_variables(pattern) if not variable.negated)


def _variables(pattern: ast.Pattern, group: ast.Group | None, optional: bool) -> Iterator[PatternVariable]:
    match pattern:
        case ast.Variable():
            yield PatternVariable(pattern, group, False, optional or pattern.minimum == 0)
        case ast.Negation():
            yield PatternVariable(ast.Variable(pattern.types, pattern.name, span=pattern.span), group, True, True)
        case ast.Aperiodic() | ast.Periodic():
            for part in sub_patterns(pattern)[:-1]:
                yield from _variables(part, group, optional)
            yield PatternVariable(pattern.closing, group, True, True)
        case ast.Group():
            yield from _variables(pattern.pattern, pattern, (optional or pattern.minimum == 0) and not pattern.repeated)
        case ast.Disjunction():
            for part in pattern.patterns:
                yield from _variables(part, group, optional or len(pattern.patterns) > 1)
        case ast.AnyOf():
            for variable in pattern.variables:
                unbound_possible = not variable.repeated and pattern.count < len(pattern.variables)
                yield from _variables(variable, group, optional or unbound_possible)
        case _:
            for part in sub_patterns(pattern):
                yield from _variables(part, group, optional)


def groups_of(pattern: ast.Pattern) -> tuple[ast.Group, ...]:
    """Return all groups in the order written."""
    group = (pattern,) if isinstance(pattern, ast.Group) else ()
    return group + tuple(inner for part in sub_patterns(pattern) for inner in groups_of(part))


def names_of(pattern: ast.Pattern) -> frozenset[str]:
    """Return all names that a pattern defines: of variables, including negated and inner ones, and of groups."""
    names = [variable.declaration.name for variable in pattern_variables(pattern)]
    return frozenset(names + [group.name for group in groups_of(pattern)])


def trailing_negation(pattern: ast.Pattern) -> ast.Negation | None:
    """Return the first NEG after which a match can bind nothing, so that it waits for the end of the window, or None.

    Only the outermost SEQ can have such a NEG, except for ``NEG … FOR t``, which a match waits for until t has passed.
    """
    parts = pattern.patterns if isinstance(pattern, ast.Sequence) else ()
    for number, part in enumerate(parts):
        if isinstance(part, ast.Negation) and all(map(is_nullable, parts[number + 1 :])):
            return part
    return trailing_silence(pattern)


def trailing_silence(pattern: ast.Pattern, followed: bool = False) -> ast.Negation | None:
    """Return the first ``NEG … FOR t`` after which a match may bind nothing, at any depth; None if there is none.

    ``followed``: whether a match binds an event after the pattern.
    """
    parts = sub_patterns(pattern)
    for number, part in enumerate(parts):
        later = parts[number + 1 :] if isinstance(pattern, ast.Sequence) else ()
        silence = trailing_silence(part, followed or not all(map(is_nullable, later)))
        if silence is not None:
            return silence
    if isinstance(pattern, ast.Negation) and pattern.nanoseconds is not None and not followed:
        return pattern
    return None


def count_states(pattern: ast.Pattern) -> int:
    """Return the number of states of a pattern: those of the parts of a SEQ add up, those of an AND multiply."""
    match pattern:
        case ast.Variable():
            return 1
        case ast.Negation():
            return 0
        case ast.Conjunction():
            return math.prod(1 + count_states(part) for part in pattern.patterns) - 1
        case ast.AnyOf() if not pattern.variables[0].repeated:
            return sum(math.comb(len(pattern.variables), taken) for taken in range(1, pattern.count + 1))
        case ast.Aperiodic() | ast.Periodic():
            return sum(map(count_states, sub_patterns(pattern)[:-1]))
    return sum(map(count_states, sub_patterns(pattern)))


def is_nullable(pattern: ast.Pattern) -> bool:
    """Return whether a pattern can match without binding any event."""
    match pattern:
        case ast.Variable():
            return pattern.minimum == 0
        case ast.Negation():
            return True
        case ast.Disjunction():
            return any(map(is_nullable, pattern.patterns))
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
    negates = any(variable.negated for variable in pattern_variables(query.pattern))
    return finds_matches_separately(query) and not negates


def finds_matches_separately(query: ast.Query) -> bool:
    """Return whether a match is found whatever other partial matches there are.

    Dropping partial matches then causes no false matches, but dropping events of negated variables does.
    """
    return (
        query.strategy == "skip_till_any" and query.select == "each" and query.consume == "zero"
        and query.limit is None and query.after_match == "no skip"
    )  # fmt: skip
