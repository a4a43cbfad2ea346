"""Convert tables to text: JSON lines, and lists as JSON arrays for CSV. Vectorised, without a Python object per value.

A null is ``null``, a time is ISO text in UTC such as ``"2014-01-01T00:00:00.000000001Z"``, and a list is an array. JSON
has no non-finite numbers, so NaN and the infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fastcep.errors import ValidationError
from fastcep.events.convert import from_numpy, from_texts, int64_values, null_bytes

__all__ = ["flat", "is_list", "json_lines", "pieces"]

pc: Any = pyarrow.compute  # its stubs lack overloads

_ROWS = 1 << 16
_ELEMENTS = 1 << 22  # list elements of a batch; a string array holds at most 2 GiB
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
_NONFINITE = (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"'))
_FALSE = from_numpy(np.array([False]))[0]


def _text(value: str) -> Any:
    """Return an Arrow string scalar. (Given a Python string, Arrow's functions would import pandas.)"""
    return from_texts([value])[0]


def _between(prefix: str, texts: Any, suffix: str) -> Any:
    """Add a prefix and a suffix to each string."""
    return pc.binary_join_element_wise(_text(prefix), texts, _text(suffix), _text(""))


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Split a table into batches whose text fits into memory and into an Arrow string array."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield from _halves(batch)


def _halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    columns: list[Any] = [column for column in batch.columns if is_list(column.type)]
    rows = batch.num_rows
    if rows > 1 and any(len(column.flatten()) > _ELEMENTS for column in columns):
        yield from _halves(batch.slice(0, rows // 2))
        yield from _halves(batch.slice(rows // 2))
    else:
        yield batch


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Return one JSON object for each row, each followed by a line feed.

    Raises
    ------
    ValidationError
        If the type of a column cannot be written as JSON.
    """
    if not batch.num_rows or not batch.num_columns:
        return b"{}\n" * batch.num_rows
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        opening = f"{'{' if number == 0 else ', '}{json.dumps(name, ensure_ascii=False)}: "
        parts += [_text(opening), _json_texts(column, name)]
    lines = pc.binary_join_element_wise(*parts, _text("}\n"), _text(""))
    data = lines.buffers()[2]
    first, last = np.frombuffer(lines.buffers()[1], np.int32)[[lines.offset, lines.offset + len(lines)]]
    return bytes(data[first:last])


def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with every list replaced by the text of a JSON array (null stays null), for CSV."""
    arrays: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        arrays.append(_list_texts(column, name) if is_list(column.type) else column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _json_texts(column: Any, name: str) -> Any:
    """Return the JSON text of each value of a column, as a string array without nulls."""
    if is_list(column.type):
        texts = _list_texts(column, name)
    else:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if isinstance(column, pa.DictionaryArray):
            texts = _json_texts(column.dictionary, name).take(column.indices)
        else:
            texts = _plain_texts(column, name)
    return pc.coalesce(texts, _text("null"))


def _list_texts(lists: Any, name: str) -> Any:
    if is_list(lists.type.value_type):
        raise ValidationError(f"column {name!r} is {lists.type}, expected lists of single values; flatten it first")
    texts = _json_texts(lists.flatten(), name)  # flatten skips null lists
    lengths = np.diff(int64_values(lists.offsets))
    nulls = null_bytes(lists)
    if nulls is not None:
        lengths[nulls != 0] = 0
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(from_numpy(offsets, pa.int32()), texts), _text(","))
    text = _between("[", joined, "]")
    return pc.if_else(lists.is_valid(), text, pa.nulls(1, pa.string())[0])


def _plain_texts(column: Any, name: str) -> Any:
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_texts(column)
    if pa.types.is_timestamp(kind):
        iso = pc.replace_substring(_utc(column).cast(pa.string()), " ", "T")
        return _between('"', iso, 'Z"')
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _string_texts(column.cast(pa.string()))
    raise ValidationError(
        f"column {name!r} is {kind}, expected numbers, bools, strings, times or lists of them; cast it first"
    )


def _utc(times: Any) -> Any:
    """Return times in UTC, without a zone. Times without a zone are already in UTC."""
    return times.cast(pa.timestamp(times.type.unit))


def _float_texts(column: Any) -> Any:
    texts = column.cast(pa.string())
    is_whole = pc.match_substring_regex(texts, r"^-?\d+$")
    texts = pc.if_else(is_whole, _between("", texts, ".0"), texts)  # readers then see a float
    if not pc.all(pc.is_finite(column)).as_py():
        for arrow_text, json_text in _NONFINITE:
            texts = pc.if_else(pc.equal(texts, _text(arrow_text)), _text(json_text), texts)
    return texts


def _string_texts(column: Any) -> Any:
    texts = _between('"', column, '"')
    needs_escape = pc.coalesce(pc.match_substring_regex(column, _NEEDS_ESCAPE), _FALSE)
    if not pc.any(needs_escape).as_py():
        return texts
    escaped = [json.dumps(value, ensure_ascii=False) for value in column.filter(needs_escape).to_pylist()]
    return pc.replace_with_mask(texts, needs_escape, from_texts(escaped))
