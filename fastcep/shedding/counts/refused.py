"""Queries whose transitions cannot be counted yet."""

from __future__ import annotations

import dataclasses

from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.ir import PREVIOUS
from fastcep.query import ast
from fastcep.query.patterns import trailing_negation

__all__ = ["check_query"]


def check_query(who: str, query: ast.Query, in_pieces: bool) -> Plan:
    """The query's plan; ValidationError if partial matches end otherwise than with their window or by moving on."""
    found = _clause(query)
    plan = make_plan(dataclasses.replace(query, returns=()))
    if not found and plan.windows is not None and plan.windows.isolated:
        found = plan.windows.why, "leave NEG out there"
    if not found and any(column.column == PREVIOUS for column in plan.columns):
        found = "NEXT or CONSECUTIVE", "leave it out"
    if found:
        clause, mend = found
        raise ValidationError(f"{who}: query {query.name!r} has {clause}, which cannot be counted yet; {mend}")
    if in_pieces and isinstance(query.window, ast.Unbounded):
        raise ValidationError(
            f"{who}: query {query.name!r} has WITHIN UNBOUNDED, so that a piece would need all that came before it; "
            "count the stream as a whole (owned=None), or give a window"
        )
    return plan


def _clause(query: ast.Query) -> tuple[str, str] | None:
    """A clause that cannot be counted, and how to mend it."""
    if query.strategy not in ("skip_till_any", "skip_till_next"):
        return f"STRATEGY {query.strategy}", "take skip_till_any or skip_till_next"
    if query.select != "each":
        return f"SELECT {query.select}", "take SELECT each, so that all complete matches count"
    if query.consume != "zero":
        return f"CONSUME {query.consume}", "take CONSUME zero"
    if query.limit is not None:
        return f"LIMIT {query.limit} PER WINDOW", "leave it out, so that partial matches go on behind it"
    if query.after_match != "no skip":
        return f"AFTER MATCH {query.after_match.upper()}", "take AFTER MATCH NO SKIP"
    if isinstance(query.pattern, ast.Periodic):
        return "PERIODIC", "take a pattern that events complete"
    if trailing_negation(query.pattern) is not None:
        return "NEG at the end of the pattern, which only time decides", "leave NEG out there"
    return None
