"""Translate the conditions of a DataFrame's filters for the tasks that read its files, if Arrow evaluates them alike.

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

__all__ = ["class_name", "condition_of"]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_COMPARED = (*_INTEGERS, "string", "boolean", "timestamp")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq, "LessThan": operator.lt, "LessThanOrEqual": operator.le, "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
}  # fmt: skip
_TIMESTAMP = pa.timestamp("us", "UTC")
#: Maximum numbers of conditions, and of values of IN, which are read from the JVM one by one. Translation and
#: evaluation are recursive, so they also limit the depth of the stack.
_MAX_CONDITIONS, _MAX_VALUES = 200, 100


def condition_of(
    nodes: Sequence[Any], stored_name: Callable[[int], str | None]
) -> tuple[pc.Expression, frozenset[str]] | None:
    """Translate conditions of Spark (Java objects) that must all hold; return one, and the names of its columns.

    ``stored_name`` returns the name of a column in the files, given Spark's number of the column.
    """
    translator = _Translator(stored_name)
    expression = _joined(operator.and_, [translator.condition(node) for node in nodes])
    return None if expression is None else (expression, frozenset(translator.names))


class _Translator:
    """Translator of conditions, which collects the names of their columns."""

    def __init__(self, stored_name: Callable[[int], str | None]) -> None:
        self.names: set[str] = set()
        self._stored_name = stored_name
        self._conditions, self._values = 0, 0

    def condition(self, node: Any) -> pc.Expression | None:
        self._conditions += 1
        if self._conditions > 2 * _MAX_CONDITIONS:  # AND, OR and NOT included
            return None
        name = class_name(node)
        if name in ("And", "Or"):
            return _joined(operator.and_ if name == "And" else operator.or_,
                           [self.condition(side) for side in (node.left(), node.right())])  # fmt: skip
        if name == "Not":
            inner = self.condition(node.child())
            return None if inner is None else ~inner
        if name in ("IsNull", "IsNotNull"):
            column = self._column(node.child())
            if column is None:
                return None
            is_null: pc.Expression = column[0].is_null()
            return is_null if name == "IsNull" else ~is_null
        if name == "In":
            return self._in(node)
        if name == "Between":
            bounds = (("GreaterThanOrEqual", node.lower()), ("LessThanOrEqual", node.upper()))
            return _joined(operator.and_, [self._compared(one, node.input(), bound) for one, bound in bounds])
        return self._compared(name, node.left(), node.right()) if name in _COMPARISONS else None

    def _in(self, node: Any) -> pc.Expression | None:
        count = node.list().size()
        self._values += count
        if self._values > _MAX_VALUES:
            return None
        items = (node.list().apply(number) for number in range(count))
        return _joined(operator.or_, [self._compared("EqualTo", node.value(), item) for item in items])

    def _compared(self, name: str, left: Any, right: Any) -> pc.Expression | None:
        """Return a comparison of a column with a constant, or of a constant with a column."""
        compare = _COMPARISONS[name]
        column, value = self._column(left), _value(right)
        if column is not None and value is not None:
            return compare(column[0], value[0]) if _alike(column[1], value[1]) else None
        column, value = self._column(right), _value(left)
        if column is not None and value is not None:
            return compare(value[0], column[0]) if _alike(column[1], value[1]) else None
        return None

    def _column(self, node: Any) -> tuple[pc.Expression, str] | None:
        """Return a column, or an integer column that is cast to more bits, and its type."""
        kind = node.dataType().simpleString()
        if class_name(node) == "Cast":
            inner = node.child().dataType().simpleString()
            if kind not in _INTEGERS or inner not in _INTEGERS or _INTEGERS.index(inner) > _INTEGERS.index(kind):
                return None
            node = node.child()
        if class_name(node) != "AttributeReference" or kind not in _COMPARED:
            return None
        stored = self._stored_name(int(node.exprId().id()))
        if stored is None:
            return None
        self.names.add(stored)
        return pc.field(stored), kind


def _joined(connective: Callable[[Any, Any], Any], parts: Sequence[pc.Expression | None]) -> pc.Expression | None:
    translated = [part for part in parts if part is not None]
    return reduce(connective, translated) if len(translated) == len(parts) > 0 else None


def _alike(one: str, other: str) -> bool:
    return one == other or (one in _INTEGERS and other in _INTEGERS)


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


def class_name(node: Any) -> str:
    """Return the name of the class of a Java object, without its package."""
    return str(node.getClass().getSimpleName())
