"""Remedies for operands of the wrong type."""

from __future__ import annotations

import re

from fastcep.errors import ValidationError
from fastcep.events.units import parse_time
from fastcep.query import ast
from fastcep.query.printer import short_text

__all__ = ["kind_remedy", "number_remedy"]

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def number_remedy(operand: ast.Expr) -> str:
    """Return the remedy, after a semicolon, for an operand that must be a number."""
    if isinstance(operand, ast.Literal) and isinstance(operand.value, str) and _NUMBER.fullmatch(operand.value):
        return f"; write {operand.value} without quotes"
    return "; use a number, or an attribute of type int64 or float64"


def kind_remedy(left: tuple[ast.Expr, str], right: tuple[ast.Expr, str]) -> str:
    """Return the remedy, after a semicolon, for a comparison of two operands, given with their dtypes."""
    for (literal, _), (other, dtype) in ((right, left), (left, right)):
        if not isinstance(literal, ast.Literal) or isinstance(other, ast.Literal):
            continue
        value = literal.value
        if dtype == "bool":
            return f"; write {short_text(other)} = TRUE or = FALSE"
        if dtype == "string":
            return f"; write '{short_text(literal)}' for a text"
        if dtype == "timestamp" and isinstance(value, str):
            return "; write TIMESTAMP " + (short_text(literal) if _is_time(value) else "'2026-11-27'")
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return f"; write {value} without quotes"
        return f"; compare {short_text(other)} with a number"
    return "; compare values of one type"


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValidationError:
        return False
    return True
