"""Registered functions for tests, and the meaning of a call in the reference matcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from fastcep.query import ast
from fastcep.query.user_functions import registry
from fastcep.query.user_functions.registry import Function, function, functions

Value = int | float | bool | str | None


def user_call(signature: ast.Signature, arguments: Sequence[Value]) -> Value:
    """Call a registered function in Python; the result is null if any argument is, or if it raises."""
    if any(argument is None for argument in arguments):
        return None
    typed = [
        float(argument) if dtype == "float64" and argument is not None else argument
        for argument, dtype in zip(arguments, signature.parameters, strict=True)
    ]
    try:
        result: Value = functions()[signature.name].python(*typed)
    except Exception:
        return None
    return (
        None
        if result is None
        else {"int64": int, "float64": float, "bool": bool, "string": str}[signature.result](result)
    )


@contextmanager
def own_registry() -> Iterator[None]:
    """Remove the functions that are registered inside the block afterwards."""
    before = dict(registry._registered)
    try:
        yield
    finally:
        registry._registered.clear()
        registry._registered.update(before)


def distance(x: float, y: float) -> float:
    """Return NaN for NaN, and infinite differences too."""
    return abs(x - y)


def cell(x: float, size: int) -> int | None:
    """Raise for size 0; return None for values without a cell."""
    if not abs(x) < 2.0**53:
        return None
    return int(x // size) % 7


def odd(k: int, flag: bool) -> bool:
    return (k % 2 == 1) != flag


def ratio(x: float, y: float) -> float:
    """Raise for y = 0."""
    return x / y


@cache
def _made() -> tuple[Function, ...]:
    """Create the functions once, so that they are compiled once."""
    signatures = {
        distance: "float64(float64, float64)",
        cell: "int64(float64, int64)",
        odd: "bool(int64, bool)",
        ratio: "float64(float64, float64)",
    }
    with own_registry():
        return tuple(function(signature)(python) for python, signature in signatures.items())


def sample() -> dict[str, Function]:
    """Register the functions above."""
    made = {each.name: each for each in _made()}
    registry._registered.update(made)
    return made
