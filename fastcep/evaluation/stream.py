"""The events of an evaluation: checked once, held in memory, processed once per run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine.order import check_order
from fastcep.errors import OrderError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.batch import as_table, plain_table
from fastcep.events.convert import from_numpy
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

__all__ = ["Stream"]

_BLOCK = 65_536


@dataclass(frozen=True)
class Stream:
    """Checked events in memory.

    Attributes
    ----------
    table
        One row per event.
    span
        Time from the first to the last event, in ns.
    by_type
        Number of events of each type.
    """

    table: pa.Table
    span: int
    by_type: dict[str, int]

    @classmethod
    def of(cls, events: Any, schema: Schema, name: str = "events") -> Stream:
        """Check events, and drop those of ignored types.

        Raises
        ------
        SchemaError, DataError, ValidationError
            If there are no events, or they do not fit the schema or are not in order.
        """
        table = as_table(events, name)
        batch = EventBatch.from_data(schema, table, StringTable(), name)
        if not len(batch):
            raise ValidationError(f"{name}: found none; an evaluation needs at least one")
        _check_order(batch, name)
        table = plain_table(table)
        if batch.rows is not None and len(batch) < len(table):
            table = table.take(from_numpy(batch.rows)).combine_chunks()
        counts = np.bincount(batch.type, minlength=len(schema.type_names)).tolist()
        return cls(table, int(batch.time[-1] - batch.time[0]), dict(zip(schema.type_names, counts, strict=True)))

    def __len__(self) -> int:
        return len(self.table)

    def halves(self, schema: Schema) -> tuple[Stream, Stream]:
        """Split the events into the first and the second half."""
        middle = len(self) // 2
        if not middle:
            raise ValidationError("events: found 1, but models are fitted on the first half; give more, or history=…")
        return Stream.of(self.table.slice(0, middle), schema), Stream.of(self.table.slice(middle), schema)

    def types(self, schema: Schema) -> npt.NDArray[np.uint16]:
        """Return the type id of each event."""
        return EventBatch.from_data(schema, self.table, StringTable(), "events").type

    def sequence(self, schema: Schema) -> npt.NDArray[np.int64]:
        """Return the sequence number of each event."""
        sequence = EventBatch.from_data(schema, self.table, StringTable(), "events").sequence
        return np.arange(len(self), dtype=np.int64) if sequence is None else sequence

    def blocks(self) -> Iterator[pa.RecordBatch]:
        """Return the events in batches, so that only the matches of one batch are in memory."""
        return iter(self.table.to_batches(max_chunksize=_BLOCK))

    def bindable(self, queries: Sequence[ast.Query]) -> dict[str, dict[str, int]]:
        """Count by query and type the events that some variable can bind."""
        counts = {}
        for query in queries:
            types = {name for variable in pattern_variables(query.pattern) for name in variable.declaration.types}
            counts[query.name] = {name: count for name, count in self.by_type.items() if name in types}
        return counts


def _check_order(batch: EventBatch, name: str) -> None:
    try:
        check_order(batch, None, None, name, 0)
    except OrderError as error:
        raise OrderError(error.problem, "sort the events by time first") from None
