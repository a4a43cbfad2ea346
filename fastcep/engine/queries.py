"""Build and check the queries that a user passes to an engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.events.schema import difference
from fastcep.query import ast, traversal, with_attributes

__all__ = ["Buildable", "already_warned", "built_queries", "check_query", "warn_unbounded"]

_ALREADY_WARNED = ContextVar("_ALREADY_WARNED", default=False)


class Buildable(Protocol):
    """An object that builds a query, such as a query builder."""

    def build(self) -> ast.Query:
        """Build the query."""
        ...


def built_queries(
    queries: ast.Query | Buildable | Sequence[ast.Query | Buildable], attributes: bool
) -> list[ast.Query]:
    """Build the queries of an engine, in order.

    Parameters
    ----------
    queries
        One or several queries or builders.
    attributes
        True: they return the attributes of all matched events.

    Raises
    ------
    ValidationError
        If there is no query, if an item is not a query, or if queries disagree on the schema or share a name.
    """
    items = list(queries) if isinstance(queries, Sequence) and not isinstance(queries, str) else [queries]
    checked: list[ast.Query] = []
    for item in items:
        checked.append(check_query(item, attributes, checked))
    if not checked:
        raise ValidationError("an engine needs at least one query, such as fastcep.parse(text, schema)")
    return checked


def check_query(item: object, attributes: bool, others: Sequence[ast.Query], schema: Schema | None = None) -> ast.Query:
    """Build a query, and check that it can run beside others; parameters and errors as `built_queries`.

    The query must have the schema ``schema``, or that of the other queries if ``schema`` is None.
    """
    query = _built(item)
    query = with_attributes(query) if attributes else query
    expected = others[0].schema if schema is None and others else schema
    if expected is not None and query.schema != expected:
        other = repr(others[0].name) if others else "the engine"
        raise ValidationError(
            f"query {query.name!r} has another schema than {other}: {difference(query.schema, expected)}; "
            "use one engine for each, or parse it with the same schema"
        )
    if any(query.name == other.name for other in others):
        raise ValidationError(f"two queries are named {query.name!r}; give each its own name")
    return query


@contextmanager
def already_warned() -> Iterator[None]:
    """Create engines without a warning in this thread, because the user has seen those of the same queries.

    `warnings.catch_warnings` changes the filters of the whole process, also those of other threads.
    """
    token = _ALREADY_WARNED.set(True)
    try:
        yield
    finally:
        _ALREADY_WARNED.reset(token)


def warn_unbounded(query: ast.Query) -> None:
    """Warn the caller of the engine if nothing bounds the state of a query.

    That includes explicit windows that each wait for a closing event of their own, because some of those may never
    come. If any closing event closes all open windows, there is no warning: such events are expected to recur.
    """
    if _ALREADY_WARNED.get():
        return
    window = query.window
    if isinstance(window, ast.Unbounded):
        text = (
            f"query {query.name!r} is WITHIN UNBOUNDED: its state grows with the stream; write WITHIN and a time, "
            "such as 5min, if matches are shorter"
        )
    elif isinstance(window, ast.ExplicitWindow) and _has_own_closer(window):
        text = (
            f"query {query.name!r}: a window that no {window.closing.variable!r} closes stays until the stream ends; "
            "write CLOSE AFTER and a time, such as 5min, for a limit"
        )
    else:
        return
    warnings.warn(text, UserWarning, stacklevel=3)


def _has_own_closer(window: ast.ExplicitWindow) -> bool:
    where = window.closing.where
    return where is not None and window.opening.variable in traversal.variables(where)


def _built(item: object) -> ast.Query:
    if isinstance(item, ast.Query):
        return item
    build = getattr(item, "build", None)
    query = build() if callable(build) else None
    if not isinstance(query, ast.Query):
        remedy = "fastcep.parse(text, schema) returns one"
        if hasattr(item, "queries"):
            remedy = "give its queries: document.queries"
        elif hasattr(item, "columns"):
            remedy = "give events to Engine.process(events), and on Spark write detect(frame, query)"
        raise ValidationError(f"found {type(item).__name__}, expected a query; {remedy}")
    return query
