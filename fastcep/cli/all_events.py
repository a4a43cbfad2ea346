"""Read all events of files into memory, for commands that look at them more than once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from fastcep.cli.inputs import InputOptions
from fastcep.errors import DataError, OrderError, ValidationError
from fastcep.events import Schema

__all__ = ["in_order", "read_whole"]

_CHUNK = 65_536


def read_whole(inputs: InputOptions, sources: Sequence[str], schema: Schema, what: str) -> pa.Table:
    """Read all events into memory, for ``what``; the first row that cannot be taken is an error."""
    with inputs.open(sources, schema, _CHUNK) as source:
        batches = list(source)
    if not batches:
        raise ValidationError(f"--input {', '.join(sources)}: found no events; {what} needs some")
    return _joined(batches, schema)


@contextmanager
def in_order() -> Iterator[None]:
    """Tell of events out of order what helps here: they cannot be late, as they can in ``fastcep run``."""
    try:
        yield
    except OrderError as error:
        raise ValidationError(f"{error.what}; sort the input with --sort") from None


def _joined(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.Table:
    """One table; of files whose columns are not the same those that the schema reads, wherever they stand."""
    if not schema.header or all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    read = {schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns)}
    tables = [
        pa.Table.from_batches([batch]).select([name for name in batch.schema.names if name in read])
        for batch in batches
    ]  # fmt: skip
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"--input: files whose columns do not go together: {error}; give them one by one") from None
