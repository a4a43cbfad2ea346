"""Where the columns of a schema stand in Arrow data, for the compiled reader (``_core/input/batch_reader``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fastcep._core.input.batch_reader import BatchReader
from fastcep.events.schema import Schema
from fastcep.events.strings import StringTable
from fastcep.events.units import NANOSECONDS

__all__ = ["Layout", "make_intake"]

#: Place, letter of the C data interface, letter of a dictionary's texts (0: no dictionary), nanoseconds per unit.
Field = tuple[int, int, int, int]

_INTEGERS = {pa.int8(): "c", pa.uint8(): "C", pa.int16(): "s", pa.uint16(): "S", pa.int32(): "i", pa.uint32(): "I",
             pa.int64(): "l"}  # fmt: skip
_TEXTS = {pa.string(): "u", pa.large_string(): "U"}
#: What widens to a dtype without loss, and without looking at each value.
_WIDENED: dict[str, dict[Any, str]] = {
    "int64": _INTEGERS,
    "float64": {**_INTEGERS, pa.float32(): "f", pa.float64(): "g"},
    "bool": {pa.bool_(): "b"},
    "string": _TEXTS,
}
_TIME, _TYPE, _SEQUENCE = range(3)


class Layout:
    """Finds the columns of a schema in those of Arrow data.

    Parameters
    ----------
    schema
        Of the events.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.sources = (schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns))
        names = "string" if schema.codes is None else "int64"
        self.dtypes = ("time", names, "int64", *(column.dtype for column in schema.columns))

    def __call__(self, data: Any, source: int | None = None) -> list[Field] | Field | None:
        """The fields of all sources in an Arrow schema; or of one, by its Arrow type or the letter of a NumPy array.

        None if the compiled reader cannot read it: the other reader can, or says what is wrong.
        """
        if source is not None:
            return self._field(0, data, source)
        fields = []
        for number, name in enumerate(self.sources):
            place = self._place(data, name)
            field = (-1, 0, 0, 1) if name is None else place >= 0 and self._field(place, data.types[place], number)
            if not field:
                return None
            fields.append(field)
        return fields

    @staticmethod
    def _place(data: pa.Schema, name: str | int | None) -> int:
        """The only column of this name, or number; -1 without."""
        if name is None or isinstance(name, int):
            return -1 if name is None or name >= len(data) else name
        found = data.get_all_field_indices(name)
        return found[0] if len(found) == 1 else -1

    def _field(self, place: int, kind: Any, source: int) -> Field | None:
        dtype, entries, factor = self.dtypes[source], "", 1
        if isinstance(kind, str):
            kind = pa.int64() if kind == "l" else pa.float64()
        if dtype == "time":
            dtype, factor = "int64", NANOSECONDS[self._schema.time_unit]
            if pa.types.is_timestamp(kind):
                if kind.tz is None and self._schema.time_zone not in (None, "UTC"):
                    return None
                kind, factor = pa.int64(), NANOSECONDS[kind.unit]
        if dtype == "string" and pa.types.is_dictionary(kind):
            entries, kind, dtype = _TEXTS.get(kind.value_type, ""), kind.index_type, "int64"
            if not entries:
                return None
        letter = _WIDENED[dtype].get(kind)
        return None if letter is None else (place, ord(letter), ord(entries) if entries else 0, factor)


def make_intake(schema: Schema, strings: StringTable) -> BatchReader:
    """Make the compiled reader of a schema."""
    layout = Layout(schema)
    dtypes = "".join(column.dtype[0] for column in schema.columns).encode()
    codes = None if schema.codes is None else tuple(schema.codes[name] for name in schema.type_names)
    return BatchReader(layout, strings, layout.sources, dtypes, schema.type_names, codes)
