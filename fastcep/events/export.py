"""Events back to Arrow, under the names of the data that they were read from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.events.batch import EventBatch
from fastcep.events.convert import from_numpy, from_texts
from fastcep.events.schema import Schema
from fastcep.events.strings import StringTable

__all__ = ["empty_events", "events_to_arrow"]


def empty_events(schema: Schema) -> EventBatch:
    """Make a batch without events."""
    columns = tuple(np.zeros(0, np.float64 if c.dtype == "float64" else np.int64) for c in schema.columns)
    none = np.zeros(0, np.int64)
    return EventBatch(schema, none, np.zeros(0, np.uint16), none, columns, (None,) * len(columns))


def events_to_arrow(batch: EventBatch, strings: StringTable) -> pa.Table:
    """Give events as a table.

    Columns are time (timestamp[ns, UTC]), type (the name, as text), sequence number, then the attributes. They are
    called as in the data; where the schema knows no name there, ``time``, ``type``, ``seq``, the attribute's name, or
    ``event.seq`` or ``Type.attribute`` if that is taken. An attribute that the event's type does not have is null.
    """
    schema = batch.schema
    assert batch.sequence is not None
    types = from_texts(schema.type_names).take(from_numpy(batch.type, pa.uint16()))
    table: dict[str, Any] = {}
    for source, builtin, values in (
        (schema.time, "time", from_numpy(batch.time, pa.timestamp("ns", "UTC"))),
        (schema.type, "type", types),
        (schema.sequence, "seq", from_numpy(batch.sequence)),
    ):
        name = _named(source, builtin)
        table[name if name not in table else f"event.{builtin}"] = values
    for at, column in enumerate(schema.columns):
        owners = [
            (kind, name)
            for kind in schema.type_names
            for name in schema.attributes(kind)
            if schema.column_of(kind, name) == at
        ]
        kind, attribute = owners[0]
        name = _named(column.source, attribute)
        owns = np.isin(np.arange(len(schema.type_names)), [schema.type_id(kind) for kind, _ in owners])
        nulls = ~owns[batch.type]
        missing = batch.nulls[at]
        if missing is not None:
            nulls |= missing != 0
        table[name if name not in table else f"{kind}.{attribute}"] = _values(batch, at, nulls, strings)
    return pa.table(table)


def _values(batch: EventBatch, at: int, nulls: Any, strings: StringTable) -> Any:
    dtype, values = batch.schema.columns[at].dtype, batch.columns[at]
    if dtype == "string":
        return strings.decode(values, nulls)
    return from_numpy(values.astype(bool) if dtype == "bool" else np.ascontiguousarray(values), nulls=nulls)


def _named(source: str | int | None, otherwise: str) -> str:
    return source if isinstance(source, str) else otherwise
