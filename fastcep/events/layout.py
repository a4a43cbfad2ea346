"""Map the columns of a schema to those of Arrow data, for the compiled reader (``_core/input/batch_reader``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fastcep._core.input.batch_reader import BatchReader
from fastcep.events.schema import Schema
from fastcep.events.strings import StringTable
from fastcep.events.units import NANOSECONDS

__all__ = ["Layout", "make_batch_reader"]

#: Column index, letter of the C data interface, letter of a dictionary's strings (0: no dictionary), ns per unit.
Field = tuple[int, int, int, int]

_INTEGERS = {pa.int8(): "c", pa.uint8(): "C", pa.int16(): "s", pa.uint16(): "S", pa.int32(): "i", pa.uint32(): "I",
             pa.int64(): "l"}  # fmt: skip
_TEXTS = {pa.string(): "u", pa.large_string(): "U"}
#: Arrow types that widen to a dtype without loss and without a check of each value.
_WIDENED: dict[str, dict[Any, str]] = {
    "int64": _INTEGERS,
    "float64": {**_INTEGERS, pa.float32(): "f", pa.float64(): "g"},
    "bool": {pa.bool_(): "b"},
    "string": _TEXTS,
}
_TIME, _TYPE, _SEQUENCE = range(3)


class Layout:
    """Finds the columns of a schema in Arrow data.

    Parameters
    ----------
    schema
        Schema of the events.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        attributes = (column.source for column in schema.columns)
        self.sources: tuple[str | int | None, ...] = (schema.time, schema.type, schema.sequence, *attributes)
        type_dtype = "string" if schema.codes is None else "int64"
        self.dtypes: tuple[str, ...] = ("time", type_dtype, "int64", *(column.dtype for column in schema.columns))

    def __call__(self, data: Any, source: int | None = None) -> list[Field] | Field | None:
        """Return the fields of all sources, or of one source.

        Parameters
        ----------
        data
            An Arrow schema; or, for one source, its Arrow type or the letter of a NumPy array.
        source
            Index of the one source; None: all.

        Returns
        -------
        list of Field, or Field
            None if the compiled reader cannot read the data. `fastcep.events.batch.read` then reads it, or raises the
            error.
        """
        if source is not None:
            return self._field(0, data, source)
        fields = []
        for number, name in enumerate(self.sources):
            index = self._index(data, name)
            field = (-1, 0, 0, 1) if name is None else index >= 0 and self._field(index, data.types[index], number)
            if not field:
                return None
            fields.append(field)
        return fields

    @staticmethod
    def _index(data: pa.Schema, name: str | int | None) -> int:
        """Return the index of the only column with a name or number; -1 if there is none, or more than one."""
        if name is None or isinstance(name, int):
            return -1 if name is None or name >= len(data) else name
        indices = data.get_all_field_indices(name)
        return indices[0] if len(indices) == 1 else -1

    def _field(self, index: int, kind: Any, source: int) -> Field | None:
        dtype, entries, factor = self.dtypes[source], "", 1
        if isinstance(kind, str):
            kind = pa.int64() if kind == "l" else pa.float64()
        if dtype in ("time", "timestamp"):
            factor = NANOSECONDS[self._schema.time_unit]
            if pa.types.is_timestamp(kind):
                if kind.tz is None and self._schema.time_zone not in (None, "UTC"):
                    return None
                kind, factor = pa.int64(), NANOSECONDS[kind.unit]
            if dtype == "timestamp" and factor != 1:
                return None  # the compiled reader scales only the time
            dtype = "int64"
        if dtype == "string" and pa.types.is_dictionary(kind):
            entries, kind, dtype = _TEXTS.get(kind.value_type, ""), kind.index_type, "int64"
            if not entries:
                return None
        letter = _WIDENED[dtype].get(kind)
        return None if letter is None else (index, ord(letter), ord(entries) if entries else 0, factor)


def make_batch_reader(schema: Schema, strings: StringTable) -> BatchReader:
    """Return the compiled reader for events of a schema."""
    layout = Layout(schema)
    dtypes = "".join("i" if column.dtype == "timestamp" else column.dtype[0] for column in schema.columns).encode()
    codes = None if schema.codes is None else tuple(schema.codes[name] for name in schema.type_names)
    return BatchReader(layout, strings, layout.sources, dtypes, schema.type_names, codes)
