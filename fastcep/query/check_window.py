"""What the window of a query may be: extents, and the events that open and close explicit windows."""

from __future__ import annotations

from fastcep.events.units import INT64_MAX, format_duration
from fastcep.query import ast
from fastcep.query.check_condition import check_condition
from fastcep.query.check_pattern import check_name, check_types
from fastcep.query.patterns import Leaf, variables_of
from fastcep.query.printer import short_text
from fastcep.query.source import Problem, Spans
from fastcep.query.types import Scope

__all__ = ["check_window"]


def check_window(query: ast.Query, spans: Spans) -> None:
    """Check a query's window; `Problem` is the first rule that it breaks."""
    window = query.window
    match window:
        case ast.CountWindow() if not 1 <= window.events <= INT64_MAX:
            raise Problem(f"WITHIN {window.events} EVENTS is no window; expected at least 1", window)
        case ast.TimeWindow() if not 0 <= window.nanoseconds <= INT64_MAX:
            raise Problem(f"WITHIN {window.nanoseconds} ns is no window; expected 0 to {INT64_MAX} ns", window)
        case ast.ExplicitWindow(opening=opening, closing=closing):
            _check_extent(opening, "EVERY", "opens no window", spans)
            _check_extent(closing, "CLOSE AFTER", "is no window", spans)
            _check_event(opening, query, spans)
            _check_event(closing, query, spans, opening)


def _check_extent(bound: ast.Bound, keyword: str, fault: str, spans: Spans) -> None:
    if bound.events is not None and not 1 <= bound.events <= INT64_MAX:
        what = f"{bound.events} EVENTS {fault}; expected a number from 1 to {INT64_MAX}"
    elif bound.nanoseconds is not None and not 1 <= bound.nanoseconds <= INT64_MAX:
        what = f"{format_duration(bound.nanoseconds)} {fault}; expected a time from 1ns"
    else:
        return
    raise Problem(f"{keyword} {what}", spans.of(bound, "extent"))


def _check_event(bound: ast.Bound, query: ast.Query, spans: Spans, opening: ast.Bound | None = None) -> None:
    """Check the event that opens a window or, with ``opening``, the one that closes it."""
    if not bound.types:
        return
    check_types(bound, query.schema, spans)
    name, place = bound.variable, spans.of(bound, "variable")
    does = "opens" if opening is None else "closes"
    check_name(name, place)
    if name in variables_of(query.pattern):
        raise Problem(
            f"'{name}' is a variable of the pattern, and cannot name the event that {does} the window too; "
            "choose another",
            place,
        )
    if opening is not None and name == opening.variable:
        raise Problem(
            f"'{name}' names the event that opens the window, and cannot name the one that closes it too; "
            "choose another",
            place,
        )
    scope = _scope(bound, query, opening)
    clause = "OPEN ON … WHERE" if opening is None else "CLOSE ON … WHERE"
    for conjunct in ast.conjuncts(bound.where):
        if isinstance(conjunct, ast.SameAttributes):
            raise Problem(_same(conjunct, bound, opening), conjunct)
        check_condition(conjunct, scope, clause)


def _same(node: ast.SameAttributes, bound: ast.Bound, opening: ast.Bound | None) -> str:
    text = short_text(node)
    if opening is None or not opening.types:
        return f"{text} compares the variables of the pattern, and here is one event only; leave it out"
    own, other = (short_text(ast.Attribute(side.variable, node.names[0])) for side in (bound, opening))
    return f"{text} compares the variables of the pattern; write {own} = {other} for the window's"


def _scope(bound: ast.Bound, query: ast.Query, opening: ast.Bound | None) -> Scope:
    """What the condition of a bound can mention; other names of the query are `Scope.elsewhere`, with the reason."""
    own = [bound] if opening is None or not opening.types else [opening, bound]
    names = " and ".join(side.variable for side in own)
    where = "OPEN ON" if opening is None else "CLOSE ON"
    mend = f"the condition behind {where} can mention {names} only"
    moment = "opens" if opening is None else "closes"
    bound_by_pattern = (
        f"a variable of the pattern, and the window {moment} whatever that binds; {mend}, and the pattern's "
        "WHERE stands before WINDOW"
    )
    elsewhere = dict.fromkeys(variables_of(query.pattern), bound_by_pattern)
    assert isinstance(query.window, ast.ExplicitWindow)
    closing = query.window.closing
    if opening is None and closing.types:
        elsewhere[closing.variable] = (
            f"the event that closes the window, which has not come when it opens; {mend}, so compare it behind CLOSE ON"
        )
    leaves = [Leaf(ast.Member(side.types, side.variable)) for side in own]
    return Scope(query.schema, {leaf.key: leaf for leaf in leaves}, {}, elsewhere, "the condition can mention")
