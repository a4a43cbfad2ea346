"""Export events to Arrow, with the column names of the data that they were read from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.events.batch import EventBatch
from fastcep.events.convert import from_numpy, from_texts
from fastcep.events.schema import Schema
from fastcep.events.strings import StringTable
from fastcep.events.types import TIMESTAMP

__all__ = ["column_to_arrow", "empty_events", "events_to_arrow"]


def empty_events(schema: Schema) -> EventBatch:
    """Return a batch without events."""
    columns = tuple(np.zeros(0, np.float64 if column.dtype == "float64" else np.int64) for column in schema.columns)
    no_values = np.zeros(0, np.int64)
    return EventBatch(schema, no_values, np.zeros(0, np.uint16), no_values, columns, (None,) * len(columns))


def events_to_arrow(batch: EventBatch, strings: StringTable) -> pa.Table:
    """Return events as a table.

    Its columns are time (timestamp[ns, UTC]), type (name of the type, string), sequence number (int64; not if
    the batch has none), then the attributes. They have the names of the data. A column without a name there is called
    ``time``, ``type``, ``seq`` or like its attribute; if that name is taken, ``event.time``, ``event.type``,
    ``event.seq`` or ``Type.attribute``. An attribute that the event's type does not have is null.
    """
    schema = batch.schema
    types = from_texts(schema.type_names).take(from_numpy(batch.type, pa.uint16()))
    table: dict[str, Any] = {}
    for source, builtin, values in (
        (schema.time, "time", from_numpy(batch.time, TIMESTAMP)),
        (schema.type, "type", types),
        (schema.sequence, "seq", None if batch.sequence is None else from_numpy(batch.sequence)),
    ):
        if values is None:
            continue
        name = _name_or(source, builtin)
        table[name if name not in table else f"event.{builtin}"] = values
    for index, column in enumerate(schema.columns):
        owners = [
            (kind, name)
            for kind in schema.type_names
            for name in schema.attributes(kind)
            if schema.column_of(kind, name) == index
        ]
        kind, attribute = owners[0]
        name = _name_or(column.source, attribute)
        has_attribute = np.isin(np.arange(len(schema.type_names)), [schema.type_id(kind) for kind, _ in owners])
        nulls = ~has_attribute[batch.type]
        missing = batch.nulls[index]
        if missing is not None:
            nulls |= missing != 0
        table[name if name not in table else f"{kind}.{attribute}"] = column_to_arrow(batch, index, nulls, strings)
    return pa.table(table)


def column_to_arrow(batch: EventBatch, column: int, nulls: Any, strings: StringTable) -> Any:
    """Return a schema column of events as an Arrow array; ``nulls`` is bool[events], or None without nulls."""
    dtype, values = batch.schema.columns[column].dtype, batch.columns[column]
    if dtype == "string":
        return strings.decode(values, nulls)
    if dtype == "timestamp":
        return from_numpy(np.ascontiguousarray(values), TIMESTAMP, nulls)
    return from_numpy(values.astype(bool) if dtype == "bool" else np.ascontiguousarray(values), nulls=nulls)


def _name_or(source: str | int | None, default: str) -> str:
    return source if isinstance(source, str) else default
