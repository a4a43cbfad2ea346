"""Columnar batches of events, read from any Arrow data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.errors import SchemaError, ValidationError
from fastcep.events.convert import (
    Fault,
    Place,
    from_numpy,
    int64_values,
    integers,
    joined,
    number_column,
    texts,
    time_column,
    timestamp_column,
)
from fastcep.events.data_hints import missing_column, no_columns, no_values
from fastcep.events.hints import suggestion
from fastcep.events.schema import Schema
from fastcep.events.strings import StringTable
from fastcep.events.types import is_known

__all__ = ["NO_TABLE", "EventBatch", "as_table", "no_table", "plain_table", "read"]

_UNKNOWN = 2**16 - 1  # above every type id


class Encoder(Protocol):
    """An object that maps strings to codes, such as a `StringTable`."""

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
        """Return the codes and nulls of a column, as `StringTable.encode` does."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events in columns. All arrays have n rows and are C-contiguous.

    Parameters
    ----------
    schema
        Schema of the events.
    time
        int64[n], nanoseconds since the epoch.
    type
        uint16[n], the type id: an index into ``schema.type_names``.
    sequence
        int64[n], sequence numbers; None if the engine assigns them.
    columns
        One array for each entry of ``schema.columns``: float64[n], or int64[n] for int64, bool (0 or 1) and string
        (code).
    nulls
        One array for each entry of ``schema.columns``: uint8[n] with 1 = null (the value is then 0), or None if the
        column has no null.
    rows
        int64[n], row number of each event in the data that was read, counted from its first row; None if every row
        became an event.
    """

    schema: Schema
    time: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint16]
    sequence: npt.NDArray[np.int64] | None
    columns: tuple[npt.NDArray[Any], ...]
    nulls: tuple[npt.NDArray[np.uint8] | None, ...]
    rows: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def from_data(
        cls,
        schema: Schema,
        data: Any,
        strings: StringTable,
        origin: str = "batch",
        first_row: int = 0,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> EventBatch:
        """Read a batch. Columns of int64 and float64 without nulls, stored in one chunk, are views of the data.

        Parameters
        ----------
        schema
            Names the columns to read; others are ignored.
        data
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or a mapping of names to arrays or lists.
        strings
            Table that assigns codes to the values of string columns.
        origin, first_row
            Name of the input and number of its first row, for messages.
        rows
            int64[n], number of each row relative to `first_row`, for messages; None: 0, 1, 2, ….

        Raises
        ------
        ValidationError
            `data` has another type.
        SchemaError
            A column is missing, occurs twice, or has the wrong type.
        DataError
            A time, type or sequence number is null, a type is not declared, or a number is out of range.
        """
        return read(schema, data, strings, origin, first_row, rows=rows)[0]

    @classmethod
    def concat(cls, batches: Sequence[EventBatch]) -> EventBatch:
        """Concatenate one or more batches of the same schema into a new one."""
        first = batches[0]

        def concatenated(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.concatenate(arrays)

        def null_flags(column: int) -> npt.NDArray[np.uint8] | None:
            arrays = [batch.nulls[column] for batch in batches]
            if all(array is None for array in arrays):
                return None
            zeros = [np.zeros(len(batch), np.uint8) for batch in batches]
            return concatenated([zeros[k] if array is None else array for k, array in enumerate(arrays)])

        sequences = [batch.sequence for batch in batches if batch.sequence is not None]
        return cls(
            first.schema,
            concatenated([batch.time for batch in batches]),
            concatenated([batch.type for batch in batches]),
            concatenated(sequences) if len(sequences) == len(batches) else None,
            tuple(concatenated([batch.columns[column] for batch in batches]) for column in range(len(first.columns))),
            tuple(null_flags(column) for column in range(len(first.nulls))),
        )

    @property
    def nbytes(self) -> int:
        """Size of all arrays, in bytes."""
        arrays = (self.time, self.type, self.sequence, *self.columns, *self.nulls)
        return sum(array.nbytes for array in arrays if array is not None)

    def mark_codes(self, marks: npt.NDArray[np.uint8]) -> None:
        """Set ``marks[c]`` for every string code c of the events."""
        for column, values in zip(self.schema.columns, self.columns, strict=True):
            if column.dtype == "string":
                marks[values] = 1

    def row(self, index: int) -> int:
        """Return the row number, relative to the first row, that the event at `index` was read from."""
        return index if self.rows is None else int(self.rows[index])

    def first_disorder(self) -> int | None:
        """Return the index of the first event that is out of time or sequence order, None if all are in order."""
        wrong = self.time[1:] < self.time[:-1]
        if self.sequence is not None:
            wrong |= self.sequence[1:] <= self.sequence[:-1]
        return int(np.argmax(wrong)) + 1 if wrong.any() else None

    def slice(self, start: int, stop: int) -> EventBatch:
        """Return the events ``start:stop``, as in a Python slice, as views."""
        return self._pick(slice(start, stop))

    def take(self, indices: npt.NDArray[np.int64]) -> EventBatch:
        """Return copies of the events at `indices`, in that order."""
        return self._pick(indices)

    def _pick(self, rows: Any) -> EventBatch:
        return EventBatch(
            self.schema,
            self.time[rows],
            self.type[rows],
            None if self.sequence is None else self.sequence[rows],
            tuple(values[rows] for values in self.columns),
            tuple(None if missing is None else missing[rows] for missing in self.nulls),
        )


def read(
    schema: Schema,
    data: Any,
    strings: Encoder,
    origin: str = "batch",
    first_row: int = 0,
    faults: list[Fault] | None = None,
    rows: npt.NDArray[np.int64] | None = None,
) -> tuple[EventBatch, npt.NDArray[np.bool_] | None]:
    """Read a batch like `EventBatch.from_data`. Given a list `faults`, append invalid rows to it instead of raising.

    Returns
    -------
    batch, keep
        The events, with arbitrary values in invalid rows; bool[rows], false where the type is ignored, or None if all
        rows are kept.
    """
    table = as_table(data, origin)
    if rows is not None and len(rows) != len(table):
        raise ValidationError(f"{origin}: found {len(rows)} row numbers for {len(table)} rows; give each row one")

    def row_of(index: int) -> int:
        return first_row + (index if rows is None else int(rows[index]))

    def column_of(source: str | int, needed_for: str, role: str) -> tuple[Any, Place]:
        column = _column(table, source, needed_for, origin)
        place = Place(origin, source, row_of, faults)
        place.check_type(column.type, role, schema.time_unit)
        return joined(column.chunks, column.type), place

    types = None
    keep: npt.NDArray[np.bool_] | None = None
    if schema.type is not None:
        types = _type_ids(schema, *column_of(schema.type, "type", "type" if schema.codes is None else "code"))
        if schema.other_types == "ignore" and (types == _UNKNOWN).any():
            keep = types != _UNKNOWN
            types = types[keep]
    mask: Any = None if keep is None else pa.array(keep)

    if keep is not None:  # from here on, the argument of row_of counts events
        rows = np.flatnonzero(keep) if rows is None else rows[keep]

    def kept_column_of(source: str | int, needed_for: str, role: str) -> tuple[Any, Place]:
        array, place = column_of(source, needed_for, role)
        return (array if mask is None else array.filter(mask)), place

    array, place = kept_column_of(schema.time, "time", "time")
    time = time_column(array, schema.time_unit, schema.time_zone, place)
    sequence = None
    if schema.sequence is not None:
        sequence = _sequence(*kept_column_of(schema.sequence, "sequence", "sequence"))
    columns: list[npt.NDArray[Any]] = []
    nulls: list[npt.NDArray[np.uint8] | None] = []
    for index, column in enumerate(schema.columns):
        array, place = kept_column_of(column.source, _attribute(schema, index), column.dtype)
        if column.dtype == "string" and not pa.types.is_null(array.type):
            values, missing = strings.encode(array)
        elif column.dtype == "timestamp":
            values, missing = timestamp_column(array, schema.time_unit, schema.time_zone, place)
        else:
            values, missing = number_column(array, column.dtype, place)
        columns.append(values)
        nulls.append(missing)
    if types is None:
        types = np.zeros(len(time), dtype=np.uint16)
    return EventBatch(schema, time, types, sequence, tuple(columns), tuple(nulls), rows), keep


#: Exceptions that libraries raise for columns without a matching Arrow type.
NO_TABLE = (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)


def no_table(data: Any, origin: str, error: Exception) -> ValidationError:
    """Return the error for an object whose columns have no Arrow type."""
    reason = " ".join(str(error).split())
    return ValidationError(
        f"{origin}: {type(data).__name__} cannot be read as an Arrow table ({reason}); expected columns of types that "
        "pyarrow has: cast the others, such as 128-bit integers, or leave them out"
    )


def as_table(data: Any, origin: str) -> pa.Table:
    """Convert an object that holds columns to a table; ValidationError if it holds none."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if callable(getattr(data, "to_table", None)) and isinstance(getattr(data, "schema", None), pa.Schema):
        table: pa.Table = data.to_table()  # a pyarrow data set
        return table
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except NO_TABLE as error:
        raise no_table(data, origin, error) from error
    if not isinstance(data, Mapping):
        raise ValidationError(
            f"{origin}: cannot read events from {type(data).__name__}; expected Arrow data "
            f"(pyarrow, polars, pandas, duckdb) or a mapping of column names to arrays or lists; {no_columns(data)}"
        )
    arrays = [_array(name, values, origin) for name, values in data.items()]
    names = [str(name) for name in data]
    for name, array in zip(names, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise SchemaError(
                f"{origin}, column {name!r}: found {len(array)} rows, expected {len(arrays[0])} as in {names[0]!r}; "
                "give all columns the same length"
            )
    return pa.Table.from_arrays(arrays, names=names)


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table with decoded columns in one chunk each; a column of a type that no role takes becomes null."""
    columns = [
        joined(column.chunks, column.type) if is_known(column.type) else pa.nulls(len(table))
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _array(name: object, values: Any, origin: str) -> Any:
    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype in (np.int64, np.float64):
        return from_numpy(np.ascontiguousarray(values), pa.int64() if values.dtype == np.int64 else pa.float64())
    try:
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"{origin}, column {name!r}: found {type(values).__name__}, which is not a column ({error}); "
            f"expected one-dimensional values of one type; {no_values(values)}"
        ) from error


def _column(table: pa.Table, source: str | int, needed_for: str, origin: str) -> Any:
    """Return a column as a chunked array."""
    names = table.column_names
    if isinstance(source, int):
        index = source
        if index >= len(names):
            raise SchemaError(
                f"{origin}: no column {index} (for {needed_for}), found {len(names)} columns from 0; give the schema "
                "another number"
            )
    else:
        indices = table.schema.get_all_field_indices(source)
        if not indices:
            raise SchemaError(
                f"{origin}: no column {source!r} (for {needed_for}){missing_column(source, needed_for, names)}"
            )
        if len(indices) > 1:
            raise SchemaError(f"{origin}: {len(indices)} columns are called {source!r}; rename one, or give a number")
        index = indices[0]
    return table.column(index)


def _attribute(schema: Schema, column: int) -> str:
    """Return the first attribute that a column holds, as ``Type.attribute``."""
    return next(
        f"{name}.{attribute}"
        for name in schema.type_names
        for attribute in schema.attributes(name)
        if schema.column_of(name, attribute) == column
    )


def _sequence(array: Any, place: Place) -> npt.NDArray[np.int64]:
    place.refuse_nulls(array, "a sequence number", "drop the row or fill it in")
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64)
    return integers(array, place)


def _type_ids(schema: Schema, array: Any, place: Place) -> npt.NDArray[np.uint16]:
    """Return uint16[n] type ids, `_UNKNOWN` for undeclared types that the schema ignores."""
    missing = place.refuse_nulls(array, "an event type", "drop the row")
    if pa.types.is_null(array.type):
        return np.full(len(array), _UNKNOWN, dtype=np.uint16)
    if schema.codes is None:
        ids = _ids_of_names(schema, array)
    else:
        ids = _ids_of_codes([schema.codes[name] for name in schema.type_names], integers(array, place))
    unknown = ids == _UNKNOWN
    if missing is not None:
        ids[missing != 0] = _UNKNOWN
        unknown &= missing == 0
    if schema.other_types == "error" and unknown.any():
        declared = schema.type_names if schema.codes is None else sorted(schema.codes.values())
        place.refuse(
            unknown, lambda index: f"undeclared event type {array[index].as_py()!r}", "a declared one",
            lambda index: f'declare it or set other_types="ignore"{_declared(array[index].as_py(), declared)}',
        )  # fmt: skip
    return ids


def _declared(name: object, declared: Sequence[object]) -> str:
    return suggestion(name, declared).replace("; there is", "; declared are").removesuffix("; choose one of them")


def _ids_of_names(schema: Schema, array: Any) -> npt.NDArray[np.uint16]:
    if not isinstance(array, pa.DictionaryArray):
        return schema.type_ids(*texts(array))
    ids: dict[Any, int] = {name: i for i, name in enumerate(schema.type_names)}
    entries = np.array([ids.get(text, _UNKNOWN) for text in array.dictionary.to_pylist()] or [_UNKNOWN], np.uint16)
    return entries.take(int64_values(array.indices))


def _ids_of_codes(codes: list[int], values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    order = np.argsort(np.array(codes, dtype=np.int64), kind="stable")
    sorted_codes = np.array(codes, dtype=np.int64)[order]
    low, high = int(sorted_codes[0]), int(sorted_codes[-1])
    if high - low < 2**16:  # a look-up table is several times faster than a search
        ids = np.full(high - low + 2, _UNKNOWN, dtype=np.uint16)
        ids[sorted_codes - low] = order
        inside = (values >= low) & (values <= high)
        return ids.take(np.where(inside, values - low, len(ids) - 1))
    at = np.searchsorted(sorted_codes, values).clip(max=len(sorted_codes) - 1)
    type_ids: npt.NDArray[np.int64] = np.where(sorted_codes[at] == values, order[at], _UNKNOWN)
    return type_ids.astype(np.uint16)
