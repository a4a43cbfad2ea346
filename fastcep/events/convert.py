"""Arrow columns to NumPy arrays: views where the layout allows, else lossless widenings, else an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.errors import DataError, SchemaError
from fastcep.events.origin import at_row
from fastcep.events.types import is_text, plain_type, refusal
from fastcep.events.units import INT64_MAX, INT64_MIN, NANOSECONDS

__all__ = [
    "Fault", "Place", "all_null", "from_numpy", "int64_values", "integers", "joined", "null_bytes", "number_column",
    "plain", "texts", "time_column",
]  # fmt: skip

Int64s = npt.NDArray[np.int64]
Nulls = npt.NDArray[np.uint8] | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that cannot be taken: its number in the input, the column at fault, and why."""

    row: int
    column: str | int
    found: str
    expected: str
    mend: str

    def error(self, origin: str) -> DataError:
        """Make the error on it."""
        return DataError(
            f"{at_row(origin, self.row)}, column {self.column!r}: found {self.found}, expected {self.expected}; "
            f"{self.mend}"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column stands, for messages: the origin, the column, and the input row of each of its rows.

    With a list of `faults`, rows that cannot be taken are added to it instead of raising an error.
    """

    origin: str
    column: str | int
    row_of: Callable[[int], int]
    faults: list[Fault] | None = None

    def refuse(self, flags: Any, found: Callable[[int], str], expected: str, mend: str | Callable[[int], str]) -> None:
        """Refuse the rows whose flag is not 0; with a list of faults all of them, else the first by DataError."""
        for index in np.flatnonzero(flags).tolist():
            how = mend if isinstance(mend, str) else mend(index)
            fault = Fault(self.row_of(index), self.column, found(index), expected, how)
            if self.faults is None:
                raise fault.error(self.origin)
            self.faults.append(fault)

    def refuse_nulls(self, array: Any, expected: str, mend: str) -> Nulls:
        """Refuse the rows that are null; give uint8[n] with 1 = null, or None."""
        nulls = null_bytes(array)
        if nulls is not None:
            self.refuse(nulls, lambda index: "null", expected, mend)
        return nulls

    def check_type(self, kind: Any, role: str, unit: str = "ns") -> None:
        """Refuse a column by SchemaError if its Arrow type is none that its role takes; see `refusal`."""
        if (refused := refusal(kind, role, unit)) is not None:
            expected, mend = refused
            raise SchemaError(f"{self.origin}, column {self.column!r}: found {kind}, expected {expected}; {mend}")


def plain(array: Any) -> Any:
    """Decode an array whose type some role takes to one that the readers know.

    Run ends, extensions, string views and dictionaries of anything but text go; so do dictionaries that hide nulls
    among their entries.
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
            known = entries.type == array.type.value_type
            return array if known else pa.DictionaryArray.from_arrays(array.indices, entries)
        return entries.take(array.indices)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())  # Arrow can neither filter nor take views
    return array


def joined(arrays: Sequence[Any], kind: Any) -> Any:
    """Return arrays of a type that some role takes as one, decoded as by `plain`; several are copied."""
    chunks = [plain(array) for array in arrays]
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return plain(pa.nulls(0, plain_type(kind)))
    if all(isinstance(chunk, pa.DictionaryArray) for chunk in chunks):
        chunks = [  # with indices for all entries of all dictionaries
            pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int64()), chunk.dictionary) for chunk in chunks
        ]
    else:
        chunks = [chunk.dictionary_decode() if isinstance(chunk, pa.DictionaryArray) else chunk for chunk in chunks]
    whole: Any = pa.chunked_array(chunks).combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # chunks are kept apart whose texts exceed 2 GiB together
        whole = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in whole.chunks])
    return whole


def from_numpy(values: npt.NDArray[Any], kind: Any = None, nulls: npt.NDArray[Any] | None = None) -> Any:
    """Make an Arrow array over the memory of a contiguous array (``pa.array`` would copy, and import pandas).

    Parameters
    ----------
    values
        Any fixed-width dtype; bool is packed into bits.
    kind
        Arrow type of the same width; None for int64, float64 or bool by the dtype of `values`.
    nulls
        uint8[n] or bool[n], true = null; None = no null.
    """
    data: Any = values  # the stubs do not know that arrays are buffers
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    elif kind is None:
        kind = pa.float64() if values.dtype == np.float64 else pa.int64()
    validity = None
    if nulls is not None and nulls.any():
        bits: Any = np.packbits(nulls == 0, bitorder="little")
        validity = pa.py_buffer(bits)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def all_null(values: npt.NDArray[np.int64]) -> Any:
    """Make an int64 array of nulls as long as `values`, whose memory it shares (``pa.nulls`` would fill its own)."""
    bits: Any = np.zeros((len(values) + 7) // 8, np.uint8)
    data: Any = values
    buffers: Any = [pa.py_buffer(bits), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.int64(), len(values), buffers, null_count=len(values))


def from_lengths(lengths: npt.NDArray[np.int64], values: Any) -> Any:
    """Make a large_list array of ``lengths[k]`` consecutive entries of the Arrow array `values` each."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeListArray.from_arrays(from_numpy(offsets), values)


def from_texts(texts: Sequence[str]) -> Any:
    """Make a string array (without ``pa.array``, which imports pandas)."""
    encoded = [text.encode() for text in texts]
    offsets: Any = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(entry) for entry in encoded], out=offsets[1:])
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, pa.py_buffer(offsets), data])


def texts(array: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """View a string or large_string array: int32 or int64[n + 1] offsets, and uint8[...] UTF-8 that they count in."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(len(array) + 1, width), np.zeros(0, np.uint8)
    view = np.frombuffer(offsets, width, len(array) + 1, array.offset * np.dtype(width).itemsize)
    return np.require(view, requirements="A"), np.frombuffer(data or b"", np.uint8)


def _buffer(array: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View the values of a fixed-width array; garbage under nulls. Read-only, as Arrow data is."""
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
    """Give uint8[n] with 1 = null, or None if nothing is null."""
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
    """Widen an integer array to int64[n]; 0 under a null, a view if it is int64 without nulls.

    Raises
    ------
    DataError
        A uint64 value does not fit int64.
    """
    values = _cleared(_buffer(array, _width(array.type)), null_bytes(array))
    if values.dtype == np.uint64 and place is not None and len(values) and values.max() > INT64_MAX:
        numbers = values
        place.refuse(
            values > INT64_MAX, lambda index: str(numbers[index]), f"at most {INT64_MAX}", "declare float64 or scale it"
        )
    return values.astype(np.int64, copy=False)


def number_column(array: Any, dtype: str, place: Place) -> tuple[npt.NDArray[Any], Nulls]:
    """Convert a column of an int64, float64 or bool attribute, of a type that `dtype` takes.

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
        texts = array.cast(pa.string())  # by which the closest value is found; Arrow's own cast is off by a bit at some
        return _cleared(_buffer(texts.cast(pa.float64()), np.float64), nulls), nulls
    width = f"f{kind.bit_width // 8}" if pa.types.is_floating(kind) else _width(kind)
    return _cleared(_buffer(array, width).astype(np.float64), nulls), nulls


def integers(array: Any, place: Place) -> Int64s:
    """Convert integers, or decimals without a fraction, to int64[n]; 0 under a null.

    Raises
    ------
    DataError
        A value does not fit int64, or is no whole number.
    """
    return int64_values(_whole_numbers(array, place) if pa.types.is_decimal(array.type) else array, place)


def _whole_numbers(array: Any, place: Place) -> Any:
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        values = array.to_pylist()
    right = [value is None or (value == int(value) and INT64_MIN <= int(value) <= INT64_MAX) for value in values]
    flags = ~np.array(right)
    place.refuse(flags, lambda index: str(values[index]), "a whole number that fits int64", "declare float64")
    return pc.if_else(from_numpy(~flags), array, pa.scalar(None, array.type)).cast(pa.int64())


def time_column(array: Any, unit: str, zone: str | None, place: Place) -> Int64s:
    """Convert the time column to int64[n] nanoseconds since the epoch.

    Parameters
    ----------
    array
        Integers or decimals in `unit`, timestamps (which have a unit of their own) or dates.
    unit
        A key of `NANOSECONDS`.
    zone
        Zone of timestamps that name none (None is UTC). Of an hour that a clock change repeats, the first
        is taken; of one that it skips, the moment of the change.
    place
        For messages.

    Raises
    ------
    DataError
        A time is null or does not fit int64 nanoseconds.
    """
    kind = array.type
    nulls = place.refuse_nulls(array, "a time", "drop the row or fill it in")
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _scaled(integers(array, place), unit, place)
    naive = pa.types.is_date(kind) or kind.tz is None
    if pa.types.is_date(kind):
        array = array.cast(pa.timestamp("ms"))
    times = _scaled(_cleared(_buffer(array, np.int64), nulls), array.type.unit, place)
    if naive and zone not in (None, "UTC"):
        moved = pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest")
        local, times = times, _scaled(_cleared(_buffer(moved, np.int64), nulls), moved.type.unit, place)
        wrapped = ((local < 0) != (times < 0)) & (np.abs(local // 2) > 2**61)  # Arrow does not check
        place.refuse(
            wrapped, lambda index: f"time {local[index]} ns of {zone}", "one that fits int64 nanoseconds in UTC",
            "mend the value or the zone",
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
            "is the time unit right?",
        )  # fmt: skip
        values = np.where(outside, 0, values)
    return values * factor
