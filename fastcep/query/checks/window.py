"""Checks of windows: their extents, and the events that open and close explicit windows."""

from __future__ import annotations

from fastcep.events.units import INT64_MAX, format_duration
from fastcep.query import ast, traversal
from fastcep.query.checks.condition import check_condition
from fastcep.query.checks.pattern import check_name, check_types
from fastcep.query.patterns import PatternVariable, names_of
from fastcep.query.previous import refuse_previous
from fastcep.query.printer import short_text
from fastcep.query.source import Problem, Spans
from fastcep.query.types import Scope

__all__ = ["check_window"]


def check_window(query: ast.Query, spans: Spans) -> None:
    """Check a query's window; raise `Problem` for the first rule that it breaks."""
    window = query.window
    match window:
        case ast.CountWindow() if not 1 <= window.events <= INT64_MAX:
            raise Problem(f"WITHIN {window.events} EVENTS is not a valid window; write at least 1", window)
        case ast.TimeWindow() if not 0 <= window.nanoseconds <= INT64_MAX:
            raise Problem(f"WITHIN {window.nanoseconds} ns is not a valid window; expected 0 to {INT64_MAX} ns", window)
        case ast.ExplicitWindow(opening=opening, closing=closing):
            _check_extent(opening, "EVERY", "opens no window", spans)
            _check_extent(closing, "CLOSE AFTER", "is not a valid window", spans)
            _check_event(opening, query, spans)
            _check_event(closing, query, spans, opening)


def _check_extent(bound: ast.Bound, keyword: str, fault: str, spans: Spans) -> None:
    if bound.events is not None and not 1 <= bound.events <= INT64_MAX:
        message = f"{bound.events} EVENTS {fault}; expected a number from 1 to {INT64_MAX}"
    elif bound.nanoseconds is not None and not 1 <= bound.nanoseconds <= INT64_MAX:
        message = f"{format_duration(bound.nanoseconds)} {fault}; expected at least 1ns"
    else:
        return
    raise Problem(f"{keyword} {message}", spans.of(bound, "extent"))


def _check_event(bound: ast.Bound, query: ast.Query, spans: Spans, opening: ast.Bound | None = None) -> None:
    """Check the event that opens a window or, with ``opening``, the one that closes it."""
    if not bound.types:
        return
    check_types(bound, query.schema, spans)
    name, place = bound.variable, spans.of(bound, "variable")
    action = "opens" if opening is None else "closes"
    check_name(name, place)
    if name in names_of(query.pattern):
        raise Problem(
            f"'{name}' is already a variable of the pattern and cannot also name the event that {action} the window; "
            "choose another name",
            place,
        )
    if opening is not None and name == opening.variable:
        raise Problem(
            f"'{name}' already names the event that opens the window and cannot also name the event that closes it; "
            "choose another name",
            place,
        )
    scope = _scope(bound, query, opening)
    clause = "OPEN ON … WHERE" if opening is None else "CLOSE ON … WHERE"
    for conjunct in traversal.conjuncts(bound.where):
        if isinstance(conjunct, ast.SameAttributes):
            raise Problem(_same(conjunct, bound, opening), conjunct)
        refuse_previous(conjunct, clause)
        check_condition(conjunct, scope, clause)


def _same(node: ast.SameAttributes, bound: ast.Bound, opening: ast.Bound | None) -> str:
    text = short_text(node)
    if opening is None or not opening.types:
        return f"{text} compares the variables of the pattern, but this condition has only one event; remove it"
    one, other = (short_text(ast.Attribute(side.variable, node.names[0])) for side in (bound, opening))
    return f"{text} compares the variables of the pattern; write {one} = {other} for the events of the window"


def _scope(bound: ast.Bound, query: ast.Query, opening: ast.Bound | None) -> Scope:
    """Return the scope of a bound's condition; `Scope.elsewhere` has the other names of the query, with the reason."""
    sides = [bound] if opening is None or not opening.types else [opening, bound]
    names = " and ".join(side.variable for side in sides)
    clause = "OPEN ON" if opening is None else "CLOSE ON"
    action = "opens" if opening is None else "closes"
    remedy = f"the condition after {clause} can mention only {names}"
    bound_by_pattern = (
        f"a variable of the pattern, but the window {action} regardless of what the pattern binds; {remedy}. "
        "Conditions on the pattern belong in WHERE before WINDOW"
    )
    elsewhere = dict.fromkeys(names_of(query.pattern), bound_by_pattern)
    assert isinstance(query.window, ast.ExplicitWindow)
    closing = query.window.closing
    if opening is None and closing.types:
        elsewhere[closing.variable] = (
            f"the event that closes the window, which has not occurred when the window opens; {remedy}. "
            "Compare the two events after CLOSE ON"
        )
    variables = [PatternVariable(ast.Variable(side.types, side.variable)) for side in sides]
    by_key = {variable.key: variable for variable in variables}
    return Scope(query.schema, by_key, {}, elsewhere, "the condition can mention")
