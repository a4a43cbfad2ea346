"""The attributes of the matched events as RETURN columns, without spelling them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fastcep.errors import ValidationError
from fastcep.query import ast
from fastcep.query.check import check
from fastcep.query.patterns import Leaf, positive_leaves
from fastcep.query.source import Problem
from fastcep.query.types import attribute_dtypes

__all__ = ["with_attributes"]


def with_attributes(query: ast.Query) -> ast.Query:
    """Return every matched event's time and attributes.

    Parameters
    ----------
    query
        A checked query.

    Returns
    -------
    Query
        The query with a RETURN column for the time (int64, nanoseconds) and for each attribute of every variable,
        named ``variable.attribute``, before its own RETURN columns: a list for a Kleene variable, null for an untaken
        one. A variable ``a`` of a group ``g`` is called ``g.a``; a negated one has no columns. A variable of a union
        type has the attributes that the types share. A column that RETURN has already, under this
        name and with this meaning, is not repeated; so applying it twice changes nothing.

    Raises
    ------
    ValidationError
        A column's name is already taken by another RETURN column, a variable or another attribute.
    """
    items = [item for leaf in positive_leaves(query.pattern) for item in _items(query, leaf)]
    twice = [name for name, count in Counter(item.name for item in items).items() if count > 1]
    if twice:
        raise ValidationError(
            f"query {query.name!r}: two attributes would be called {twice[0]!r}; rename a variable, or return them "
            "with RETURN … AS"
        )
    added = {item.name: item for item in items}
    own = []
    for item in query.returns:
        same = added.get(item.name)
        if same is None:
            own.append(item)
        elif same != item:
            raise ValidationError(
                f"query {query.name!r}: the RETURN column {item.name!r} has the name of an attribute's column and "
                "another meaning; rename it with AS"
            )
    try:
        return check(replace(query, returns=(*items, *own)))
    except Problem as problem:
        raise ValidationError(f"query {query.name!r}, with the attributes of all events: {problem.message}") from None


def _items(query: ast.Query, leaf: Leaf) -> list[ast.ReturnItem]:
    variable, inner = leaf.key
    node = ast.AttributeList if leaf.repeated else ast.Attribute
    return [
        ast.ReturnItem(node(variable, name, inner=inner), f"{leaf.name}.{name}")
        for name in ("time", *attribute_dtypes(query.schema, leaf.member.types))
    ]
