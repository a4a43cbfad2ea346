"""Read columns of CSV files of public data."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pv

from fastcep.errors import DataError

__all__ = ["SIRI", "AnyPath", "Ints", "Types", "check_order", "first_line", "integers", "read_columns"]

Types = dict[str, pa.DataType]
AnyPath = str | PathLike[str]
Ints = npt.NDArray[np.int64]

#: Columns of the reports of buses in Dublin.
SIRI = [
    "timestamp", "lineID", "direction", "journeyPatternID", "timeframe", "vehicleJourneyID", "operator", "congestion",
    "lon", "lat", "delay", "blockID", "vehicleID", "stopID", "atStop",
]  # fmt: skip


def integers(column: Any) -> Ints:
    """Return a column of integers or times as int64[n]."""
    return np.asarray(column.cast(pa.int64()).to_numpy())


def check_order(path: AnyPath, time: Ints) -> None:
    """Raise a DataError if a time is earlier than the one before."""
    earlier = np.flatnonzero(np.diff(time) < 0)
    if len(earlier):
        raise DataError(f"{fspath(path)!r}: row {earlier[0] + 1} is earlier than the one before; sort the file by time")


def first_line(path: AnyPath) -> str:
    """Return the first line of a file, without quotes at its ends; DataError if it cannot be read."""
    try:
        with pa.input_stream(fspath(path)) as stream:
            return bytes(stream.read(4_096)).split(b"\n")[0].decode(errors="replace").strip('"')
    except OSError as error:
        raise DataError(f"{fspath(path)!r} cannot be read ({error}); check the path") from error


def read_columns(
    path: AnyPath, types: Types, names: list[str] | None = None, optional: tuple[str, ...] = ("stopID",)
) -> pa.Table:
    """Read columns of a CSV file, without nulls except in ``optional``.

    Parameters
    ----------
    path
        The file, optionally gzipped.
    types
        Names and types of the columns.
    names
        The names of all columns, if the file has no header.
    optional
        Columns that may be empty.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column, or a value is missing or of another type.
    """
    first_line(path)  # raises the same error for a wrong path everywhere
    convert = pv.ConvertOptions(column_types=types, include_columns=list(types), null_values=["", "null"])
    try:
        table = pv.read_csv(path, read_options=pv.ReadOptions(column_names=names), convert_options=convert)
    except (pa.ArrowInvalid, KeyError) as error:
        raise DataError(f"{fspath(path)!r}: {error}; expected CSV with the columns {', '.join(types)}") from error
    for name in types:
        if table[name].null_count and name not in optional:
            row = table[name].is_valid().index(False).as_py()
            raise DataError(f"{fspath(path)!r}: row {row}, column {name!r} is empty, expected {types[name]}")
    return table
