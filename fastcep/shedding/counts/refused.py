"""Reject queries whose transitions cannot be counted yet."""

from __future__ import annotations

import dataclasses

from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.ir import PREVIOUS
from fastcep.query import ast
from fastcep.query.patterns import trailing_negation
from fastcep.query.printer import skip_text

__all__ = ["check_query"]


def check_query(caller: str, query: ast.Query, in_pieces: bool) -> Plan:
    """Return the plan of a query; raise `ValidationError` if partial matches can end before their window otherwise
    than by a transition.
    """
    unsupported = _unsupported_clause(query)
    plan = make_plan(dataclasses.replace(query, returns=()))
    if not unsupported and plan.windows is not None and plan.windows.isolated:
        unsupported = plan.windows.why, "leave NEG out there"
    if not unsupported and any(column.column == PREVIOUS for column in plan.columns):
        unsupported = "NEXT or CONSECUTIVE", "leave it out"
    if unsupported:
        clause, remedy = unsupported
        raise ValidationError(f"{caller}: query {query.name!r} has {clause}, which cannot be counted yet; {remedy}")
    if in_pieces and isinstance(query.window, ast.Unbounded):
        raise ValidationError(
            f"{caller}: query {query.name!r} has WITHIN UNBOUNDED, so a piece would need all events before it; "
            "count the stream as a whole (owned=None), or give a window"
        )
    return plan


def _unsupported_clause(query: ast.Query) -> tuple[str, str] | None:
    """Return a clause that cannot be counted, and a remedy."""
    if query.strategy not in ("skip_till_any", "skip_till_next"):
        return f"STRATEGY {query.strategy}", "take skip_till_any or skip_till_next"
    if query.select != "each":
        return f"SELECT {query.select}", "take SELECT each, so that all complete matches count"
    if query.consume != "zero":
        return f"CONSUME {query.consume}", "take CONSUME zero"
    if query.limit is not None:
        return f"LIMIT {query.limit} PER WINDOW", "leave it out, so that partial matches continue after it"
    if query.after_match != "no skip":
        return f"AFTER MATCH {skip_text(query)}", "take AFTER MATCH NO SKIP"
    if isinstance(query.pattern, ast.Periodic):
        return "PERIODIC", "take a pattern that events complete"
    if trailing_negation(query.pattern) is not None:
        return "NEG at the end of the pattern, which only time decides", "leave NEG out there"
    return None
