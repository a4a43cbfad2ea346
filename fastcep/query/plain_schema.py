"""The query over events in a plain form, for engines elsewhere: only the attributes that it reads, under fixed names.

An engine in another process, or on another machine, need not know how the user's data names and stores the events.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from fastcep.events import Schema
from fastcep.query import ast

__all__ = ["NUMBER", "TIME", "TYPE", "columns_read", "plain_query"]

#: Columns of plain events: time in ns, number of the type, sequence number; attributes are ``c0``, ``c1``, …
TIME, TYPE, NUMBER = "time", "type", "number"


def columns_read(query: ast.Query, expressions: object = ()) -> frozenset[int]:
    """Return the schema columns that a query or texts of expressions may read: those whose names occur in them."""
    schema, names = query.schema, set(_strings(replace(query, text=None)))
    names.update(name for text in _strings(expressions) for name in re.findall(r"\w+", text))
    attributes = ((kind, name) for kind in schema.type_names for name in schema.attributes(kind) if name in names)
    return frozenset(schema.column_of(kind, name) for kind, name in attributes)


def _strings(node: Any) -> Iterator[str]:
    """Yield all strings in a tree of nodes, which may be deeper than Python's recursion limit."""
    rest = [node]
    while rest:
        node = rest.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, tuple | list | set | frozenset):
            rest += node
        elif isinstance(node, Mapping):
            rest += node.values()
        elif is_dataclass(node):
            rest += [getattr(node, item.name) for item in fields(node)]


def plain_query(query: ast.Query, columns: Collection[int] | None = None, *, numbered: bool = True) -> ast.Query:
    """Return the query over plain events.

    Parameters
    ----------
    query
        Query over the user's events.
    columns
        Schema columns that the events have; None: all.
    numbered
        Whether the events have sequence numbers.
    """
    schema = query.schema
    types = {
        kind: {name: dtype for name, dtype in schema.attributes(kind).items()
               if columns is None or schema.column_of(kind, name) in columns}
        for kind in schema.type_names
    }  # fmt: skip
    has_types = schema.type is not None
    plain = Schema(
        types, time=TIME, type=TYPE if has_types else None, sequence=NUMBER if numbered else None,
        codes={kind: number for number, kind in enumerate(types)} if has_types else None,
        sources={kind: {name: f"c{schema.column_of(kind, name)}" for name in attributes}
                 for kind, attributes in types.items()},
    )  # fmt: skip
    return replace(query, schema=plain)
