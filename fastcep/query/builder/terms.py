"""Expressions of the builder: Python operators on them create nodes of the AST."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, NoReturn

from fastcep.errors import ValidationError
from fastcep.events.units import parse_duration, parse_time
from fastcep.query import ast, traversal
from fastcep.query.printer import short_text
from fastcep.query.source import NESTED

__all__ = ["Term", "literal_of", "node_of"]


def literal_of(value: Any) -> ast.Literal:
    """Return the constant node of a number, string, bool or None, or of a NumPy scalar."""
    if hasattr(value, "dtype") and hasattr(value, "item"):
        value = value.item()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValidationError(f"{value!r} is not a constant; expected a number, a string, a bool or None")
    if isinstance(value, float) and math.isnan(value):
        raise ValidationError("NaN equals nothing, so a condition cannot use it; to find NaN write x != x")
    return ast.Literal(value)


def node_of(value: Any) -> ast.Expr:
    """Return the node of a term or a constant; a `timedelta` is a duration, a `datetime` a time (by default UTC)."""
    if isinstance(value, Term):
        return value.node
    if isinstance(value, timedelta):
        return ast.DurationLiteral(parse_duration(value))
    if isinstance(value, datetime):
        return ast.TimestampLiteral(parse_time(value.isoformat()))
    return literal_of(value)


class Term:
    """An expression. ``& | ~`` are AND, OR and NOT; ``**`` is ``^``; comparisons such as ``==`` return conditions.

    Parameters
    ----------
    node
        Node of the AST.
    """

    __slots__ = ("node",)
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # == returns a condition

    node: ast.Expr

    def __init__(self, node: ast.Expr) -> None:
        self.node = node

    def __repr__(self) -> str:
        if traversal.nesting(self.node) > ast.MAX_NESTING:
            return f"<{NESTED.format('expression')}>"
        return f"<{short_text(self.node)}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has no truth value before the stream runs; use & | ~ instead of and, or, not, "
            "and (a < b) & (b < c) instead of a < b < c"
        )

    def _binary(self, operator: str, other: Any) -> Term:
        return Term(ast.Binary(operator, self.node, node_of(other)))

    def _reflected(self, operator: str, other: Any) -> Term:
        return Term(ast.Binary(operator, node_of(other), self.node))

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return self._binary("=", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._binary("!=", other)

    def __lt__(self, other: Any) -> Term:
        return self._binary("<", other)

    def __le__(self, other: Any) -> Term:
        return self._binary("<=", other)

    def __gt__(self, other: Any) -> Term:
        return self._binary(">", other)

    def __ge__(self, other: Any) -> Term:
        return self._binary(">=", other)

    def __add__(self, other: Any) -> Term:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> Term:
        return self._reflected("+", other)

    def __sub__(self, other: Any) -> Term:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> Term:
        return self._reflected("-", other)

    def __mul__(self, other: Any) -> Term:
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> Term:
        return self._reflected("*", other)

    def __truediv__(self, other: Any) -> Term:
        return self._binary("/", other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._reflected("/", other)

    def __floordiv__(self, other: Any) -> Term:
        return self._binary("//", other)

    def __rfloordiv__(self, other: Any) -> Term:
        return self._reflected("//", other)

    def __mod__(self, other: Any) -> Term:
        return self._binary("%", other)

    def __rmod__(self, other: Any) -> Term:
        return self._reflected("%", other)

    def __pow__(self, other: Any) -> Term:
        return self._binary("^", other)

    def __rpow__(self, other: Any) -> Term:
        return self._reflected("^", other)

    def __neg__(self) -> Term:
        return Term(ast.Unary("-", self.node))

    def __abs__(self) -> Term:
        return Term(ast.Call("abs", (self.node,)))

    def __and__(self, other: Any) -> Term:
        return self._binary("AND", other)

    def __rand__(self, other: Any) -> Term:
        return self._reflected("AND", other)

    def __or__(self, other: Any) -> Term:
        return self._binary("OR", other)

    def __ror__(self, other: Any) -> Term:
        return self._reflected("OR", other)

    def __invert__(self) -> Term:
        return Term(ast.Unary("NOT", self.node))

    def isin(self, values: Iterable[Any]) -> Term:
        """Return the condition ``self IN {values}``."""
        return self._membership(values, negated=False)

    def notin(self, values: Iterable[Any]) -> Term:
        """Return the condition ``self NOT IN {values}``."""
        return self._membership(values, negated=True)

    def _membership(self, values: Iterable[Any], negated: bool) -> Term:
        constants = tuple(map(literal_of, values))
        if not constants:
            raise ValidationError("IN needs at least one value")
        return Term(ast.Membership(self.node, constants, negated))

    def between(self, low: Any, high: Any) -> Term:
        """Return the condition ``self BETWEEN low AND high``, both inclusive."""
        return Term(ast.Between(self.node, node_of(low), node_of(high)))

    def is_null(self) -> Term:
        """Return the condition ``self IS NULL``."""
        return Term(ast.Call("is null", (self.node,)))

    def like(self, pattern: Any, escape: str | None = None) -> Term:
        """Return the condition ``self LIKE pattern``: ``%`` is any text, ``_`` one character."""
        marks = () if escape is None else (literal_of(escape),)
        return Term(ast.Call("like", (self.node, node_of(pattern), *marks)))
