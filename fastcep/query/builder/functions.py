"""Scalar functions for queries from the builder; use them with the module name, as in ``functions.min(a.x, b.x)``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastcep.errors import ValidationError
from fastcep.events.units import parse_duration, parse_time
from fastcep.query import ast
from fastcep.query.builder.terms import Term, node_of
from fastcep.query.previous import MAX_PLACES

__all__ = [
    "abs", "avg", "case", "coalesce", "contains", "date", "dayofweek", "duration", "ends_with", "exp", "floor", "hour",
    "length", "like", "log", "lower", "max", "min", "minute", "nanoseconds", "prev", "sqrt", "starts_with", "substr",
    "timestamp", "upper",
]  # fmt: skip


def _call(function: str, *arguments: Any) -> Term:
    return Term(ast.Call(function, tuple(map(node_of, arguments))))


def abs(x: Any) -> Term:  # noqa: A001
    """Return the absolute value."""
    return _call("abs", x)


def sqrt(x: Any) -> Term:
    """Return the square root, float64; NaN for negative values."""
    return _call("sqrt", x)


def exp(x: Any) -> Term:
    """Return the exponential, float64."""
    return _call("exp", x)


def log(x: Any) -> Term:
    """Return the natural logarithm, float64."""
    return _call("log", x)


def floor(x: Any) -> Term:
    """Return the greatest whole number not above ``x``, in the dtype of ``x``."""
    return _call("floor", x)


def min(first: Any, *others: Any) -> Term:  # noqa: A001
    """Return the least argument."""
    return _call("min", first, *others)


def max(first: Any, *others: Any) -> Term:  # noqa: A001
    """Return the greatest argument."""
    return _call("max", first, *others)


def avg(first: Any, *others: Any) -> Term:
    """Return the mean of the arguments, float64."""
    return _call("avg", first, *others)


def coalesce(first: Any, *others: Any) -> Term:
    """Return the first argument that is not null."""
    return _call("coalesce", first, *others)


def case(*branches: tuple[Any, Any], otherwise: Any = None) -> Term:
    """Return the value of the first branch ``(condition, value)`` whose condition is true, or ``otherwise``."""
    if not branches or not all(isinstance(branch, tuple) and len(branch) == 2 for branch in branches):
        raise ValidationError(f"case needs pairs (condition, value), as in case((a.v > 1, 'high')), not {branches!r}")
    arguments = [part for branch in branches for part in branch]
    return _call("case", *arguments, *([] if otherwise is None else [otherwise]))


def lower(x: Any) -> Term:
    """Return a string in lower case."""
    return _call("lower", x)


def upper(x: Any) -> Term:
    """Return a string in upper case."""
    return _call("upper", x)


def substr(x: Any, start: Any, count: Any = None) -> Term:
    """Return ``count`` characters (None: all) from ``start``, which counts from 1, or from the end if negative."""
    return _call("substr", x, start, *([] if count is None else [count]))


def length(x: Any) -> Term:
    """Return the number of characters of a string."""
    return _call("length", x)


def starts_with(x: Any, text: Any) -> Term:
    """Return the condition that a string begins with ``text``."""
    return _call("starts_with", x, text)


def ends_with(x: Any, text: Any) -> Term:
    """Return the condition that a string ends with ``text``."""
    return _call("ends_with", x, text)


def contains(x: Any, text: Any) -> Term:
    """Return the condition that ``text`` is a part of a string."""
    return _call("contains", x, text)


def like(x: Any, pattern: Any, escape: str | None = None) -> Term:
    """Return the condition ``x LIKE pattern``: ``%`` is any text, ``_`` one character; ``escape`` makes them plain."""
    return _call("like", x, pattern, *([] if escape is None else [escape]))


def timestamp(text: str) -> Term:
    """Return a time constant such as ``"2026-11-27T08:30:00+01:00"``; without an offset it is UTC."""
    return Term(ast.TimestampLiteral(parse_time(text)))


def hour(x: Any, zone: str | None = None) -> Term:
    """Return the hour of a time, 0 to 23, in a time zone such as ``"Europe/Berlin"`` (None: UTC)."""
    return _call("hour", x, *([] if zone is None else [zone]))


def minute(x: Any, zone: str | None = None) -> Term:
    """Return the minute of a time, 0 to 59, in a time zone (None: UTC)."""
    return _call("minute", x, *([] if zone is None else [zone]))


def dayofweek(x: Any, zone: str | None = None) -> Term:
    """Return the day of the week of a time, from 1 (Monday) to 7, in a time zone (None: UTC)."""
    return _call("dayofweek", x, *([] if zone is None else [zone]))


def date(x: Any, zone: str | None = None) -> Term:
    """Return the time when the day of a time begins in a time zone (None: UTC)."""
    return _call("date", x, *([] if zone is None else [zone]))


def nanoseconds(x: Any) -> Term:
    """Return a time as int64 nanoseconds since the epoch."""
    return _call("nanoseconds", x)


def prev(x: Term, places: int = 1) -> Term:
    """Return an attribute of an earlier event: ``prev(x.a, k)`` is that of the event k places before x.

    Places count in the partition of x or, without PARTITION BY, in the stream.
    """
    if not isinstance(x, Term) or not isinstance(x.node, ast.Attribute) or x.node.places:
        raise ValidationError(f"prev needs an attribute of a variable, such as prev(x.price), not {x!r}")
    if isinstance(places, bool) or not isinstance(places, int) or not 1 <= places <= MAX_PLACES:
        raise ValidationError(f"prev counts places from 1 to {MAX_PLACES:,}, not {places!r}")
    return Term(replace(x.node, places=places))


def duration(text: str) -> Term:
    """Return a duration such as ``"5min"``, in nanoseconds."""
    return Term(ast.DurationLiteral(parse_duration(text)))
