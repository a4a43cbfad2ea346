"""What an engine is given to answer: queries, or builders of them, that fit together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

from fastcep.errors import ValidationError
from fastcep.query import ast, with_attributes

__all__ = ["Buildable", "built_queries"]


class Buildable(Protocol):
    """What the query builder gives: something that builds a query."""

    def build(self) -> ast.Query:
        """Return the query."""
        ...


def built_queries(
    queries: ast.Query | Buildable | Sequence[ast.Query | Buildable], attributes: bool
) -> list[ast.Query]:
    """Build the queries of an engine, which calls this; warns about those whose state grows without end.

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
    built = [with_attributes(_built(item)) if attributes else _built(item) for item in items]
    if not built:
        raise ValidationError("an engine needs at least one query")
    first, names = built[0], [query.name for query in built]
    for query in built:
        if query.schema != first.schema:
            raise ValidationError(f"query {query.name!r} has another schema than {first.name!r}; use one engine each")
        if names.count(query.name) > 1:
            raise ValidationError(f"two queries are named {query.name!r}; give each its own name")
        if isinstance(query.window, ast.Unbounded):
            warnings.warn(
                f"query {query.name!r} is WITHIN UNBOUNDED: its state grows with the stream",
                UserWarning,
                stacklevel=3,  # whoever makes the engine
            )
    return built


def _built(item: object) -> ast.Query:
    if isinstance(item, ast.Query):
        return item
    build = getattr(item, "build", None)
    query = build() if callable(build) else None
    if not isinstance(query, ast.Query):
        raise ValidationError(f"found {type(item).__name__}, expected a query: fastcep.parse(text, schema) gives one")
    return query
