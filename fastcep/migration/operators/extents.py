"""Window extents: the partial aggregates of one key in one window, as rows of a table.

Columns of the table: ``k0``, ``k1``, … (keys), ``start`` (of the window, in units of the time column), ``rows`` (number
of rows so far), and for each aggregated column i ``n{i}`` (values that are not null), ``sum{i}``, ``min{i}``,
``max{i}``. Sums are added in the order of the rows, so they do not depend on how the stream is divided into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import DataError, ValidationError
from fastcep.migration.operators.rows import RowFormat
from fastcep.migration.states import Ints

__all__ = ["FUNCTIONS", "Aggregate", "ExtentFormat", "check_aggregates"]

#: Functions of aggregates.
FUNCTIONS = ("count", "sum", "min", "max", "mean")

#: Name of an aggregate in the output: its function and its column (None: all rows).
Aggregate = tuple[str, str | None]

_INT64_SUM = float(2**63)
_OPTIONS = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)


@dataclass(frozen=True)
class ExtentFormat:
    """Columns of window extents, and of the output.

    Attributes
    ----------
    rows
        The format of the input.
    window, slide
        Length and distance of windows, in units of the time column. A window begins at every multiple of `slide`.
    aggregates
        For each column of the output, its function and the column of the input.
    columns
        The aggregated columns.
    """

    rows: RowFormat
    window: int
    slide: int
    aggregates: Mapping[str, Aggregate]
    columns: tuple[str, ...]

    @property
    def keys(self) -> list[str]:
        """Names of the key columns of extents."""
        return [f"k{i}" for i in range(len(self.rows.keys))]

    @property
    def schema(self) -> pa.Schema:
        """Schema of extents."""
        fields = [
            pa.field(name, self.rows.schema.field(key).type)
            for name, key in zip(self.keys, self.rows.keys, strict=True)
        ]
        fields += [pa.field("start", pa.int64()), pa.field("rows", pa.int64())]
        for i, column in enumerate(self.columns):
            number = wide(self.rows.schema.field(column).type)
            fields.append(pa.field(f"n{i}", pa.int64()))
            fields += [pa.field(f"{function}{i}", number) for function in ("sum", "min", "max")]
        return pa.schema(fields)

    @property
    def windows_per_row(self) -> int:
        """Largest number of windows that contain one row."""
        return -(-self.window // self.slide)

    def of_rows(self, table: pa.Table, times: Ints) -> pa.Table:
        """Return one extent for each row and each window that contains it, in the order of the rows in a window."""
        last = times // self.slide * self.slide
        numbers, starts = [], []
        for back in range(self.windows_per_row):
            start = last - back * self.slide
            inside = np.flatnonzero(start + self.window > times)
            numbers.append(inside)
            starts.append(start[inside])
        index = np.concatenate(numbers)
        columns: list[Any] = [table[key].take(index) for key in self.rows.keys]
        columns += [pa.array(np.concatenate(starts)), pa.array(np.ones(len(index), np.int64))]
        for column in self.columns:
            values = _as_number(self.rows.stream, column, table[column]).take(index)
            columns += [values.is_valid().cast(pa.int64()), values, values, values]
        return pa.table(columns, schema=self.schema)

    def merge(self, stored: pa.Table, added: pa.Table) -> tuple[pa.Table, Any]:
        """Merge the extents of the same key and window.

        Returns
        -------
        extents, is_new
            The extents, in no particular order; for each, whether `stored` has none of this key and window.

        Raises
        ------
        DataError
            If a sum does not fit int64.
        """
        both = pa.concat_tables([stored, added])
        is_new = pa.array(np.repeat([0, 1], [stored.num_rows, added.num_rows]))
        wanted: list[Any] = [("rows", "sum"), ("is_new", "min")]
        for i, column in enumerate(self.columns):
            self._check_sum(column, both[f"sum{i}"])
            wanted += [(f"n{i}", "sum"), (f"sum{i}", "sum", _OPTIONS), (f"min{i}", "min"), (f"max{i}", "max")]
        groups = both.append_column("is_new", is_new).group_by([*self.keys, "start"], use_threads=False)
        merged = groups.aggregate(wanted)
        names = [field.name for field in self.schema]
        found = [merged[name if name in (*self.keys, "start") else f"{name}_{_function(name)}"] for name in names]
        return pa.table(found, schema=self.schema), pc.equal(merged["is_new_min"], pa.scalar(1, pa.int64()))

    def output(self, extents: pa.Table) -> pa.Table:
        """Return the aggregates of extents, by ascending start and keys."""
        return self.in_order(extents.sort_by([("start", "ascending"), *((key, "ascending") for key in self.keys)]))

    def in_order(self, extents: pa.Table) -> pa.Table:
        """Return the aggregates of extents, in their order."""
        starts = np.asarray(extents["start"].to_numpy(), np.int64)
        columns: list[Any] = [extents[name] for name in self.keys]
        columns += [self.rows.as_times(starts), self.rows.as_times(starts + self.window)]
        columns += [self._aggregate(extents, *aggregate) for aggregate in self.aggregates.values()]
        return pa.table(columns, schema=self.output_schema)

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of the output: keys, ``window_start``, ``window_end``, aggregates."""
        fields = [self.rows.schema.field(key) for key in self.rows.keys]
        fields += [pa.field(name, self.rows.time_type) for name in ("window_start", "window_end")]
        for name, (function, column) in self.aggregates.items():
            number = pa.int64() if column is None else wide(self.rows.schema.field(column).type)
            fields.append(pa.field(name, {"count": pa.int64(), "mean": pa.float64()}.get(function, number)))
        return pa.schema(fields)

    def _aggregate(self, extents: pa.Table, function: str, column: str | None) -> Any:
        if column is None:
            return extents["rows"]
        i = self.columns.index(column)
        if function == "count":
            return extents[f"n{i}"]
        if function == "mean":
            return pc.divide(extents[f"sum{i}"].cast(pa.float64(), safe=False), extents[f"n{i}"].cast(pa.float64()))
        return extents[f"{function}{i}"]

    def _check_sum(self, column: str, values: Any) -> None:
        """Raise a DataError if a sum of these integers could overflow."""
        if pa.types.is_integer(values.type):
            total = np.abs(values.drop_null().to_numpy().astype(np.float64)).sum()
            if total >= _INT64_SUM:
                raise DataError(
                    f"{self.rows.stream}column {column!r}: the sum of its values in the open windows does not fit "
                    "int64; cast it to float64, or scale it"
                )


def wide(dtype: Any) -> pa.DataType:
    """Return the type in which values of a numeric type are aggregated."""
    return pa.int64() if pa.types.is_integer(dtype) else pa.float64()


def check_aggregates(aggregates: Mapping[str, Any]) -> dict[str, Aggregate]:
    """Return aggregates with function and column; ``"count"`` is short for ``("count", None)``.

    Raises
    ------
    ValidationError
        If there are none, or one is of another form.
    """
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise ValidationError(f'aggregates={aggregates!r}: expected a mapping such as {{"total": ("sum", "price")}}')
    checked: dict[str, Aggregate] = {}
    for name, value in aggregates.items():
        pair = (value, None) if isinstance(value, str) else tuple(value) if isinstance(value, tuple | list) else ()
        valid = len(pair) == 2 and isinstance(name, str) and pair[0] in FUNCTIONS
        if not valid or not (isinstance(pair[1], str) or pair == ("count", None)):
            raise ValidationError(
                f'aggregates: {name!r} is {value!r}; expected "count", or a pair of {", ".join(FUNCTIONS)} and a column'
            )
        checked[name] = (pair[0], pair[1])
    return checked


def _as_number(stream: str, name: str, column: Any) -> Any:
    try:
        return column.cast(wide(column.type))
    except pa.ArrowInvalid as error:
        raise DataError(f"{stream}column {name!r}: {error}; expected values that fit int64") from None


def _function(name: str) -> str:
    """Return the function that merges a column of extents."""
    return name[:3] if name[:3] in ("min", "max") else "sum"
