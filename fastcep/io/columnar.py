"""Read Parquet and Arrow files batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from fastcep.events import Schema
from fastcep.io.layout import Layout, resolve

__all__ = ["read_arrow", "read_parquet"]


def read_parquet(path: str, schema: Schema, chunk_rows: int) -> tuple[Layout, Iterator[pa.RecordBatch]]:
    """Open a Parquet file; at most one row group is in memory.

    Parameters
    ----------
    path
        The file.
    schema
        Says which columns are read.
    chunk_rows
        Rows of a batch at most.

    Returns
    -------
    tuple
        The columns' layout, and the batches.

    Raises
    ------
    SchemaError
        If a needed column is missing.
    OSError, pyarrow.ArrowException
        If the file is broken.
    """
    file = pq.ParquetFile(path, memory_map=True)
    layout = resolve(schema, file.schema_arrow.names, path)
    names = [layout.names[number] for number in layout.numbers]

    def batches() -> Iterator[pa.RecordBatch]:
        with file:
            for batch in file.iter_batches(batch_size=max(chunk_rows, 8192), columns=names):
                yield layout.place([batch.column(name) for name in names], batch.num_rows)

    return layout, batches()


def read_arrow(path: str, schema: Schema, chunk_rows: int) -> tuple[Layout, Iterator[pa.RecordBatch]]:
    """Open an Arrow file, in the file format or the stream format, mapped into memory.

    Parameters, results and errors are those of `read_parquet`; batches are as the file has them.
    """
    file = pa.memory_map(path)
    framed = file.read(6) == b"ARROW1"
    opened: Any = pa.ipc.open_file if framed else pa.ipc.open_stream
    file.seek(0)
    layout = resolve(schema, opened(file).schema.names, path)
    names = [layout.names[number] for number in layout.numbers]
    options = pa.ipc.IpcReadOptions(included_fields=list(layout.numbers))

    def batches() -> Iterator[pa.RecordBatch]:
        with file:
            file.seek(0)
            reader = opened(file, options=options)
            parts = (reader.get_batch(k) for k in range(reader.num_record_batches)) if framed else iter(reader)
            for batch in parts:
                yield layout.place([batch.column(name) for name in names], batch.num_rows)

    return layout, batches()
