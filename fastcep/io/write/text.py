"""Tables as text: JSON lines, and lists as JSON arrays for CSV; vectorised, without a Python object per value.

A null is ``null``; a time is ISO text in UTC, ``"2014-01-01T00:00:00.000000001Z"``; a list is an array. JSON knows no
number that is not finite, so NaN and the infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
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

pc: Any = pyarrow.compute  # its stubs know too few overloads

_ROWS = 1 << 16
_ELEMENTS = 1 << 22  # of lists; a text array holds 2 GiB at most
_SPECIAL = r'[\x00-\x1f"\\]'
_NUMBER_WORDS = (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"'))
_FALSE = from_numpy(np.array([False]))[0]


def _text(value: str) -> Any:
    """A string constant for Arrow's functions; given a Python one they would import pandas."""
    return from_texts([value])[0]


def _between(before: str, words: Any, behind: str) -> Any:
    return pc.binary_join_element_wise(_text(before), words, _text(behind), _text(""))


def is_list(kind: Any) -> bool:
    """Tell whether an Arrow type is a list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches small enough to be texts in memory."""
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
    """One JSON object a row, each with a line feed behind it.

    Raises
    ------
    ValidationError
        If a column has a type that JSON has no form for here.
    """
    if not batch.num_rows or not batch.num_columns:
        return b"{}\n" * batch.num_rows
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        opening = f"{'{' if number == 0 else ', '}{json.dumps(name, ensure_ascii=False)}: "
        parts += [_text(opening), _words(column, name)]
    lines = pc.binary_join_element_wise(*parts, _text("}\n"), _text(""))
    data = lines.buffers()[2]
    first, last = np.frombuffer(lines.buffers()[1], np.int32)[[lines.offset, lines.offset + len(lines)]]
    return bytes(data[first:last])


def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every list as the text of a JSON array (null stays null): what CSV can hold."""
    arrays: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        arrays.append(_list_words(column, name) if is_list(column.type) else column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _words(column: Any, name: str) -> Any:
    """The JSON text of each value of a column, as a string array without nulls."""
    if is_list(column.type):
        words = _list_words(column, name)
    else:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if isinstance(column, pa.DictionaryArray):
            words = _words(column.dictionary, name).take(column.indices)
        else:
            words = _plain_words(column, name)
    return pc.coalesce(words, _text("null"))


def _list_words(lists: Any, name: str) -> Any:
    if is_list(lists.type.value_type):
        raise ValidationError(f"column {name!r} is {lists.type}, expected lists of single values; flatten it first")
    words = _words(lists.flatten(), name)  # of null lists flatten gives nothing
    lengths = np.diff(int64_values(lists.offsets))
    nulls = null_bytes(lists)
    if nulls is not None:
        lengths[nulls != 0] = 0
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(from_numpy(offsets, pa.int32()), words), _text(","))
    text = _between("[", joined, "]")
    return pc.if_else(lists.is_valid(), text, pa.nulls(1, pa.string())[0])


def _plain_words(column: Any, name: str) -> Any:
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_words(column)
    if pa.types.is_timestamp(kind):
        iso = pc.replace_substring(_utc(column).cast(pa.string()), " ", "T")
        return _between('"', iso, 'Z"')
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _string_words(column.cast(pa.string()))
    raise ValidationError(
        f"column {name!r} is {kind}, expected numbers, bools, strings, times or lists of them; cast it first"
    )


def _utc(times: Any) -> Any:
    """Times without a zone, in UTC (those that name none are UTC)."""
    return times.cast(pa.timestamp(times.type.unit))


def _float_words(column: Any) -> Any:
    words = column.cast(pa.string())
    whole = pc.match_substring_regex(words, r"^-?\d+$")
    words = pc.if_else(whole, _between("", words, ".0"), words)  # stays a float for its reader
    if not pc.all(pc.is_finite(column)).as_py():
        for found, shown in _NUMBER_WORDS:
            words = pc.if_else(pc.equal(words, _text(found)), _text(shown), words)
    return words


def _string_words(column: Any) -> Any:
    words = _between('"', column, '"')
    special = pc.coalesce(pc.match_substring_regex(column, _SPECIAL), _FALSE)
    if not pc.any(special).as_py():
        return words
    escaped = [json.dumps(value, ensure_ascii=False) for value in column.filter(special).to_pylist()]
    return pc.replace_with_mask(words, special, from_texts(escaped))
