"""Checks of stored JSON: snapshot headers, checkpoint records and model parameters.

A check takes a value and its name, and raises `Misfit` if the value cannot have been written by fastcep. It converts
nothing. The caller adds the remedy to the error message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "AMOUNT", "COUNT", "FLAG", "INT64", "MOST", "NUMBER", "SHARE", "TEXT", "Check", "Misfit", "anything", "by_name",
    "grid", "listed", "matching", "number", "one_of", "or_null", "record", "sequence", "shown", "whole",
]  # fmt: skip

Check = Callable[[Any, str], None]

#: Upper limit of counters: none reaches it, and a sum of two does not overflow int64.
MOST = 1 << 62
#: Largest float: a product of three is still finite.
_LARGE = 1e100
_LONGEST = 80
_ROUNDING = 1e-6  # tolerance of a share


class Misfit(ValueError):
    """Stored data with a valid checksum that fastcep cannot have written.

    Parameters
    ----------
    name
        Path of the field, such as ``queries[0].numbers.last``.
    found
        Description of the value.
    expected
        Description of the valid values.
    """

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(f"{name}: found {found}, expected {expected}")


def shown(value: Any) -> str:
    """Return a value and its type as text for a message."""
    try:
        text = repr(value)
    except ValueError:  # an int of too many digits
        text = "a number of very many digits"
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{short} ({type(value).__name__})"


def whole(low: int = -(1 << 63), high: int = (1 << 63) - 1) -> Check:
    """Check for an int, not a bool, from `low` to `high`."""

    def check(value: Any, name: str) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Misfit(name, shown(value), f"an int from {low} to {high}")

    return check


def number(low: float = -_LARGE, high: float = _LARGE) -> Check:
    """Check for an int or float from `low` to `high`."""

    def check(value: Any, name: str) -> None:
        if type(value) not in (int, float) or not low <= value <= high:
            raise Misfit(name, shown(value), f"a number from {low:g} to {high:g}")

    return check


def one_of(*values: Any) -> Check:
    """Check for one of these values, of the same type."""

    def check(value: Any, name: str) -> None:
        if not any(type(value) is type(valid) and value == valid for valid in values):
            raise Misfit(name, shown(value), " or ".join(map(repr, values)))

    return check


def _typed(kind: type, expected: str) -> Check:
    def check(value: Any, name: str) -> None:
        if type(value) is not kind:
            raise Misfit(name, shown(value), expected)

    return check


def anything(value: Any, name: str) -> None:
    """Accept every value; the caller checks it."""


def or_null(check: Check) -> Check:
    """Check for null or a value that passes `check`."""

    def check_unless_null(value: Any, name: str) -> None:
        if value is not None:
            check(value, name)

    return check_unless_null


def listed(check: Check, length: int | None = None) -> Check:
    """Check for a list, of this length if given, whose entries pass `check`."""

    def each(value: Any, name: str) -> None:
        if type(value) is not list:
            raise Misfit(name, shown(value), "a list")
        if length is not None and len(value) != length:
            raise Misfit(name, f"{len(value)} entries", f"{length}")
        for index, entry in enumerate(value):
            check(entry, f"{name}[{index}]")

    return each


def grid(check: Check, *sizes: int) -> Check:
    """Check for nested lists of these lengths, outermost first, whose innermost entries pass `check`."""
    for size in reversed(sizes):
        check = listed(check, size)
    return check


def sequence(*checks: Check, optional: int = 0) -> Check:
    """Check for a list with one entry for each check; the last ``optional`` may be missing, but only together."""
    check_length = listed(anything, len(checks))
    shorter = len(checks) - optional

    def each(value: Any, name: str) -> None:
        if type(value) is not list or len(value) != shorter:
            check_length(value, name)
        for index, (check, entry) in enumerate(zip(checks, value, strict=False)):
            check(entry, f"{name}[{index}]")

    return each


def matching(pattern: str, expected: str) -> Check:
    """Check for a text that is a complete match of a pattern; `expected` describes it."""

    def check(value: Any, name: str) -> None:
        if type(value) is not str or not re.fullmatch(pattern, value, re.ASCII):
            raise Misfit(name, shown(value), expected)

    return check


def record(fields: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Check for an object with these fields, any of the optional ones, and no others."""
    checks = {**fields, **(optional or {})}

    def each(value: Any, name: str) -> None:
        if type(value) is not dict:
            raise Misfit(name, shown(value), f"an object with {', '.join(fields)}")
        for field in fields:
            if field not in value:
                raise Misfit(_path(name, field), "nothing", "a value")
        for field, entry in value.items():
            if field not in checks:
                raise Misfit(name, f"the field {shown(field)}", f"only {', '.join(checks) or 'an empty object'}")
            checks[field](entry, _path(name, field))

    return each


def by_name(check: Check) -> Check:
    """Check for an object with any field names, whose values pass `check`."""

    def each(value: Any, name: str) -> None:
        if type(value) is not dict:
            raise Misfit(name, shown(value), "an object")
        for field, entry in value.items():
            check(entry, f"{name}[{shown(field)}]")

    return each


def _path(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field


FLAG, TEXT = _typed(bool, "true or false"), _typed(str, "a text")
INT64, COUNT = whole(), whole(0, MOST)
NUMBER, AMOUNT, SHARE = number(), number(0), number(-_ROUNDING, 1 + _ROUNDING)
