"""Digest of the rows read so far, to check that an input still begins with the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
from xxhash import xxh64

from fastcep.events import Schema
from fastcep.events.batch import read
from fastcep.events.convert import int64_values, null_bytes, plain

__all__ = ["Digest"]

pc: Any = pyarrow.compute


class Digest:
    """Incremental digest of rows as the engine reads them, independent of batch boundaries.

    Each column has its own hash, with separate hashes for its null flags and, for strings, for lengths and bytes. Rows
    of ignored event types are counted, but their values are not hashed.

    Parameters
    ----------
    schema
        Schema of the rows.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rows = 0
        self._hashes: list[Any] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows to the digest.

        Raises
        ------
        SchemaError, DataError
            If the rows cannot be read; none is added then.
        """
        if not rows.num_rows:
            return
        strings = _StringCollector()
        events, keep = read(self._schema, rows, strings)
        arrays: list[Any] = [np.ones(rows.num_rows, np.bool_) if keep is None else keep, events.time, events.type]
        if events.sequence is not None:
            arrays.append(events.sequence)
        for column, values, nulls in zip(self._schema.columns, events.columns, events.nulls, strict=True):
            arrays.append(np.zeros(len(events), np.uint8) if nulls is None else nulls)
            arrays += strings.lengths_and_bytes(values) if column.dtype == "string" else [values]
        self._rows += rows.num_rows
        for number, array in enumerate(arrays):
            if number == len(self._hashes):
                self._hashes.append(xxh64(seed=number))
            self._hashes[number].update(_little_endian(array))

    def hexdigest(self) -> str:
        """Return the digest of all rows so far."""
        combined = xxh64(self._rows.to_bytes(8, "little"))
        for column_hash in self._hashes:
            combined.update(column_hash.digest())
        return combined.hexdigest()


class _StringCollector:
    """Replacement for a string table that keeps the strings instead of encoding them."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
        array = plain(array)
        codes = np.zeros(len(array), np.int64)
        self._arrays[id(codes)] = array
        return codes, null_bytes(array)

    def lengths_and_bytes(self, codes: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the string lengths (0 for a null) and the concatenated bytes of the column that got these codes."""
        array = self._arrays.get(id(codes))
        if array is None:  # a column of the null type
            return codes, b""
        strings = array.cast(pa.large_string())
        lengths = int64_values(pc.binary_length(strings))
        if strings.null_count:
            strings = strings.drop_null()  # null slots may hold bytes
        if not len(strings):
            return lengths, b""
        offsets = np.frombuffer(strings.buffers()[1], np.int64)[strings.offset : strings.offset + len(strings) + 1]
        return lengths, memoryview(strings.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def _little_endian(array: Any) -> Any:
    """Return the bytes of an array in little-endian order, the same on every machine."""
    if not isinstance(array, np.ndarray):
        return array
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).view(np.uint8)
