"""Convert Arrow columns to NumPy arrays: as views if possible, otherwise by lossless widening."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import DataError, SchemaError
from fastcep.events.data_hints import event_remedy, spark_remedy
from fastcep.events.origin import at_row
from fastcep.events.types import is_text, plain_type, refusal
from fastcep.events.units import INT64_MAX, INT64_MIN, NANOSECONDS

__all__ = [
    "Fault",
    "Place",
    "all_null",
    "from_numpy",
    "int64_values",
    "integers",
    "joined",
    "null_bytes",
    "number_column",
    "plain",
    "texts",
    "time_column",
    "timestamp_column",
]  # fmt: skip

Int64s = npt.NDArray[np.int64]
Nulls = npt.NDArray[np.uint8] | None

_INT64, _FLOAT64 = pa.int64(), pa.float64()

#: Length up to which it takes less time to allocate an array of nulls than to wrap another one.
_SHORT = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid row: its number in the input, the column at fault, the reason and the remedy."""

    row: int
    column: str | int
    found: str
    expected: str
    remedy: str

    def error(self, origin: str) -> DataError:
        """Return the error for this row."""
        return DataError(
            f"{at_row(origin, self.row)}, column {self.column!r}: found {self.found}, expected {self.expected}; "
            f"{self.remedy}"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a column, for messages: the origin, the column, and the input row of each of its rows.

    Given a list of `faults`, the methods append invalid rows to it instead of raising an error.
    """

    origin: str
    column: str | int
    row_of: Callable[[int], int]
    faults: list[Fault] | None = None

    def refuse(
        self, flags: Any, found: Callable[[int], str], expected: str, remedy: str | Callable[[int], str]
    ) -> None:
        """Reject the rows whose flag is not 0: append all to the list of faults, or raise DataError on the first."""
        for index in np.flatnonzero(flags).tolist():
            remedy_text = remedy if isinstance(remedy, str) else remedy(index)
            fault = Fault(self.row_of(index), self.column, found(index), expected, remedy_text)
            if self.faults is None:
                raise fault.error(self.origin)
            self.faults.append(fault)

    def refuse_nulls(self, array: Any, expected: str, remedy: str) -> Nulls:
        """Reject the rows that are null; return uint8[n] with 1 = null, or None."""
        nulls = null_bytes(array)
        if nulls is not None:
            self.refuse(nulls, lambda index: "null", expected, remedy)
        return nulls

    def check_type(self, kind: Any, role: str, unit: str = "ns") -> None:
        """Raise SchemaError if the role of a column does not take its Arrow type; see `refusal`."""
        if (reason := refusal(kind, role, unit)) is not None:
            expected, remedy = reason
            if self.origin == "event":
                remedy = event_remedy(role, remedy)
            elif self.origin == "DataFrame":
                remedy = spark_remedy(role, self.column, remedy)
            raise SchemaError(f"{self.origin}, column {self.column!r}: found {kind}, expected {expected}; {remedy}")


def plain(array: Any) -> Any:
    """Decode an array, of a type that some role takes, to a type that the readers handle.

    Decodes run ends, extension types, string views, dictionaries of anything but text, and dictionaries with null
    entries.
    """
    if isinstance(array, pa.RunEndEncodedArray):
        ends = array.run_ends.to_numpy()
        runs = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), "right")
        return plain(array.values).take(from_numpy(runs))  # Arrow cannot decode runs of views and of dictionaries
    if isinstance(array, pa.ExtensionArray):
        bits = isinstance(array.type, pa.Bool8Type)
        return array.storage.cast(pa.bool_()) if bits else plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        entries = plain(array.dictionary)
        if is_text(entries.type) and not entries.null_count and not isinstance(entries, pa.DictionaryArray):
            unchanged = entries.type == array.type.value_type
            return array if unchanged else pa.DictionaryArray.from_arrays(array.indices, entries)
        return entries.take(array.indices)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())  # Arrow can neither filter nor take views
    return array


def joined(arrays: Sequence[Any], kind: Any) -> Any:
    """Decode arrays as `plain` does, and concatenate them. A single array is not copied."""
    chunks = [plain(array) for array in arrays]
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return plain(pa.nulls(0, plain_type(kind)))
    if all(isinstance(chunk, pa.DictionaryArray) for chunk in chunks):
        chunks = [  # with indices wide enough for the entries of all dictionaries
            pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int64()), chunk.dictionary) for chunk in chunks
        ]
    else:
        chunks = [chunk.dictionary_decode() if isinstance(chunk, pa.DictionaryArray) else chunk for chunk in chunks]
    array: Any = pa.chunked_array(chunks).combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # Arrow does not combine strings of more than 2 GiB
        array = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in array.chunks])
    return array


def from_numpy(values: npt.NDArray[Any], kind: Any = None, nulls: npt.NDArray[Any] | None = None) -> Any:
    """Wrap a contiguous NumPy array as an Arrow array (``pa.array`` would copy it, and import pandas).

    Parameters
    ----------
    values
        Array of a fixed-width dtype; bool is copied, packed into bits.
    kind
        Arrow type of the same width; None derives int64, float64 or bool from the dtype of `values`.
    nulls
        uint8[n] or bool[n], true = null; None = no null.
    """
    data: Any = values  # the stubs do not declare arrays as buffers
    if values.dtype.char == "?":
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    elif kind is None:
        kind = _FLOAT64 if values.dtype.char == "d" else _INT64
    validity = None
    if nulls is not None and nulls.any():
        bits: Any = np.packbits(nulls == 0, bitorder="little")
        validity = pa.py_buffer(bits)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def all_null(values: npt.NDArray[np.int64]) -> Any:
    """Return an int64 array of nulls; if it is long, it shares the memory of `values`."""
    if len(values) <= _SHORT:
        return pa.nulls(len(values), pa.int64())
    bits: Any = np.zeros((len(values) + 7) // 8, np.uint8)
    data: Any = values
    buffers: Any = [pa.py_buffer(bits), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.int64(), len(values), buffers, null_count=len(values))


def from_lengths(lengths: npt.NDArray[np.int64], values: Any) -> Any:
    """Return a large_list array whose k-th list holds the next ``lengths[k]`` entries of the Arrow array `values`."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeListArray.from_arrays(from_numpy(offsets), values)


def from_texts(texts: Sequence[str]) -> Any:
    """Return a string array (without ``pa.array``, which imports pandas)."""
    encoded = [text.encode() for text in texts]
    offsets: Any = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(entry) for entry in encoded], out=offsets[1:])
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, pa.py_buffer(offsets), data])


def texts(array: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """View a string or large_string array as int32 or int64[n + 1] offsets into uint8[...] of UTF-8."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(len(array) + 1, width), np.zeros(0, np.uint8)
    view = np.frombuffer(offsets, width, len(array) + 1, array.offset * np.dtype(width).itemsize)
    return np.require(view, requirements="A"), np.frombuffer(data or b"", np.uint8)


def _buffer(array: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View the values of a fixed-width array, read-only. Values under nulls are undefined."""
    size = np.dtype(dtype).itemsize
    data = array.buffers()[1]
    if len(array) == 0 or data is None:
        return np.zeros(len(array), dtype=dtype)
    view = np.frombuffer(data, dtype=dtype, count=len(array), offset=array.offset * size)
    return np.require(view, requirements="A")


def _bits(bitmap: Any, array: Any) -> npt.NDArray[np.uint8]:
    start = array.offset // 8
    stop = (array.offset + len(array) + 7) // 8
    packed = np.frombuffer(bitmap, dtype=np.uint8, count=stop - start, offset=start)
    bits = np.unpackbits(packed, bitorder="little")
    skip = array.offset - 8 * start
    return bits[skip : skip + len(array)]


def null_bytes(array: Any) -> Nulls:
    """Return uint8[n] with 1 = null, or None if nothing is null."""
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:  # an array of type null
        return np.ones(len(array), dtype=np.uint8)
    return _bits(bitmap, array) ^ np.uint8(1)


def _cleared(values: npt.NDArray[Any], nulls: Nulls) -> npt.NDArray[Any]:
    if nulls is None:
        return np.ascontiguousarray(values)
    values = values.copy()
    values[nulls != 0] = 0
    return values


def _width(kind: Any) -> npt.DTypeLike:
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")


def int64_values(array: Any, place: Place | None = None) -> Int64s:
    """Widen an integer array to int64[n], with 0 under nulls. An int64 array without nulls is viewed, not copied.

    Raises
    ------
    DataError
        A uint64 value does not fit int64.
    """
    values = _cleared(_buffer(array, _width(array.type)), null_bytes(array))
    if values.dtype == np.uint64 and place is not None and len(values) and values.max() > INT64_MAX:
        unsigned = values
        place.refuse(
            values > INT64_MAX, lambda index: str(unsigned[index]), f"at most {INT64_MAX}",
            "declare float64 or scale it",
        )  # fmt: skip
    return values.astype(np.int64, copy=False)


def number_column(array: Any, dtype: str, place: Place) -> tuple[npt.NDArray[Any], Nulls]:
    """Convert the column of an int64, float64 or bool attribute. Its Arrow type must be one that `dtype` takes.

    Returns
    -------
    values, nulls
        int64[n] or float64[n], 0 under a null; uint8[n] with 1 = null, or None.

    Raises
    ------
    DataError
        An integer does not fit int64, or a decimal for int64 has a fraction.
    """
    kind = array.type
    nulls = null_bytes(array)
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.float64 if dtype == "float64" else np.int64), nulls
    if dtype == "bool":
        bits = np.zeros(0, dtype=np.uint8) if len(array) == 0 else _bits(array.buffers()[1], array)
        return _cleared(bits.astype(np.int64), nulls), nulls
    if dtype == "int64":
        return integers(array, place), nulls
    if pa.types.is_float64(kind):
        return _cleared(_buffer(array, np.float64), nulls), nulls
    if pa.types.is_decimal(kind):
        digits = array.cast(pa.string())  # rounds correctly; Arrow's own cast is off by one bit for some values
        return _cleared(_buffer(digits.cast(pa.float64()), np.float64), nulls), nulls
    width = f"f{kind.bit_width // 8}" if pa.types.is_floating(kind) else _width(kind)
    return _cleared(_buffer(array, width).astype(np.float64), nulls), nulls


def integers(array: Any, place: Place) -> Int64s:
    """Convert integers, or decimals without a fraction, to int64[n]; 0 under a null.

    Raises
    ------
    DataError
        A value does not fit int64, or has a fraction.
    """
    return int64_values(_whole_numbers(array, place) if pa.types.is_decimal(array.type) else array, place)


def _whole_numbers(array: Any, place: Place) -> Any:
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        values = array.to_pylist()
    valid = [value is None or (value == int(value) and INT64_MIN <= int(value) <= INT64_MAX) for value in values]
    invalid = ~np.array(valid)
    place.refuse(invalid, lambda index: str(values[index]), "a whole number that fits int64", "declare float64")
    return pc.if_else(from_numpy(~invalid), array, pa.scalar(None, array.type)).cast(pa.int64())


def time_column(array: Any, unit: str, zone: str | None, place: Place) -> Int64s:
    """Convert the time column to int64[n] nanoseconds since the epoch.

    Parameters
    ----------
    array
        Integers or decimals in `unit`, timestamps (which have a unit of their own) or dates.
    unit
        A key of `NANOSECONDS`.
    zone
        Time zone of timestamps without one; None is UTC. A time in an hour that a clock change repeats means its first
        occurrence; a time in an hour that it skips means the moment of the change.
    place
        Position of the column, for messages.

    Raises
    ------
    DataError
        A time is null or does not fit int64 nanoseconds.
    """
    place.refuse_nulls(array, "a time", "drop the row or fill it in")
    return timestamp_column(array, unit, zone, place)[0]


def timestamp_column(array: Any, unit: str, zone: str | None, place: Place) -> tuple[Int64s, Nulls]:
    """Convert times that may be null, as `time_column` does.

    Returns
    -------
    values, nulls
        int64[n] nanoseconds, 0 under a null; uint8[n] with 1 = null, or None.
    """
    nulls = null_bytes(array)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64), nulls
    return _nanoseconds_of(array, unit, zone, place, nulls), nulls


def _nanoseconds_of(array: Any, unit: str, zone: str | None, place: Place, nulls: Nulls) -> Int64s:
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _scaled(integers(array, place), unit, place)
    naive = pa.types.is_date(kind) or kind.tz is None
    if pa.types.is_date(kind):
        array = array.cast(pa.timestamp("ms"))
    times = _scaled(_cleared(_buffer(array, np.int64), nulls), array.type.unit, place)
    if naive and zone not in (None, "UTC"):
        moved = pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest")
        local, times = times, _scaled(_cleared(_buffer(moved, np.int64), nulls), moved.type.unit, place)
        wrapped = ((local < 0) != (times < 0)) & (np.abs(local // 2) > 2**61)  # Arrow does not check for overflow
        place.refuse(
            wrapped, lambda index: f"time {local[index]} ns of {zone}", "one that fits int64 nanoseconds in UTC",
            "fix the value or the zone",
        )  # fmt: skip
    return times


def _scaled(values: Int64s, unit: str, place: Place) -> Int64s:
    factor = NANOSECONDS[unit]
    if factor == 1 or len(values) == 0:
        return values
    limit = INT64_MAX // factor
    if values.max() > limit or values.min() < -limit:
        outside = (values > limit) | (values < -limit)
        place.refuse(
            outside, lambda index: f"time {values[index]} {unit}", "one that fits int64 nanoseconds",
            f"give the schema the unit of these times: its time_unit is {unit!r}",
        )  # fmt: skip
        values = np.where(outside, 0, values)
    return values * factor
