"""Fit models of shedders on history."""

from __future__ import annotations

from typing import Any

from fastcep.query import ast
from fastcep.shedding.hybrid.fit import fit_hybrid
from fastcep.shedding.model import Model, check_kind

__all__ = ["fit"]


def fit(query: ast.Query, history: Any, *, kind: str = "hybrid", **options: Any) -> Model:
    """Fit a model of a query on a piece of history.

    Parameters
    ----------
    query
        That load is to be shed for.
    history
        Events from the past, as `Engine.process` takes them, in order: of a time that is like the time to come, and
        long against the query's window.
    kind
        Of which shedder: ``"hybrid"``, for `Hybrid`, `HybridInput` and `HybridState`.
    **options
        Of the kind, see `fit_hybrid`.

    Returns
    -------
    Model
        For shedders, and to save.

    Raises
    ------
    ValidationError
        There is no such kind or option, an option is wrong, scikit-learn is missing, or history has no partial match.
    SchemaError, DataError, OrderError
        History is not as the query wants it.
    """
    check_kind(kind)
    return fit_hybrid(query, history, **options).stored()
