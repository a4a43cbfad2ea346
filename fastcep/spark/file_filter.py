"""Translate the condition of a DataFrame's filter for the tasks that read its files, if Arrow evaluates it alike.

This holds for comparisons of integers, strings, booleans and timestamps with constants, combined by AND, OR and NOT:
both sides use three-valued logic and keep the rows for which the condition is true. Floats are not translated, as Spark
regards NaN as equal to itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["condition_of"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_COMPARED = (*_INTEGERS, "string", "boolean", "timestamp")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq, "LessThan": operator.lt, "LessThanOrEqual": operator.le, "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
}  # fmt: skip
_TIMESTAMP = pa.timestamp("us", "UTC")


def condition_of(node: Any) -> tuple[pc.Expression, frozenset[str]] | None:
    """Translate a condition of Spark (a Java object); return it and the names of its columns, or None."""
    names: set[str] = set()
    expression = _condition(node, names)
    return None if expression is None else (expression, frozenset(names))


def _condition(node: Any, names: set[str]) -> pc.Expression | None:
    name = _name(node)
    if name in ("And", "Or"):
        return _joined(operator.and_ if name == "And" else operator.or_,
                       [_condition(side, names) for side in (node.left(), node.right())])  # fmt: skip
    if name == "Not":
        inner = _condition(node.child(), names)
        return None if inner is None else ~inner
    if name in ("IsNull", "IsNotNull"):
        column = _column(node.child(), names)
        if column is None:
            return None
        is_null: pc.Expression = column[0].is_null()
        return is_null if name == "IsNull" else ~is_null
    if name == "In":
        items = (node.list().apply(number) for number in range(node.list().size()))
        return _joined(operator.or_, [_compared("EqualTo", node.value(), item, names) for item in items])
    if name == "Between":
        bounds = (("GreaterThanOrEqual", node.lower()), ("LessThanOrEqual", node.upper()))
        return _joined(operator.and_, [_compared(one, node.input(), bound, names) for one, bound in bounds])
    return _compared(name, node.left(), node.right(), names) if name in _COMPARISONS else None


def _joined(connective: Callable[[Any, Any], Any], parts: Sequence[pc.Expression | None]) -> pc.Expression | None:
    translated = [part for part in parts if part is not None]
    return reduce(connective, translated) if len(translated) == len(parts) > 0 else None


def _compared(name: str, left: Any, right: Any, names: set[str]) -> pc.Expression | None:
    """Return a comparison of a column with a constant, or of a constant with a column."""
    compare = _COMPARISONS[name]
    column, value = _column(left, names), _value(right)
    if column is not None and value is not None:
        return compare(column[0], value[0]) if _alike(column[1], value[1]) else None
    column, value = _column(right, names), _value(left)
    if column is not None and value is not None:
        return compare(value[0], column[0]) if _alike(column[1], value[1]) else None
    return None


def _alike(one: str, other: str) -> bool:
    return one == other or (one in _INTEGERS and other in _INTEGERS)


def _column(node: Any, names: set[str]) -> tuple[pc.Expression, str] | None:
    """Return a column, or an integer column that is cast to more bits, and its type."""
    kind = node.dataType().simpleString()
    if _name(node) == "Cast":
        inner = node.child().dataType().simpleString()
        if kind not in _INTEGERS or inner not in _INTEGERS or _INTEGERS.index(inner) > _INTEGERS.index(kind):
            return None
        node = node.child()
    if _name(node) != "AttributeReference" or kind not in _COMPARED:
        return None
    names.add(str(node.name()))
    return pc.field(str(node.name())), kind


def _value(node: Any) -> tuple[pa.Scalar[Any], str] | None:
    """Return a constant that is not null, and its type."""
    kind = node.dataType().simpleString()
    if not node.foldable() or kind not in _COMPARED:
        return None
    value = node.eval(None)
    if value is None:
        return None
    if kind == "string":
        return pa.scalar(str(value.toString()), pa.string()), kind
    if kind == "timestamp":
        return pa.scalar(int(value), _TIMESTAMP), kind
    return (pa.scalar(bool(value), pa.bool_()) if kind == "boolean" else pa.scalar(int(value), pa.int64())), kind


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())
