"""Functions of strings, in Python: the engine calls them once per distinct string (see `fastcep.plan.text`)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["FUNCTIONS"]


def _substr(text: str, start: int, count: int | None = None) -> str:
    """Return ``count`` characters from ``start``, which counts from 1, or from the end if it is negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    end = len(text) if count is None else first + count
    return text[max(first, 0) : max(end, 0)]


@lru_cache(maxsize=256)
def _pattern(like: str, mark: str) -> re.Pattern[str]:
    """Return the regular expression of a LIKE pattern with the escape character ``mark`` (empty: none)."""
    parts, escaped = [], False
    for character in like:
        if escaped or character not in ("%", "_", mark):
            parts.append(re.escape(character))
            escaped = False
        elif character == mark:
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    return re.compile("".join(parts), re.DOTALL)


def _like(text: str, pattern: str, mark: str = "") -> bool:
    return _pattern(pattern, mark).fullmatch(text) is not None


#: Functions by the name of their call, or by the operator; every argument is a value, never None.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "substr": _substr,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": operator.contains,
    "length": len,
    "like": _like,
    "<": operator.lt,
    "<=": operator.le,
}
