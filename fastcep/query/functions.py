"""Scalar functions for queries from the builder; use them with the module name, as in ``functions.min(a.x, b.x)``."""

from __future__ import annotations

from typing import Any

from fastcep.events.units import parse_duration
from fastcep.query import ast
from fastcep.query.terms import Term, node_of

__all__ = ["abs", "avg", "duration", "exp", "floor", "log", "max", "min", "sqrt"]


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


def duration(text: str) -> Term:
    """Return a duration such as ``"5min"``, in nanoseconds."""
    return Term(ast.DurationLiteral(parse_duration(text)))
