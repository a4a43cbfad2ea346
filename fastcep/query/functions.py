"""Scalar functions for built queries; meant to be used with their module's name, as in ``functions.min(a.x, b.x)``."""

from __future__ import annotations

from typing import Any

from fastcep.events.units import parse_duration
from fastcep.query import ast
from fastcep.query.terms import Term, node_of

__all__ = ["abs", "avg", "duration", "exp", "floor", "log", "max", "min", "sqrt"]


def _call(function: str, *arguments: Any) -> Term:
    return Term(ast.Call(function, tuple(map(node_of, arguments))))


def abs(x: Any) -> Term:  # noqa: A001
    """Absolute value."""
    return _call("abs", x)


def sqrt(x: Any) -> Term:
    """Square root, float64; NaN below 0."""
    return _call("sqrt", x)


def exp(x: Any) -> Term:
    """Exponential, float64."""
    return _call("exp", x)


def log(x: Any) -> Term:
    """Natural logarithm, float64."""
    return _call("log", x)


def floor(x: Any) -> Term:
    """The greatest whole number that is not above ``x``, of its dtype."""
    return _call("floor", x)


def min(first: Any, *others: Any) -> Term:  # noqa: A001
    """The least of the arguments."""
    return _call("min", first, *others)


def max(first: Any, *others: Any) -> Term:  # noqa: A001
    """The greatest of the arguments."""
    return _call("max", first, *others)


def avg(first: Any, *others: Any) -> Term:
    """The mean of the arguments, float64."""
    return _call("avg", first, *others)


def duration(text: str) -> Term:
    """A duration such as ``"5min"``, in nanoseconds."""
    return Term(ast.DurationLiteral(parse_duration(text)))
