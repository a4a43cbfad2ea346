"""Arrow tables as values of a binary column: Spark's stateful operators get few rows, and no value changes its type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from fastcep.events.convert import from_numpy

__all__ = ["pack_table", "packed", "unpack_table", "unpacked"]


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack_table(data: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def packed(batches: Iterable[pa.RecordBatch], key: str, column: str) -> Iterator[pa.RecordBatch]:
    """Yield a row for each key of each batch: the key, and its rows as an Arrow stream in the column."""
    for batch in batches:
        keys = batch.column(key).to_numpy()
        events = pa.Table.from_batches([batch]).drop_columns([key])
        distinct = np.unique(keys)
        rows = [
            pack_table(events.filter(from_numpy(keys == value)) if len(distinct) > 1 else events) for value in distinct
        ]
        if rows:
            yield pa.RecordBatch.from_pydict(
                {key: pa.array(distinct.tolist(), pa.int32()), column: pa.array(rows, pa.binary())}
            )


def unpacked(batches: Iterable[pa.RecordBatch], column: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all Arrow streams in a column."""
    for batch in batches:
        for value in batch.column(column):
            yield from unpack_table(value.as_py()).cast(schema).to_batches()
