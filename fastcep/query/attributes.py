"""RETURN columns for all attributes of the matched events."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.query.checks.query import check
from fastcep.query.patterns import PatternVariable, positive_variables
from fastcep.query.source import Problem
from fastcep.query.types import attribute_dtypes

__all__ = ["with_attributes"]


def with_attributes(query: ast.Query) -> ast.Query:
    """Add a RETURN column for the time and for each attribute of every matched event.

    Parameters
    ----------
    query
        A checked query.

    Returns
    -------
    Query
        The query with a RETURN column for the time (a timestamp) and for each attribute of every variable,
        placed before its own RETURN columns. Columns are named ``variable.attribute``, where a variable ``a`` of a
        group ``g`` is ``g.a``. A Kleene variable gives lists, and a variable that the match does not bind gives nulls.
        A negated variable has no columns. A variable of a union type has the attributes that all its types share.
        A column that RETURN already has, with the same name and meaning, is not repeated, so the function is
        idempotent.

    Raises
    ------
    ValidationError
        A column's name is already taken by another RETURN column, a variable or another attribute.
    """
    items = [item for variable in positive_variables(query.pattern) for item in _items(query, variable)]
    duplicates = [name for name, count in Counter(item.name for item in items).items() if count > 1]
    if duplicates:
        raise ValidationError(
            f"query {query.name!r}: two attributes would be called {duplicates[0]!r}; rename a variable, or return "
            "them with RETURN … AS"
        )
    added = {item.name: item for item in items}
    kept = []
    for item in query.returns:
        attribute = added.get(item.name)
        if attribute is None:
            kept.append(item)
        elif attribute != item:
            raise ValidationError(
                f"query {query.name!r}: the RETURN column {item.name!r} has the name of an attribute's column but "
                "another meaning; rename it with AS"
            )
    try:
        return check(replace(query, returns=(*items, *kept)))
    except Problem as problem:
        raise ValidationError(f"query {query.name!r}, with the attributes of all events: {problem.message}") from None


def _items(query: ast.Query, variable: PatternVariable) -> list[ast.ReturnItem]:
    own, inner = variable.key
    node = ast.AttributeList if variable.repeated else ast.Attribute
    return [
        ast.ReturnItem(node(own, name, inner=inner), f"{variable.name}.{name}")
        for name in ("time", *attribute_dtypes(query.schema, variable.declaration.types))
    ]
