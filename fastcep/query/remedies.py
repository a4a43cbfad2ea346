"""Remedies for operands of the wrong type."""

from __future__ import annotations

import re

from fastcep.query import ast
from fastcep.query.printer import short_text

__all__ = ["kind_remedy", "number_remedy"]

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def number_remedy(operand: ast.Expr) -> str:
    """Return the remedy, after a semicolon, for an operand that must be a number."""
    if isinstance(operand, ast.Literal) and isinstance(operand.value, str) and _NUMBER.fullmatch(operand.value):
        return f"; write {operand.value} without quotes"
    return "; use a number, or an attribute of type int64 or float64"


def kind_remedy(left: ast.Expr, right: ast.Expr) -> str:
    """Return the remedy, after a semicolon, for a comparison of two operands of different kinds."""
    for literal, other in ((right, left), (left, right)):
        if not isinstance(literal, ast.Literal) or isinstance(other, ast.Literal):
            continue
        value = literal.value
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return f"; write {value} without quotes, or compare a text"
        if isinstance(value, bool):
            return f"; compare {short_text(other)} with a value of its own type"
        if isinstance(value, int | float) and value in (0, 1):
            return "; write TRUE or FALSE for a bool, and a text in quotes"
        if isinstance(value, int | float):
            return f"; write '{short_text(literal)}' for a text"
    return "; compare values of one type"
