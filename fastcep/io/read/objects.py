"""Read tables in memory: pyarrow, pandas, polars, DuckDB and other objects with an Arrow interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from fastcep.events import Schema
from fastcep.events.batch import NO_TABLE, as_table, no_table
from fastcep.io.read.bad_rows import Piece
from fastcep.io.read.columnar import pieces_of
from fastcep.io.read.layout import Layout, resolve
from fastcep.io.read.options import Options

__all__ = ["label_of_object", "read_object"]


def label_of_object(data: object) -> str:
    """Return the name of an object for messages."""
    return f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"


def read_object(data: Any, schema: Schema, options: Options) -> tuple[Layout, Iterator[Piece]]:
    """Open an object that holds a table; read it batch by batch if it comes in batches.

    Parameters
    ----------
    data
        A table, record batch, reader or data set of pyarrow, a frame of pandas or polars, a relation of DuckDB,
        anything else with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or a mapping of names to columns.
    schema
        Names the columns to read.
    options
        Sets the largest number of rows of a batch.

    Returns
    -------
    tuple
        Layout of the columns, and iterator over the pieces.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    ValidationError
        If the object holds no table.
    """
    label = label_of_object(data)
    scanner = getattr(data, "scanner", None)
    if isinstance(data, pa.RecordBatchReader):
        reader = data
    elif callable(scanner) and isinstance(getattr(data, "schema", None), pa.Schema):  # pyarrow.dataset
        layout = resolve(schema, data.schema.names, label)
        needed = [layout.names[number] for number in layout.numbers]
        reader = scanner(columns=needed, batch_size=options.chunk_rows).to_reader()
        return layout, pieces_of(iter(reader), layout)
    elif isinstance(data, pa.Table):
        reader = data.to_reader(options.chunk_rows)
    elif isinstance(data, Mapping | pa.RecordBatch) or not hasattr(data, "__arrow_c_stream__"):
        reader = as_table(data, label).to_reader(options.chunk_rows)
    else:
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except NO_TABLE as error:
            raise no_table(data, label, error) from error
    layout = resolve(schema, reader.schema.names, label)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            yield batch.select(list(layout.numbers))

    return layout, pieces_of(batches(), layout)
