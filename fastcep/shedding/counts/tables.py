"""Tables of counts: what they are of stands in their metadata, so that only what belongs together is added up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError

__all__ = ["about", "described", "same"]

_KEY = b"fastcep"


def described(table: pa.Table, told: dict[str, Any]) -> pa.Table:
    """The table with what it is of."""
    return table.replace_schema_metadata({_KEY: json.dumps(told).encode()})


def about(who: str, table: pa.Table, kind: str) -> dict[str, Any]:
    """What a table is of; ValidationError if it is no table of this kind."""
    told = (table.schema.metadata or {}).get(_KEY)
    found: dict[str, Any] = {} if told is None else json.loads(told)
    if found.get("counts") != kind:
        raise ValidationError(
            f"{who}: expected a table of {kind[:-1]}_counts, with its metadata; found columns "
            f"{', '.join(table.column_names)}; keep the schema's metadata where tables are stored or sent"
        )
    return found


def same(who: str, tables: Sequence[pa.Table], kind: str, but: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What the tables are of; ValidationError if there is none, or they are not of the same, ``but`` for some keys."""
    found = [about(who, table, kind) for table in tables]
    if not found:
        raise ValidationError(f"{who}: no tables; expected at least one")
    for other in found[1:]:
        for key in sorted(found[0].keys() | other.keys()):
            if key not in but and found[0].get(key) != other.get(key):
                raise ValidationError(
                    f"{who}: tables differ in {key}: {found[0].get(key)!r} and {other.get(key)!r}; expected counts of "
                    "one query with the same options"
                )
    return found
