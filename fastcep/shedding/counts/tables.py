"""Metadata of tables of counts: query and options, to check that tables may be added up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fastcep.errors import ValidationError

__all__ = ["checked_metadata", "metadata_of", "with_metadata"]

_KEY = b"fastcep"


def with_metadata(table: pa.Table, metadata: dict[str, Any]) -> pa.Table:
    """Return the table with metadata."""
    return table.replace_schema_metadata({_KEY: json.dumps(metadata).encode()})


def metadata_of(caller: str, table: pa.Table, kind: str) -> dict[str, Any]:
    """Return the metadata of a table; raise `ValidationError` if it is not a table of this kind."""
    text = (table.schema.metadata or {}).get(_KEY)
    metadata: dict[str, Any] = {} if text is None else json.loads(text)
    if metadata.get("counts") != kind:
        raise ValidationError(
            f"{caller}: expected a table of {kind[:-1]}_counts, with its metadata; found columns "
            f"{', '.join(table.column_names)}; keep the schema's metadata when tables are stored or sent"
        )
    return metadata


def checked_metadata(
    caller: str, tables: Sequence[pa.Table], kind: str, but: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the metadata of each table.

    Raises
    ------
    ValidationError
        If there is no table, or their metadata differ in other keys than ``but``.
    """
    all_metadata = [metadata_of(caller, table, kind) for table in tables]
    if not all_metadata:
        raise ValidationError(f"{caller}: no tables; expected at least one")
    first = all_metadata[0]
    for other in all_metadata[1:]:
        for key in sorted(first.keys() | other.keys()):
            if key not in but and first.get(key) != other.get(key):
                raise ValidationError(
                    f"{caller}: tables differ in {key}: {first.get(key)!r} and {other.get(key)!r}; expected counts of "
                    "one query with the same options"
                )
    return all_metadata
