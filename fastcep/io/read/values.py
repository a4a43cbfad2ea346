"""Convert text to values, and find invalid values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fastcep.events.convert import from_numpy

__all__ = ["FALSE", "TRUE", "convert_texts", "failures", "infinite", "not_text"]

pc: Any = pyarrow.compute  # its stubs lack overloads

TRUE, FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
INFINITY = "^[+-]?inf(inity)?$"
PLAIN_INTEGER = r"^[ \t]*-?[0-9]{1,18}[ \t]*$"


def failures(array: Any, convert: Callable[[Any], object]) -> list[int]:
    """Return the indices of the values that `convert` rejects.

    Parameters
    ----------
    array
        Values.
    convert
        Converts an array value by value, and raises ``pyarrow.ArrowInvalid`` if it rejects one.

    Returns
    -------
    list of int
        Indices in ascending order. They are found by bisection.
    """
    try:
        convert(array)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return [0]
        middle = len(array) // 2
        left, right = failures(array.slice(0, middle), convert), failures(array.slice(middle), convert)
        return left + [middle + at for at in right]
    return []


def not_text(raw: Any) -> list[int]:
    """Return the indices of the values of a binary or string array that are not UTF-8."""
    return failures(raw.cast(pa.large_binary()), lambda part: part.cast(pa.large_string()))


def convert_texts(text: Any, kind: Any) -> tuple[Any, list[int]]:
    """Convert text like the CSV reader.

    Parameters
    ----------
    text
        String array.
    kind
        Arrow type: int64, float64, bool or string.

    Returns
    -------
    tuple
        Array of `kind`, with null for invalid values too; and the indices of the invalid values.
    """
    if kind == pa.string():
        return text, []
    if kind == pa.bool_():
        valid = pc.is_in(text, pa.array([*TRUE, *FALSE, None], pa.string()))
        invalid = np.flatnonzero(~_flags(valid)).tolist()
        value = pc.is_in(text, pa.array(TRUE, pa.string()))
        return pc.if_else(pc.and_(valid, text.is_valid()), value, pa.scalar(None, pa.bool_())), invalid
    text = pc.utf8_trim(text, " \t")

    def convert(part: Any) -> Any:
        value = part.cast(kind)
        if kind == pa.float64() and infinite(value) and infinite(pc.if_else(_is_word_infinity(part), 0.0, value)):
            raise pa.ArrowInvalid("a number beyond float64")
        return value

    unchecked = text.is_valid()
    if kind == pa.int64():
        unchecked = pc.and_not(unchecked, pc.fill_null(pc.match_substring_regex(text, PLAIN_INTEGER), False))
    indices = np.flatnonzero(_flags(unchecked))
    entries = text.take(from_numpy(indices)).dictionary_encode()
    is_invalid = np.zeros(len(entries.dictionary), dtype=bool)
    is_invalid[failures(entries.dictionary, convert)] = True
    bad = indices[is_invalid[entries.indices.to_numpy()]]
    keep = np.ones(len(text), dtype=bool)
    keep[bad] = False
    return convert(pc.if_else(from_numpy(keep), text, pa.scalar(None, pa.string()))), bad.tolist()


def infinite(value: Any) -> bool:
    """Return whether any value of a float64 array is infinite."""
    return bool(pc.any(pc.is_inf(value)).as_py())


def _is_word_infinity(text: Any) -> Any:
    """Return which strings spell infinity as a word, as opposed to a number that is too large."""
    return pc.match_substring_regex(text, INFINITY, ignore_case=True)


def _flags(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False)
