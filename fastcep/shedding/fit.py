"""Fit models for shedders on history."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, overload

from fastcep.errors import ValidationError
from fastcep.events.batch import as_table
from fastcep.overload.names import MODELS, check_options
from fastcep.query import ast
from fastcep.shedding.model import Model, check_kind

__all__ = ["distinct", "fit", "known_options"]


@overload
def fit(query: ast.Query, history: Any, *, kind: str = "hybrid", **options: Any) -> Model: ...
@overload
def fit(query: Sequence[ast.Query], history: Any, *, kind: str = "hybrid", **options: Any) -> list[Model]: ...
def fit(
    query: ast.Query | Sequence[ast.Query], history: Any, *, kind: str = "hybrid", **options: Any
) -> Model | list[Model]:
    """Fit a model for a query on history, or one for each of several queries.

    Parameters
    ----------
    query
        Query to shed load for, or a sequence of queries with different names.
    history
        Past events, as `Engine.process` accepts them, in order. They should resemble the future events and cover many
        windows of the query.
    kind
        Kind of model: ``"hybrid"``, for `Hybrid`, `HybridInput` and `HybridState`, ``"pspice"``, for `PSpice`,
        ``"espice"``, for `ESpice`, or a kind that another package registers as an entry point of the group
        ``fastcep.models``.
    **options
        Options of the kind, see `fit_hybrid`, `fit_pspice` and `fit_espice`.

    Returns
    -------
    Model, or list of Model
        Model for shedders; it can be saved. For a sequence of queries, a list in their order.

    Warns
    -----
    A warning of the logger ``fastcep.shedding``
        If the history is too short, see `fastcep.shedding.history_size`.

    Raises
    ------
    ValidationError
        If the kind or an option is unknown, an option is invalid, scikit-learn is missing, or the history has no
        partial match (``"espice"``: no match).
    SchemaError, DataError, OrderError
        If the history does not fit the query.
    """
    if isinstance(query, Sequence):
        queries = distinct("fit", query)
        table = as_table(history, "history")  # a reader can be read once only
        return [fit(item, table, kind=kind, **options) for item in queries]
    if not isinstance(query, ast.Query):
        raise ValidationError(
            f"query: found {type(query).__name__}, expected a query of fastcep.parse; the order is fit(query, history)"
        )
    check_kind(kind)
    check_options(f"model {kind!r}", known_options(kind, options), options)
    model = MODELS[kind](query, history, **options)
    if not isinstance(model, Model):
        raise ValidationError(f"kind={kind!r}: its function returned {type(model).__name__}, expected a Model")
    return model


def distinct(caller: str, queries: Sequence[ast.Query]) -> Sequence[ast.Query]:
    """Return the queries; raise `ValidationError` if there is none, or two have the same name."""
    names = [query.name for query in queries]
    if not names or len(set(names)) < len(names):
        found = ", ".join(map(repr, names)) or "no query"
        raise ValidationError(f"{caller}: found {found}; expected at least one query, each with a name of its own")
    return queries


def known_options(kind: str, others: Iterable[str] = ()) -> list[str]:
    """Return the options of the function that fits models of a kind; ``others`` too, if it takes any option."""
    parameters = inspect.signature(MODELS[kind]).parameters
    known = list(parameters)[2:]  # after query and history
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [*known, *others] if takes_any else known
