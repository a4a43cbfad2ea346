"""Convert checked events to their plain form, see `fastcep.query.plain_schema`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from fastcep.events import EventBatch, StringTable
from fastcep.events.convert import from_numpy
from fastcep.events.export import column_to_arrow
from fastcep.query.plain_schema import NUMBER, TIME, TYPE

__all__ = ["plain_events"]


def plain_events(batch: EventBatch, strings: StringTable, columns: Iterable[int]) -> pa.Table:
    """Return events as a table.

    Parameters
    ----------
    batch
        The events.
    strings
        Table with their texts.
    columns
        Schema columns to include.
    """
    table = {TIME: from_numpy(batch.time)}
    if batch.schema.type is not None:
        table[TYPE] = from_numpy(batch.type, pa.uint16())
    if batch.sequence is not None:
        table[NUMBER] = from_numpy(batch.sequence)
    for column in sorted(columns):
        missing = batch.nulls[column]
        table[f"c{column}"] = column_to_arrow(batch, column, None if missing is None else missing != 0, strings)
    return pa.table(table)
