"""Check the options ``store`` and ``index``, and plan a query for a store (docs/engine.md, Two stores)."""

from __future__ import annotations

from typing import Any

from fastcep.errors import ValidationError
from fastcep.plan import INDEXES, Plan, make_plan
from fastcep.query import ast

__all__ = ["STORES", "check_index", "check_store", "plan_for"]

STORES = ("auto", "rows", "factorised")


def check_store(store: str) -> str:
    """Check the option ``store``; return it, or raise `ValidationError`."""
    if store not in STORES:
        raise ValidationError(f"store={store!r}: expected one of {', '.join(map(repr, STORES))}")
    return store


def check_index(index: str) -> str:
    """Check the option ``index``; return it, or raise `ValidationError`."""
    if index not in INDEXES:
        raise ValidationError(f"index={index!r}: expected one of {', '.join(map(repr, INDEXES))}")
    return index


def plan_for(query: ast.Query, store: str, timed_out: bool, index: str = "full", **options: Any) -> Plan:
    """Plan a query for a store.

    Parameters
    ----------
    query
        The query.
    store, timed_out, index
        Options of `Engine`.
    **options
        Further options of `make_plan`.

    Raises
    ------
    ValidationError
        If the query allows only rows, and ``store`` is ``factorised``.
    """
    plan = make_plan(query, timed_out, store, index, **options)
    if store == "factorised" and plan.rows_only:
        raise ValidationError(
            f"query {query.name!r} cannot have store='factorised': {plan.rows_only}; leave it to store='auto'"
        )
    return plan
