"""Types of Spark for the columns of matches; Spark's timestamps have microseconds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastcep.events.types import TIMESTAMP

__all__ = ["exact_type", "spark_type", "to_spark"]

_MICROSECONDS = pa.timestamp("us", "UTC")


def spark_type(kind: Any) -> Any:
    """Return the type of Spark for a column of matches of an Arrow type."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_large_list(kind):
        return pa.list_(spark_type(kind.value_type))
    return _MICROSECONDS if pa.types.is_timestamp(kind) else kind


def exact_type(kind: Any) -> Any:
    """Return the type of Spark that keeps times exact: int64 nanoseconds. Arrow casts it back to `kind`."""
    if pa.types.is_large_list(kind):
        return pa.list_(exact_type(kind.value_type))
    return pa.int64() if kind == TIMESTAMP else spark_type(kind)


def to_spark(column: Any, kind: Any) -> Any:
    """Cast a column of matches to its type of Spark; times are rounded down to microseconds.

    Parameters
    ----------
    column
        Array or chunked array. Lists must not be null.
    kind
        Result of `spark_type` or `exact_type` for its type.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.cast(_rounded(column) if _has_microseconds(kind) else column, kind)


def _has_microseconds(kind: Any) -> bool:
    return bool(kind == _MICROSECONDS or (pa.types.is_list(kind) and kind.value_type == _MICROSECONDS))


def _rounded(array: Any) -> Any:
    if pa.types.is_timestamp(array.type):
        return pc.cast(pc.floor_temporal(array, unit="microsecond"), _MICROSECONDS)
    return pa.LargeListArray.from_arrays(array.offsets, _rounded(array.values))
