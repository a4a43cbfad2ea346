"""Read all events of files into memory, for commands that process them more than once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from fastcep.cli.inputs import InputOptions
from fastcep.errors import DataError, OrderError, ValidationError
from fastcep.events import Schema

__all__ = ["read_all", "sort_hint"]

_CHUNK = 65_536


def read_all(inputs: InputOptions, sources: Sequence[str], schema: Schema, purpose: str) -> pa.Table:
    """Read all events into memory; the first bad row is an error.

    `purpose` names, in the error for an input without events, what they are for.
    """
    with inputs.open(sources, schema, _CHUNK) as source:
        batches = list(source)
    if not batches:
        raise ValidationError(f"--input {', '.join(sources)}: found no events; {purpose} needs at least one")
    return _concatenated(batches, schema)


@contextmanager
def sort_hint() -> Iterator[None]:
    """Suggest --sort in errors about events out of order: these commands have no allowed lateness."""
    try:
        yield
    except OrderError as error:
        raise ValidationError(f"{error.problem}; sort the input with --sort") from None


def _concatenated(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.Table:
    """Concatenate batches; if their columns differ, keep only the columns that the schema reads, matched by name."""
    if not schema.header or all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    needed = {schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns)}
    tables = [
        pa.Table.from_batches([batch]).select([name for name in batch.schema.names if name in needed])
        for batch in batches
    ]  # fmt: skip
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"--input: the columns of the files have different types: {error}; pass one file at a time"
        ) from None
