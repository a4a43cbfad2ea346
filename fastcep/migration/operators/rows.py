"""Read rows of a stream from Arrow tables: columns, types, nulls, order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import DataError, OrderError, SchemaError, ValidationError
from fastcep.events.units import NANOSECONDS
from fastcep.migration.states import Ints
from fastcep.option_checks import duration_option

__all__ = ["LONGEST", "Data", "RowFormat"]

Data = pa.Table | pa.RecordBatch

#: Largest absolute time and duration, in units of the time column; sums of a time and two durations fit int64.
LONGEST = 2**61


@dataclass(frozen=True)
class RowFormat:
    """Columns of a stream.

    Attributes
    ----------
    stream
        Name of the stream, to begin the messages of errors; empty if there is only one.
    schema
        The columns that an operator reads, without nested types.
    time
        Name of the time column: a timestamp, or int64 in `time_unit`.
    keys
        Names of the key columns, which have no nulls.
    time_unit
        Unit of times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
    """

    stream: str
    schema: pa.Schema
    time: str
    keys: tuple[str, ...]
    time_unit: str

    @classmethod
    def of(
        cls,
        stream: str,
        schema: pa.Schema,
        time: str,
        keys: Sequence[str],
        time_unit: str,
        others: Sequence[str] | None = None,
    ) -> RowFormat:
        """Check a format; `others` are the columns beside time and keys, by default all of the schema.

        Raises
        ------
        ValidationError
            If a column is missing or of a type that is not supported.
        """
        if not isinstance(schema, pa.Schema):
            raise ValidationError(f"{stream}schema: {type(schema).__name__}; expected a pyarrow.Schema")
        if isinstance(keys, str) or not all(isinstance(name, str) for name in keys):
            raise ValidationError(f"{stream}keys={keys!r}: expected a list of names of columns")
        if time_unit not in ("s", "ms", "us", "ns"):
            raise ValidationError(f"time_unit={time_unit!r}: expected s, ms, us or ns")
        if len(set(schema.names)) < len(schema.names):
            raise ValidationError(f"{stream}schema: a column occurs twice; rename one of them")
        names = [*dict.fromkeys([time, *keys, *(schema.names if others is None else others)])]
        for name in names:
            if name not in schema.names:
                raise ValidationError(f"{stream}schema has no column {name!r}; its columns are {_listed(schema.names)}")
        fields = [pa.field(name, _plain(stream, name, schema.field(name).type)) for name in names]
        unit = _unit(stream, time, fields[0].type, time_unit)
        for name, field in zip(names, fields, strict=True):
            if name in keys and pa.types.is_floating(field.type):
                raise ValidationError(f"{stream}key {name!r} has type {field.type}; use integers, texts or times")
        return cls(stream, pa.schema(fields), time, tuple(keys), unit)

    @property
    def time_type(self) -> pa.DataType:
        """Type of the time column."""
        time_type: pa.DataType = self.schema.field(self.time).type
        return time_type

    def duration(self, option: str, value: str | timedelta) -> int:
        """Return a duration in units of the time column; ValidationError if it is 0 or not a whole number of them."""
        units, rest = divmod(duration_option(option, value, positive=True), NANOSECONDS[self.time_unit])
        if rest:
            raise ValidationError(f"{option}={value!r}: expected a whole number of {self.time_unit}, the unit of times")
        if units > LONGEST:
            raise ValidationError(f"{option}={value!r}: expected at most {LONGEST:,} {self.time_unit}")
        return units

    def read(self, data: Data, last: int | None) -> tuple[pa.Table, Ints]:
        """Return the columns of a batch, and its times; the columns of the batch that the schema lacks are left out.

        Parameters
        ----------
        data
            The batch.
        last
            Largest time so far; None if there is none.

        Returns
        -------
        table, times
            The columns of the schema, in its order; int64[n], in units of the time column.

        Raises
        ------
        SchemaError
            If a column is missing or has another type.
        DataError
            If a time or key is null, or a time is out of range.
        OrderError
            If a row is earlier than one before it.
        """
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if not isinstance(data, pa.Table):
            raise ValidationError(f"{self.stream}rows: {type(data).__name__}; expected a pyarrow Table or RecordBatch")
        table = pa.table([self._column(data, field) for field in self.schema], schema=self.schema)
        for name in (self.time, *self.keys):
            if table[name].null_count:
                row = pc.index(table[name].is_valid(), pa.scalar(False)).as_py()
                raise DataError(f"{self.stream}row {row}, column {name!r}: found null, expected {table[name].type}")
        times = self.times(table)
        if len(times):
            self._check_times(times, last)
        return table, times

    def times(self, table: pa.Table) -> Ints:
        """Return the times of rows; int64[n]."""
        return np.asarray(table[self.time].cast(pa.int64()).to_numpy(), np.int64)

    def as_times(self, times: Ints) -> Any:
        """Return times as an Arrow array of the type of the time column."""
        return pa.array(times, pa.int64()).cast(self.time_type)

    def _column(self, data: pa.Table, field: Any) -> Any:
        count = data.schema.names.count(field.name)
        if count != 1:
            found = "no column" if count == 0 else f"{count} columns"
            raise SchemaError(f"{self.stream}rows have {found} {field.name!r}; expected one of type {field.type}")
        column = data[field.name]
        if pa.types.is_dictionary(column.type) and column.type.value_type == field.type:
            column = column.cast(field.type)
        if column.type != field.type:
            raise SchemaError(
                f"{self.stream}column {field.name!r} has type {column.type}; expected {field.type}; cast the column, "
                "or change the schema"
            )
        return column

    def _check_times(self, times: Ints, last: int | None) -> None:
        wrong = (times > LONGEST) | (times < -LONGEST)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self.stream}row {row}, column {self.time!r}: {times[row]} is out of range; expected at most "
                f"{LONGEST} {self.time_unit} before or after 1970"
            )
        before = np.concatenate([[times[0] if last is None else last], times[:-1]])
        late = times < before
        if late.any():
            row = int(np.argmax(late))
            raise OrderError(
                f"{self.stream}row {row} has time {times[row]}, earlier than {before[row]} before ({self.time_unit})",
                "sort the rows by time",
            )


def _plain(stream: str, name: str, dtype: pa.DataType) -> pa.DataType:
    """Return the type of a column without its dictionary; ValidationError for a type that is not supported."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    kinds = pa.types
    if (
        kinds.is_boolean(dtype) or kinds.is_integer(dtype) or kinds.is_floating(dtype) or kinds.is_decimal(dtype)
        or kinds.is_string(dtype) or kinds.is_large_string(dtype) or kinds.is_binary(dtype)
        or kinds.is_large_binary(dtype) or kinds.is_temporal(dtype)
    ):  # fmt: skip
        return dtype
    raise ValidationError(
        f"{stream}column {name!r} has type {dtype}; expected numbers, texts, bytes, booleans or times; leave it out of "
        "the schema, or cast it"
    )


def _unit(stream: str, time: str, dtype: Any, time_unit: str) -> str:
    if pa.types.is_timestamp(dtype):
        return str(dtype.unit)
    if dtype != pa.int64():
        raise ValidationError(f"{stream}time column {time!r} has type {dtype}; expected a timestamp or int64")
    return time_unit


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
