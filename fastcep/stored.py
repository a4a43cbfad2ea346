"""What stored JSON may hold: headers of snapshots, records of checkpoints, numbers of models, as tables of checks.

A check takes a value and its name, and raises `Misfit` if it is anything else than what was written; nothing is
converted. Who reads the JSON says in the error what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "AMOUNT", "COUNT", "FLAG", "INT64", "MOST", "NUMBER", "SHARE", "TEXT", "Check", "Misfit", "anything", "by_name",
    "grid", "listed", "number", "one_of", "or_null", "record", "sequence", "shown", "whole",
]  # fmt: skip

Check = Callable[[Any, str], None]

#: No counter gets there, and nothing overflows that is added to it.
MOST = 1 << 62
#: Products of three of these are finite.
_LARGE = 1e100
_LONGEST = 80
_ROUNDING = 1e-6  # of a share


class Misfit(ValueError):
    """Stored data whose checksums are right, but that was never written.

    Parameters
    ----------
    name
        Of the field, such as ``queries[0].numbers.last``.
    found
        What stands there.
    expected
        What may.
    """

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(f"{name}: found {found}, expected {expected}")


def shown(value: Any) -> str:
    """A value and its type, for a message."""
    try:
        text = repr(value)
    except ValueError:  # an int of too many digits
        text = "a number of very many digits"
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{short} ({type(value).__name__})"


def whole(low: int = -(1 << 63), high: int = (1 << 63) - 1) -> Check:
    """An int, and no bool, from `low` to `high`."""

    def check(value: Any, name: str) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Misfit(name, shown(value), f"an int from {low} to {high}")

    return check


def number(low: float = -_LARGE, high: float = _LARGE) -> Check:
    """An int or float from `low` to `high`."""

    def check(value: Any, name: str) -> None:
        if type(value) not in (int, float) or not low <= value <= high:
            raise Misfit(name, shown(value), f"a number from {low:g} to {high:g}")

    return check


def one_of(*values: Any) -> Check:
    """One of these values, of the same type."""

    def check(value: Any, name: str) -> None:
        if not any(type(value) is type(own) and value == own for own in values):
            raise Misfit(name, shown(value), " or ".join(map(repr, values)))

    return check


def _typed(kind: type, expected: str) -> Check:
    def check(value: Any, name: str) -> None:
        if type(value) is not kind:
            raise Misfit(name, shown(value), expected)

    return check


def anything(value: Any, name: str) -> None:
    """What somebody else checks."""


def or_null(check: Check) -> Check:
    """What `check` takes, or null."""

    def either_way(value: Any, name: str) -> None:
        if value is not None:
            check(value, name)

    return either_way


def listed(check: Check, length: int | None = None) -> Check:
    """A list of what `check` takes, of this length (None: any)."""

    def each(value: Any, name: str) -> None:
        if type(value) is not list:
            raise Misfit(name, shown(value), "a list")
        if length is not None and len(value) != length:
            raise Misfit(name, f"{len(value)} entries", f"{length}")
        for place, entry in enumerate(value):
            check(entry, f"{name}[{place}]")

    return each


def grid(check: Check, *sizes: int) -> Check:
    """Lists in lists, of these lengths from the outermost on, of what `check` takes."""
    for size in reversed(sizes):
        check = listed(check, size)
    return check


def sequence(*checks: Check) -> Check:
    """A list with one entry for each check."""
    length = listed(anything, len(checks))

    def each(value: Any, name: str) -> None:
        length(value, name)
        for place, (check, entry) in enumerate(zip(checks, value, strict=True)):
            check(entry, f"{name}[{place}]")

    return each


def record(fields: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these fields, perhaps those that are optional, and no others."""
    known = {**fields, **(optional or {})}

    def each(value: Any, name: str) -> None:
        if type(value) is not dict:
            raise Misfit(name, shown(value), f"an object with {', '.join(fields)}")
        for field in fields:
            if field not in value:
                raise Misfit(_inside(name, field), "nothing", "a value")
        for field, entry in value.items():
            if field not in known:
                raise Misfit(name, f"the field {shown(field)}", f"only {', '.join(known) or 'an empty object'}")
            known[field](entry, _inside(name, field))

    return each


def by_name(check: Check) -> Check:
    """An object whose values, under any names, `check` takes."""

    def each(value: Any, name: str) -> None:
        if type(value) is not dict:
            raise Misfit(name, shown(value), "an object")
        for field, entry in value.items():
            check(entry, f"{name}[{shown(field)}]")

    return each


def _inside(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field


FLAG, TEXT = _typed(bool, "true or false"), _typed(str, "a text")
INT64, COUNT = whole(), whole(0, MOST)
NUMBER, AMOUNT, SHARE = number(), number(0), number(-_ROUNDING, 1 + _ROUNDING)
