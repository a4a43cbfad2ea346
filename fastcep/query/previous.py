"""Attributes of earlier events: ``prev(x.a, k)``, of the event k places before x in its partition or in the stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastcep.query import ast, traversal
from fastcep.query.printer import short_text
from fastcep.query.source import Problem, suggest

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["BUILTINS", "MAX_PLACES", "any_time_before", "previous_attributes", "previous_dtype", "refuse_previous"]

BUILTINS = {"time": "timestamp", "seq": "int64", "type": "string"}
#: Maximum number of places: an engine keeps as many values per partition.
MAX_PLACES = 1000


def previous_attributes(query: ast.Query) -> Iterator[ast.Attribute]:
    """Yield the attributes of earlier events that a query mentions."""
    for expression in traversal.expressions(query):
        for part in traversal.walk(expression):
            if isinstance(part, ast.Attribute) and part.places:
                yield part


def previous_dtype(node: ast.Attribute, schema: Schema) -> str:
    """Return the dtype of an attribute of an earlier event, which can have any type of the schema."""
    if node.name in BUILTINS:
        if node.name == "seq":
            raise Problem("prev has no sequence number; write prev(x.time), or an attribute of the events", node)
        return BUILTINS[node.name]
    owners: dict[str, str] = {}
    for kind in schema.type_names:
        dtype = schema.attributes(kind).get(node.name)
        if dtype is not None:
            owners.setdefault(dtype, kind)
    if not owners:
        names = dict.fromkeys(name for kind in schema.type_names for name in schema.attributes(kind))
        raise Problem(f"unknown attribute '{node.name}' in prev{suggest(node.name, list(names), 'events have')}", node)
    if len(owners) > 1:
        dtypes = ", ".join(f"{kind} has {dtype}" for dtype, kind in owners.items())
        raise Problem(
            f"{short_text(node)} reads '{node.name}' of an event of any type, so all types that have it must "
            f"have it with the same dtype ({dtypes}); declare it with one dtype, or give one of them another name",
            node,
        )
    return next(iter(owners))


def refuse_previous(expression: ast.Expr, clause: str) -> None:
    """Reject attributes of earlier events in a clause."""
    for part in traversal.walk(expression):
        if isinstance(part, ast.Attribute) and part.places:
            raise Problem(f"{clause} has no {short_text(part)}; prev is for conditions in WHERE", part)


def any_time_before(query: ast.Query) -> str:
    """Return a sentence about an event of any earlier time that a query reads; empty if it reads none."""
    for node in previous_attributes(query):
        return f"{short_text(node)} reads an event that may lie any time before"
    return ""
