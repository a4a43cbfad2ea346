"""Texts to values, and which of them are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from fastcep.events.convert import from_numpy

__all__ = ["FALSE", "TRUE", "convert_texts", "failures", "infinite", "not_text"]

pc: Any = pyarrow.compute  # its stubs know too few overloads

TRUE, FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
INFINITY = "^[+-]?inf(inity)?$"
PLAIN_INTEGER = r"^[ \t]*-?[0-9]{1,18}[ \t]*$"


def failures(array: Any, convert: Callable[[Any], object]) -> list[int]:
    """Return the indices of the values that `convert` refuses.

    Parameters
    ----------
    array
        Values.
    convert
        A conversion, value by value, that raises ``pyarrow.ArrowInvalid`` if it refuses one.

    Returns
    -------
    list of int
        Ascending, found by halving.
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
    """Convert texts as the reader of CSV does.

    Parameters
    ----------
    text
        String array.
    kind
        int64, float64, bool or string, as an Arrow type.

    Returns
    -------
    tuple
        Array of `kind`, null also where the text is no such value; the indices of these.
    """
    if kind == pa.string():
        return text, []
    if kind == pa.bool_():
        known = pc.is_in(text, pa.array([*TRUE, *FALSE, None], pa.string()))
        bad = np.flatnonzero(~_flags(known)).tolist()
        value = pc.is_in(text, pa.array(TRUE, pa.string()))
        return pc.if_else(pc.and_(known, text.is_valid()), value, pa.scalar(None, pa.bool_())), bad
    text = pc.utf8_trim(text, " \t")

    def convert(part: Any) -> Any:
        value = part.cast(kind)
        if kind == pa.float64() and infinite(value) and infinite(pc.if_else(_named(part), 0.0, value)):
            raise pa.ArrowInvalid("a number beyond float64")
        return value

    doubtful = text.is_valid()
    if kind == pa.int64():
        doubtful = pc.and_not(doubtful, pc.fill_null(pc.match_substring_regex(text, PLAIN_INTEGER), False))
    at = np.flatnonzero(_flags(doubtful))
    entries = text.take(from_numpy(at)).dictionary_encode()
    wrong = np.zeros(len(entries.dictionary), dtype=bool)
    wrong[failures(entries.dictionary, convert)] = True
    bad = at[wrong[entries.indices.to_numpy()]]
    keep = np.ones(len(text), dtype=bool)
    keep[bad] = False
    return convert(pc.if_else(from_numpy(keep), text, pa.scalar(None, pa.string()))), bad.tolist()


def infinite(value: Any) -> bool:
    """Whether any value of a float64 array is infinite."""
    return bool(pc.any(pc.is_inf(value)).as_py())


def _named(text: Any) -> Any:
    """Which texts are a word for infinity, and not a number that is too large."""
    return pc.match_substring_regex(text, INFINITY, ignore_case=True)


def _flags(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False)
