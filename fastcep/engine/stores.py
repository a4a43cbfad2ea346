"""Which store holds the partial matches of a query (docs/engine.md, Two stores)."""

from __future__ import annotations

from typing import Any

from fastcep.errors import ValidationError
from fastcep.plan import INDEXES, Plan, make_plan
from fastcep.query import ast

__all__ = ["STORES", "check_index", "check_store", "plan_for"]

STORES = ("auto", "rows", "factorised")


def check_store(store: str) -> str:
    """Check what a user asked for."""
    if store not in STORES:
        raise ValidationError(f"store={store!r}: expected one of {', '.join(map(repr, STORES))}")
    return store


def check_index(index: str) -> str:
    """Check by what a user wants rows to be found."""
    if index not in INDEXES:
        raise ValidationError(f"index={index!r}: expected one of {', '.join(map(repr, INDEXES))}")
    return index


def plan_for(query: ast.Query, store: str, timed_out: bool, index: str = "full", **more: Any) -> Plan:
    """Plan a query for a store, with these words in the keys of its indexes; ``more`` as for `make_plan`.

    Raises
    ------
    ValidationError
        If it has to be rows and the factorised store was asked for.
    """
    plan = make_plan(query, timed_out, store, index, **more)
    if store == "factorised" and plan.rows_only:
        raise ValidationError(
            f"query {query.name!r} cannot have store='factorised': {plan.rows_only}; leave it to store='auto'"
        )
    return plan
