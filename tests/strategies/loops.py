"""Hypothesis strategies for ``UNTIL`` on the loops of a pattern, and for conditions on the events that end them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from fastcep.events import Schema
from fastcep.query import ast
from fastcep.query.patterns import PatternVariable, pattern_variables, positive_variables, sub_patterns
from strategies.patterns import Draw
from strategies.queries import COMPARISONS, Expressions

NAMES = "uvt"  # no other names of a pattern


def ended(draw: Draw, pattern: ast.Pattern, schema: Schema) -> ast.Pattern:
    """Add UNTIL to some of the loops of a pattern."""
    names = iter(NAMES)

    def visit(part: ast.Pattern) -> ast.Pattern:
        match part:
            case ast.Sequence(patterns) | ast.Conjunction(patterns) | ast.Disjunction(patterns):
                return dataclasses.replace(part, patterns=tuple(map(visit, patterns)))
            case ast.Aperiodic():
                return dataclasses.replace(part, opening=visit(part.opening), body=visit(part.body))
            case ast.Periodic():
                return dataclasses.replace(part, opening=visit(part.opening))
            case ast.Variable() | ast.Group() if part.repeated and part.maximum != 1 and draw(st.booleans()):
                types = st.lists(st.sampled_from(schema.type_names), min_size=1, max_size=2, unique=True)
                return ast.Until(part, ast.Negation(tuple(draw(types)), next(names)))
        return part

    return visit(pattern)


def ending_conditions(draw: Draw, schema: Schema, pattern: ast.Pattern, variable: PatternVariable) -> list[ast.Expr]:
    """Draw conditions on the event that ends a loop; None if the variable is that of a NEG."""
    until, before = next(
        (until, before) for until, before in loops(pattern, ()) if until.negation.name == variable.name
    )
    loop = until.pattern.name if isinstance(until.pattern, ast.Variable) else None
    known = [*before, *(one for one in pattern_variables(pattern) if one.name == loop)]
    make = KnownExpressions(draw, schema, tuple(known), relative=False, loop=loop)
    count = make.pick(0, 0, 1, 2)
    if known:
        return [make.forbidden(variable) for _ in range(count)]
    own = ast.Attribute(variable.name, "k")
    return [ast.Binary(make.pick(*COMPARISONS), own, make.constant()) for _ in range(count)]


def is_ending(pattern: ast.Pattern, variable: PatternVariable) -> bool:
    """Return True if a variable is the event that ends a loop."""
    return any(until.negation.name == variable.name for until, _ in loops(pattern, ()))


def loops(
    pattern: ast.Pattern, before: tuple[PatternVariable, ...]
) -> Iterator[tuple[ast.Until, tuple[PatternVariable, ...]]]:
    """Yield the loops with UNTIL, each with the variables bound before it."""
    if isinstance(pattern, ast.Until):
        yield pattern, before
    for part in sub_patterns(pattern):
        yield from loops(part, before)
        if isinstance(pattern, ast.Sequence | ast.Aperiodic):
            before += positive_variables(part)


@dataclass
class KnownExpressions(Expressions):
    """Draws expressions over what is known at the first element of a loop."""

    loop: str | None = None

    def attribute(self, variable: PatternVariable, key: str) -> ast.Attribute:
        """Draw ``x.key``; of the loop the first element."""
        if variable.name == self.loop:
            return ast.Attribute(variable.name, key, self.pick(ast.Index("first"), ast.Index("position", 0)))
        return super().attribute(variable, key)

    def aggregate(self) -> ast.Expr | None:
        """Draw an aggregate of another repeated variable, or None if there is none."""
        others = tuple(variable for variable in self.variables if variable.name != self.loop)
        return Expressions(self.draw, self.schema, others, relative=False).aggregate()
