"""Columns of a file that a schema needs, and their positions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastcep.errors import SchemaError
from fastcep.events import Schema
from fastcep.io.read.remedies import missing_column

__all__ = ["Layout", "resolve"]


@dataclass(frozen=True)
class Layout:
    """The columns to read from one file.

    Attributes
    ----------
    label
        Name of the file, for messages.
    names
        Names of all columns of the file.
    numbers
        Ascending 0-based numbers of the needed columns.
    dtypes
        dtype of each needed column: ``"int64"``, ``"float64"``, ``"bool"``, ``"string"``, ``"timestamp"`` or
        ``"time"``.
    positional
        True if the schema gives some column by number. Batches then have all columns up to the last needed one; those
        that are not needed have type null.
    """

    label: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    dtypes: tuple[str, ...]
    positional: bool

    @property
    def time(self) -> int:
        """Index of the time column among the needed columns."""
        return self.dtypes.index("time")

    @property
    def time_columns(self) -> tuple[int, ...]:
        """Indices of the columns of times among the needed columns: the time column, and attributes."""
        return tuple(k for k, dtype in enumerate(self.dtypes) if dtype in ("time", "timestamp"))

    def key(self, k: int) -> str | int:
        """Return the name, or if it has none the number, of the k-th needed column."""
        return self.names[self.numbers[k]] or self.numbers[k]

    def column(self, k: int) -> int:
        """Return the index in a batch of the k-th needed column."""
        return self.numbers[k] if self.positional else k

    def empty_batch(self, types: Sequence[Any]) -> pa.RecordBatch:
        """Return a batch without rows, given the types of the needed columns."""
        return self.batch([pa.nulls(0, kind) for kind in types], 0)

    def values(self, batch: pa.RecordBatch, row: int) -> dict[str, Any]:
        """Return the values of the needed columns of one row of a batch, by name."""
        return {str(self.key(k)): batch.column(self.column(k))[row].as_py() for k in range(len(self.numbers))}

    def batch(self, arrays: Sequence[Any], rows: int) -> pa.RecordBatch:
        """Return a batch of the needed columns, given in the order of `numbers`, for the schema to read."""
        if not self.positional:
            return pa.RecordBatch.from_arrays(list(arrays), [self.names[number] for number in self.numbers])
        array_of = dict(zip(self.numbers, arrays, strict=True))
        columns = [array_of[k] if k in array_of else pa.nulls(rows) for k in range(self.numbers[-1] + 1)]
        return pa.RecordBatch.from_arrays(columns, [self.names[k] or str(k) for k in range(len(columns))])


def resolve(schema: Schema, names: Sequence[str], label: str) -> Layout:
    """Find the columns that a schema needs in a file.

    Parameters
    ----------
    schema
        The schema of the stream.
    names
        Names of the columns of the file; empty strings if it has none.
    label
        Name of the file, for messages.

    Returns
    -------
    Layout
        Positions and dtypes of the needed columns.

    Raises
    ------
    SchemaError
        If a column is missing, occurs twice, or is declared with two dtypes.
    """
    needed: dict[int, str] = {}
    uses: dict[int, str] = {}

    def need(source: str | int, dtype: str, use: str) -> None:
        number = _number(source, names, label, use)
        declared = needed.setdefault(number, dtype)
        if declared == "time" and dtype in ("int64", "timestamp"):
            declared = dtype
        if declared != dtype:
            raise SchemaError(
                f"{label}: column {source!r} is declared as {declared} for {uses[number]} and as {dtype} for {use}; "
                "declare one of them, or store the column twice"
            )
        uses.setdefault(number, use)

    need(schema.time, "time", "the time")
    if schema.type is not None:
        need(schema.type, "string" if schema.codes is None else "int64", "the type")
    if schema.sequence is not None:
        need(schema.sequence, "int64", "the sequence number")
    for index, column in enumerate(schema.columns):
        need(column.source, column.dtype, _attribute(schema, index))
    numbers = tuple(sorted(needed))
    sources = [schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns)]
    return Layout(
        label,
        tuple(names),
        numbers,
        tuple(needed[number] for number in numbers),
        any(isinstance(source, int) for source in sources),
    )


def _number(source: str | int, names: Sequence[str], label: str, use: str) -> int:
    if isinstance(source, int):
        if source < len(names):
            return source
        raise SchemaError(
            f"{label}: no column number {source} for {use}: found {len(names)} columns, numbered from 0; "
            "give another number"
        )
    count = names.count(source)
    if count == 1:
        return names.index(source)
    if count:
        raise SchemaError(f"{label}: {count} columns are called {source!r} ({use}); give the column's number instead")
    close = difflib.get_close_matches(source, names, 1)
    hint = f"; did you mean {close[0]!r}? The" if close else "; the"
    if len(names) == 1 and (delimiter := next((mark for mark in ";\t|" if mark in names[0]), "")):
        raise SchemaError(
            f"{label}: no column {source!r} for {use}; the only column is {names[0][:80]!r}: give the delimiter, "
            f"which seems to be {delimiter!r} (--delimiter)"
        )
    name_list = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    raise SchemaError(
        f"{label}: no column {source!r} for {use}{hint} columns are: {name_list}; {missing_column(use, names)}"
    )


def _attribute(schema: Schema, index: int) -> str:
    for name in schema.type_names:
        for attribute in schema.attributes(name):
            if schema.column_of(name, attribute) == index:
                return f"{name}.{attribute}"
    return "an attribute"
