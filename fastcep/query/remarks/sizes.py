"""Remarks on sizes: windows that are too small for their pattern, and indices that a loop never reaches."""

from __future__ import annotations

from collections.abc import Iterator

from fastcep.events.units import format_duration
from fastcep.query import ast, traversal
from fastcep.query.patterns import groups_of, positive_variables, sub_patterns
from fastcep.query.printer import short_text
from fastcep.query.source import Problem

__all__ = ["size_remarks"]


def size_remarks(query: ast.Query) -> Iterator[Problem]:
    """Yield windows that no match or tick fits in, and conditions and columns of elements that never exist."""
    yield from _window(query)
    most = _most_elements(query.pattern)
    for conjunct in traversal.conjuncts(query.where):
        found = list(_elements(conjunct, most, "the condition is ignored"))
        yield from found or _neighbours(conjunct, most)
    for item in query.returns:
        yield from _elements(item.expression, most, "the column is always null")


def _fewest_events(pattern: ast.Pattern) -> int:
    """Return the number of events that the smallest match of a pattern binds."""
    match pattern:
        case ast.Variable():
            return pattern.minimum
        case ast.Negation():
            return 0
        case ast.Disjunction():
            return min(map(_fewest_events, pattern.patterns))
        case ast.AnyOf():
            return pattern.count
        case ast.Group():
            return pattern.minimum * _fewest_events(pattern.pattern)
        case ast.Aperiodic() | ast.Periodic():
            return sum(map(_fewest_events, sub_patterns(pattern)[:-1]))
    return sum(map(_fewest_events, sub_patterns(pattern)))


def _window(query: ast.Query) -> Iterator[Problem]:
    window, pattern = query.window, query.pattern
    place: ast.Node = window
    match window:
        case ast.CountWindow(events=events):
            clause = f"WITHIN {events} EVENTS"
        case ast.ExplicitWindow(closing=ast.Bound(events=int(events)) as closing):
            clause, place = f"CLOSE AFTER {events} EVENTS", closing
        case ast.TimeWindow(nanoseconds=limit):
            if isinstance(pattern, ast.Periodic) and pattern.nanoseconds > limit:
                period = format_duration(pattern.nanoseconds)
                yield Problem(
                    f"PERIODIC never ticks, because its period of {period} is longer than WITHIN "
                    f"{format_duration(limit)}; write WITHIN {period} or more",
                    window,
                )
            return
        case _:
            return
    fewest = _fewest_events(pattern)
    if fewest > events:
        yield Problem(
            f"the query never matches, because its pattern needs {fewest} events and {clause} allows {events}; write "
            f"{fewest} EVENTS or more",
            place,
        )


def _most_elements(pattern: ast.Pattern) -> dict[str, int]:
    """Return the upper bound of each list that has one, by the name of the variable or group."""
    loops: list[ast.Variable | ast.Group] = [*groups_of(pattern)]
    loops += [variable.declaration for variable in positive_variables(pattern) if variable.group is None]
    return {loop.name: loop.maximum for loop in loops if loop.repeated and loop.maximum is not None}


def _elements(expression: ast.Expr, most: dict[str, int], effect: str) -> Iterator[Problem]:
    """Yield the indices from the start or the end of a list that are never in it."""
    for part in traversal.walk(expression):
        if not isinstance(part, ast.Attribute) or part.index is None or part.index.kind == "relative":
            continue
        number = abs(part.index.offset)
        limit = most.get(part.variable, number + 1)
        if number >= limit:
            base, largest = ("", f"last-{limit - 1}") if part.index.kind == "last" else (" counted from 0", limit - 1)
            yield Problem(
                f"{short_text(part)} never exists, because {part.variable} has at most {_elements_text(limit)}{base}, "
                f"so {effect}; use an index up to [{largest}], or allow more elements",
                part,
            )


def _neighbours(conjunct: ast.Expr, most: dict[str, int]) -> Iterator[Problem]:
    """Yield the remark on a condition with ``[i]`` that no ``i`` can satisfy the indices of."""
    offsets: dict[str, dict[int, ast.Attribute]] = {}
    for part in traversal.walk(conjunct):
        if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
            offsets.setdefault(part.variable, {})[part.index.offset] = part
    for variable, parts in offsets.items():
        first, last = min(parts), max(parts)
        limit = most.get(variable)
        if limit is not None and last - first >= limit:
            yield Problem(
                f"{short_text(parts[first])} and {short_text(parts[last])} never both exist, because {variable} has at "
                f"most {_elements_text(limit)}, so the condition is ignored; use indices at most {limit - 1} apart, or "
                "allow more elements",
                conjunct,
            )


def _elements_text(number: int) -> str:
    return "1 element" if number == 1 else f"{number} elements"
