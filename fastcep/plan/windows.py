"""Plan the events that open and close explicit windows as small separate plans.

The events that open windows are matches of the pattern ``SEQ(o)``. The pairs of an opening and a closing event are
matches of ``SEQ(o, c)``, of which each window uses the first. Their conditions are therefore keys and predicates like
those of the query, and closing one window among thousands is a look-up. The matcher handles times and counts itself.
"""

from __future__ import annotations

from collections.abc import Callable

from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME, ON_EVENT, Plan, WindowPlan
from fastcep.query import ast, traversal
from fastcep.query.printer import skip_text

__all__ = ["plan_windows"]


def plan_windows(
    query: ast.Query, edge_negation: bool, timed_out: bool, sheds: bool, make: Callable[[ast.Query], Plan]
) -> WindowPlan | None:
    """Plan the windows of ``query``; return None if they are not explicit.

    Parameters
    ----------
    query
        A checked query.
    edge_negation
        Whether a negated variable is checked from the beginning or to the end of the window.
    timed_out
        Whether partial matches that time out are reported.
    sheds
        Whether events are dropped from single windows.
    make
        Function that plans a query.
    """
    window = query.window
    if not isinstance(window, ast.ExplicitWindow):
        return None
    opening, closing = window.opening, window.closing
    why = _why_isolated(query, edge_negation, timed_out, sheds)
    on_event = bool(closing.types)
    mentions_opening = closing.where is not None and opening.variable in traversal.variables(closing.where)
    return WindowPlan(
        isolated=bool(why),
        why=why,
        closing=ON_EVENT if on_event else AFTER_TIME if closing.nanoseconds is not None else AFTER_EVENTS,
        length=closing.nanoseconds or closing.events or 0,
        every_events=opening.events or 0,
        every_time=opening.nanoseconds or 0,
        opening=make(_events(query, opening)) if opening.types else None,
        pairs=make(_pairs(query, opening, closing)) if on_event and mentions_opening else None,
        closers=make(_events(query, closing)) if on_event and not mentions_opening else None,
    )


def _why_isolated(query: ast.Query, edge_negation: bool, timed_out: bool, sheds: bool) -> str:
    if query.select != "each":
        return f"SELECT {query.select}"
    if query.consume == "consumed":
        return "CONSUME consumed"
    if query.limit is not None:
        return f"LIMIT {query.limit} PER WINDOW"
    if query.after_match != "no skip":
        return f"AFTER MATCH {skip_text(query)}"
    if edge_negation:
        return "NEG at the edge of the window"
    if timed_out:
        return "timed_out=True"
    return "events are dropped from single windows" if sheds else ""


def _variable(bound: ast.Bound) -> ast.Variable:
    return ast.Variable(bound.types, bound.variable)


def _events(query: ast.Query, bound: ast.Bound) -> ast.Query:
    pattern = ast.Sequence((_variable(bound),))
    return ast.Query(f"{query.name} window", pattern, ast.CountWindow(1), bound.where, schema=query.schema)


def _pairs(query: ast.Query, opening: ast.Bound, closing: ast.Bound) -> ast.Query:
    assert closing.where is not None
    where = closing.where if opening.where is None else ast.Binary("AND", opening.where, closing.where)
    pattern = ast.Sequence((_variable(opening), _variable(closing)))
    return ast.Query(
        f"{query.name} window", pattern, ast.Unbounded(), where, strategy="skip_till_next", schema=query.schema
    )
