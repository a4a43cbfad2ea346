"""What was read so far, in 64 bits a column: tells whether an input begins with the same rows as before."""

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
    """A running digest of rows, as the engine sees them; where they are cut into batches does not matter.

    Each column is hashed for itself, and so are its null flags, and of texts the lengths and the bytes. Rows of types
    to ignore count, but their values do not.

    Parameters
    ----------
    schema
        What the rows mean.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rows = 0
        self._hashes: list[Any] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Go on by some rows.

        Raises
        ------
        SchemaError, DataError
            If they cannot be read; nothing was added then.
        """
        if not rows.num_rows:
            return
        texts = _Texts()
        events, keep = read(self._schema, rows, texts)
        parts: list[Any] = [np.ones(rows.num_rows, np.bool_) if keep is None else keep, events.time, events.type]
        if events.sequence is not None:
            parts.append(events.sequence)
        for column, values, nulls in zip(self._schema.columns, events.columns, events.nulls, strict=True):
            parts.append(np.zeros(len(events), np.uint8) if nulls is None else nulls)
            parts += texts.parts(values) if column.dtype == "string" else [values]
        self._rows += rows.num_rows
        for number, part in enumerate(parts):
            if number == len(self._hashes):
                self._hashes.append(xxh64(seed=number))
            self._hashes[number].update(_little(part))

    def hexdigest(self) -> str:
        """The digest of all rows so far."""
        whole = xxh64(self._rows.to_bytes(8, "little"))
        for part in self._hashes:
            whole.update(part.digest())
        return whole.hexdigest()


class _Texts:
    """Stands for a table of strings: keeps the texts instead of giving them codes."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}

    def encode(self, array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
        array = plain(array)
        codes = np.zeros(len(array), np.int64)
        self._arrays[id(codes)] = array
        return codes, null_bytes(array)

    def parts(self, codes: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Of the column that got these codes the lengths of the texts, 0 for a null, and all their bytes."""
        array = self._arrays.get(id(codes))
        if array is None:  # a column without a type, all null
            return codes, b""
        texts = array.cast(pa.large_string())
        lengths = int64_values(pc.binary_length(texts))
        if texts.null_count:
            texts = texts.drop_null()  # there may be bytes under a null
        if not len(texts):
            return lengths, b""
        offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        return lengths, memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def _little(part: Any) -> Any:
    """The bytes of an array, the same on every machine."""
    if not isinstance(part, np.ndarray):
        return part
    return np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(np.uint8)
