"""Which columns of a file a schema needs, and where they stand."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastcep.errors import SchemaError
from fastcep.events import Schema

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
        Ascending 0-based numbers of the needed ones.
    dtypes
        For each of these ``"int64"``, ``"float64"``, ``"bool"``, ``"string"`` or ``"time"``.
    positional
        True if the schema gives some column by number: batches then have every column up to the last needed one,
        those not needed being of type null.
    """

    label: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    dtypes: tuple[str, ...]
    positional: bool

    @property
    def time(self) -> int:
        """Index of the time column among the needed ones."""
        return self.dtypes.index("time")

    def key(self, k: int) -> str | int:
        """Return how messages call the k-th needed column: its name, or its number if it has none."""
        return self.names[self.numbers[k]] or self.numbers[k]

    def column(self, k: int) -> int:
        """Return where the k-th needed column stands in a batch."""
        return self.numbers[k] if self.positional else k

    def empty(self, types: Sequence[Any]) -> pa.RecordBatch:
        """Return a batch without rows, the needed columns being of the given types."""
        return self.place([pa.nulls(0, kind) for kind in types], 0)

    def values(self, batch: pa.RecordBatch, row: int) -> dict[str, Any]:
        """Return the values of the needed columns of one row of a batch, by name."""
        return {str(self.key(k)): batch.column(self.column(k))[row].as_py() for k in range(len(self.numbers))}

    def place(self, arrays: Sequence[Any], rows: int) -> pa.RecordBatch:
        """Return the needed columns (in the order of `numbers`) as a batch in which the schema finds them."""
        if not self.positional:
            return pa.RecordBatch.from_arrays(list(arrays), [self.names[number] for number in self.numbers])
        known = dict(zip(self.numbers, arrays, strict=True))
        columns = [known[k] if k in known else pa.nulls(rows) for k in range(self.numbers[-1] + 1)]
        return pa.RecordBatch.from_arrays(columns, [self.names[k] or str(k) for k in range(len(columns))])


def resolve(schema: Schema, names: Sequence[str], label: str) -> Layout:
    """Find the columns that a schema needs in a file.

    Parameters
    ----------
    schema
        The schema of the stream.
    names
        Names of the file's columns; empty strings if it has none.
    label
        Name of the file, for messages.

    Returns
    -------
    Layout
        Where they are and what they hold.

    Raises
    ------
    SchemaError
        If a column is missing or occurs twice, or is declared with two types.
    """
    needed: dict[int, str] = {}
    uses: dict[int, str] = {}

    def need(source: str | int, dtype: str, use: str) -> None:
        number = _number(source, names, label, use)
        before = needed.setdefault(number, dtype)
        if before == "time" and dtype == "int64":
            before = dtype
        if before != dtype:
            raise SchemaError(
                f"{label}: column {source!r} is declared as {before} for {uses[number]} and as {dtype} for {use}; "
                "declare one of them, or write the column twice"
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
    found = names.count(source)
    if found == 1:
        return names.index(source)
    if found:
        raise SchemaError(f"{label}: {found} columns are called {source!r} ({use}); give the column's number instead")
    near = difflib.get_close_matches(source, names, 1)
    hint = f"; did you mean {near[0]!r}? The" if near else "; the"
    if len(names) == 1 and (mark := next((mark for mark in ";\t|" if mark in names[0]), "")):
        raise SchemaError(
            f"{label}: no column {source!r} for {use}; the only column is {names[0][:80]!r}: give the delimiter, "
            f"which seems to be {mark!r} (--delimiter)"
        )
    listed = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    raise SchemaError(f"{label}: no column {source!r} for {use}{hint} columns are: {listed}")


def _attribute(schema: Schema, index: int) -> str:
    for name in schema.type_names:
        for attribute in schema.attributes(name):
            if schema.column_of(name, attribute) == index:
                return f"{name}.{attribute}"
    return "an attribute"
