"""Translate the forms that choose between values or look at null: ``IS NULL``, ``coalesce``, ``CASE``, ``LIKE``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from fastcep.plan.ir import Op, const, to_float
from fastcep.plan.text import text_call

__all__ = ["SPECIAL", "special"]

#: Functions of `special`.
SPECIAL = frozenset({"is null", "coalesce", "case", "like"})
#: Maximum number of branches of a choice that are tested one after the other.
_CHAIN = 8


def special(function: str, args: Sequence[Op]) -> Op:
    """Return the expression of a call; ``args`` are the translated arguments."""
    if function == "is null":
        return Op("not", "b", (_known(args[0]),))
    if function == "like":
        return text_call("like", args, "b")
    if function == "coalesce":
        *values, otherwise = _alike(args)
        return _choice([(_known(value), value) for value in values], otherwise)
    pairs = len(args) // 2
    *values, otherwise = _alike([*args[1 : 2 * pairs : 2], args[-1] if len(args) % 2 else const(None, "i")])
    return _choice(list(zip(args[: 2 * pairs : 2], values, strict=True)), otherwise)


def _alike(values: Sequence[Op]) -> list[Op]:
    """Convert values of the same kind to one physical dtype; among strings or bools, a value of another one is null."""
    dtypes = {value.dtype for value in values}
    target = next(dtype for dtype in "sbfi" if dtype in dtypes)
    return [_converted(value, target) for value in values]


def _converted(value: Op, target: str) -> Op:
    if value.dtype == target:
        return value
    return to_float(value) if target == "f" else const(None, target)


def _choice(branches: Sequence[tuple[Op, Op]], otherwise: Op) -> Op:
    """Return the value of the first branch whose condition is true.

    Many branches become a balanced tree, because the depth of an expression is limited.
    """
    if len(branches) > _CHAIN:
        half = len(branches) // 2
        is_early = reduce(lambda left, right: Op("or", "b", (left, right)), (each for each, _ in branches[:half]))
        early = _choice(branches[:half], const(None, otherwise.dtype))
        return Op("select", otherwise.dtype, (is_early, early, _choice(branches[half:], otherwise)))
    result = otherwise
    for condition, value in reversed(branches):
        result = Op("select", value.dtype, (condition, value, result))
    return result


def _known(value: Op) -> Op:
    """Return the test that a value is not null. NaN is a value, so the mask of nulls decides for floats too."""
    return Op("known_i", "b", (value,))
