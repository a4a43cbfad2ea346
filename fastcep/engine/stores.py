"""Which store holds the partial matches of a query (docs/architecture.md, Stores)."""

from __future__ import annotations

from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.query import ast

__all__ = ["STORES", "check_store", "plan_for"]

STORES = ("auto", "rows", "factorised")


def check_store(store: str) -> str:
    """Check what a user asked for."""
    if store not in STORES:
        raise ValidationError(f"store={store!r}: expected one of {', '.join(map(repr, STORES))}")
    return store


def plan_for(query: ast.Query, store: str, timed_out: bool) -> Plan:
    """Plan a query for a store.

    Raises
    ------
    ValidationError
        If it has to be rows and the factorised store was asked for.
    """
    plan = make_plan(query, timed_out, store)
    if store == "factorised" and plan.rows_only:
        raise ValidationError(
            f"query {query.name!r} cannot have store='factorised': {plan.rows_only}; leave it to store='auto'"
        )
    return plan
