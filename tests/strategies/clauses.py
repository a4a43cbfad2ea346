"""Hypothesis strategies for explicit windows, and for NEXT and CONSECUTIVE in a pattern.

A window shrinks to a short one without conditions.
"""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from fastcep.events import Schema
from fastcep.query import ast
from strategies.patterns import Draw
from strategies.queries import COMPARISONS

OPENER, CLOSER = "w", "z"  # no names of a pattern


# --------------------------------------------------------------------- windows


@st.composite
def explicit_windows(draw: Draw, schema: Schema) -> ast.ExplicitWindow:
    """Draw any way to open a window with any way to close it."""
    opening = draw(st.one_of(opened_by_events(schema), counts([3, 2, 1, 4]), durations([4, 2, 1, 7])))
    closing = draw(
        st.one_of(durations([5, 3, 1, 8, 20]), counts([4, 3, 1, 2, 6]), closed_by_events(schema, opening.variable))
    )
    return ast.ExplicitWindow(opening, closing)


def counts(numbers: list[int]) -> st.SearchStrategy[ast.Bound]:
    """Draw ``EVERY n EVENTS``, ``AFTER n EVENTS``."""
    return st.sampled_from(numbers).map(lambda number: ast.Bound(events=number))


def durations(numbers: list[int]) -> st.SearchStrategy[ast.Bound]:
    """Draw ``EVERY t``, ``AFTER t``, in nanoseconds, like the times of the streams."""
    return st.sampled_from(numbers).map(lambda number: ast.Bound(nanoseconds=number))


def some_types(schema: Schema) -> st.SearchStrategy[tuple[str, ...]]:
    """Draw one type, or several."""
    return st.lists(st.sampled_from(schema.type_names), min_size=1, max_size=2, unique=True).map(tuple)


@st.composite
def opened_by_events(draw: Draw, schema: Schema) -> ast.Bound:
    """Draw ``OPEN ON T w``, mostly with any event of the type."""
    own = ast.Attribute(OPENER, "k")
    where = draw(st.sampled_from([None, None, own])) and compared(draw, own, ast.Literal(draw(st.integers(0, 2))))
    return ast.Bound(types=draw(some_types(schema)), variable=OPENER, where=where)


@st.composite
def closed_by_events(draw: Draw, schema: Schema, opener: str) -> ast.Bound:
    """Draw ``CLOSE ON T z``, mostly with a condition, on the opening event if that has a name."""
    kinds = ["any", "own", *(["equal", "equal", "compared", "later", "both"] if opener else [])]
    kind = draw(st.sampled_from(kinds))
    own, other = ast.Attribute(CLOSER, "k"), ast.Attribute(OPENER, "k")
    equal = ast.Binary("=", own, other)
    later = ast.Binary("-", ast.Attribute(CLOSER, "time"), ast.Attribute(OPENER, "time"))
    where: ast.Expr | None = None
    if kind == "own":
        where = compared(draw, own, ast.Literal(draw(st.integers(0, 2))))
    elif kind == "equal":
        where = equal
    elif kind == "compared":
        where = compared(draw, own, ast.Binary("+", other, ast.Literal(draw(st.sampled_from([0, 1, -1])))))
    elif kind in ("later", "both"):
        where = ast.Binary(">=", later, ast.DurationLiteral(draw(st.sampled_from([1, 0, 3]))))
        if kind == "both":
            where = ast.Binary(draw(st.sampled_from(["AND", "OR"])), equal, where)
    return ast.Bound(types=draw(some_types(schema)), variable=CLOSER, where=where)


def compared(draw: Draw, left: ast.Expr, right: ast.Expr) -> ast.Expr:
    """Draw any comparison."""
    return ast.Binary(draw(st.sampled_from(COMPARISONS)), left, right)


# ----------------------------------------------------------- NEXT and CONSECUTIVE


def adjoined(draw: Draw, pattern: ast.Pattern) -> ast.Pattern:
    """Add NEXT and CONSECUTIVE to a pattern at some of the places where they are allowed."""
    often = st.sampled_from([False, True])
    match pattern:
        case ast.Sequence(patterns):
            places = [
                place
                for place, part in enumerate(patterns)
                if not isinstance(part, ast.Negation)
                and not all(isinstance(other, ast.Negation) for other in patterns[:place])
            ]
            return ast.Sequence(
                tuple(adjoined(draw, part) for part in patterns), tuple(place for place in places if draw(often))
            )
        case ast.Conjunction(patterns) | ast.Disjunction(patterns):
            return type(pattern)(tuple(adjoined(draw, part) for part in patterns))
        case ast.Aperiodic():
            opening, body = adjoined(draw, pattern.opening), adjoined(draw, pattern.body)
            return dataclasses.replace(pattern, opening=opening, body=body)
        case ast.Periodic():
            return dataclasses.replace(pattern, opening=adjoined(draw, pattern.opening))
        case ast.Until():
            return dataclasses.replace(pattern, pattern=adjoined(draw, pattern.pattern))
        case ast.Group():
            consecutive = pattern.repeated and pattern.maximum != 1 and draw(often)
            return dataclasses.replace(pattern, pattern=adjoined(draw, pattern.pattern), consecutive=consecutive)
        case ast.Variable() if pattern.repeated and pattern.maximum != 1:
            return dataclasses.replace(pattern, consecutive=draw(often))
    return pattern
