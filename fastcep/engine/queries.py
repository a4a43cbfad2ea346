"""What an engine is given to answer: queries, or builders of them, that fit together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.events.schema import difference
from fastcep.query import ast, with_attributes

__all__ = ["Buildable", "built_queries", "check_query", "warn_unbounded"]


class Buildable(Protocol):
    """What the query builder gives: something that builds a query."""

    def build(self) -> ast.Query:
        """Return the query."""
        ...


def built_queries(
    queries: ast.Query | Buildable | Sequence[ast.Query | Buildable], attributes: bool
) -> list[ast.Query]:
    """Build the queries of an engine, in order.

    Parameters
    ----------
    queries
        One or several.
    attributes
        Whether they return the attributes of all matched events.

    Raises
    ------
    ValidationError
        If there is none, if one is no query, or if they disagree on the schema or share a name.
    """
    items = list(queries) if isinstance(queries, Sequence) and not isinstance(queries, str) else [queries]
    built: list[ast.Query] = []
    for item in items:
        built.append(check_query(item, attributes, built))
    if not built:
        raise ValidationError("an engine needs at least one query")
    return built


def check_query(item: object, attributes: bool, others: Sequence[ast.Query], schema: Schema | None = None) -> ast.Query:
    """Build a query that is to run beside others, over the engine's schema; the same parameters and errors."""
    query = _built(item)
    query = with_attributes(query) if attributes else query
    wanted = others[0].schema if schema is None and others else schema
    if wanted is not None and query.schema != wanted:
        whose = f"than {others[0].name!r}" if others else "than the engine"
        raise ValidationError(
            f"query {query.name!r} has another schema {whose}: {difference(query.schema, wanted)}; "
            "use one engine each, or parse it with the same schema"
        )
    if any(query.name == other.name for other in others):
        raise ValidationError(f"two queries are named {query.name!r}; give each its own name")
    return query


def warn_unbounded(query: ast.Query) -> None:
    """Warn whoever called the engine of a query whose state nothing bounds.

    Of explicit windows, of those that each wait for a closing event of their own: some may wait in vain. An event that
    closes whatever is open is taken to come again and again.
    """
    window = query.window
    if isinstance(window, ast.Unbounded):
        text = f"query {query.name!r} is WITHIN UNBOUNDED: its state grows with the stream"
    elif isinstance(window, ast.ExplicitWindow) and _has_own_closer(window):
        text = f"query {query.name!r}: a window that no {window.closing.variable!r} closes stays until the stream ends"
    else:
        return
    warnings.warn(text, UserWarning, stacklevel=3)


def _has_own_closer(window: ast.ExplicitWindow) -> bool:
    where = window.closing.where
    return where is not None and window.opening.variable in ast.variables(where)


def _built(item: object) -> ast.Query:
    if isinstance(item, ast.Query):
        return item
    build = getattr(item, "build", None)
    query = build() if callable(build) else None
    if not isinstance(query, ast.Query):
        raise ValidationError(f"found {type(item).__name__}, expected a query: fastcep.parse(text, schema) gives one")
    return query
