"""Remarks on queries that are valid but hardly mean what they say: parsing them warns (`QueryWarning`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastcep.query import ast, traversal
from fastcep.query.printer import short_text
from fastcep.query.remarks.loops import loop_remarks
from fastcep.query.remarks.sizes import size_remarks
from fastcep.query.source import Problem
from fastcep.query.types import Scope, type_of

__all__ = ["remarks"]

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def remarks(query: ast.Query) -> Iterator[Problem]:
    """Yield what a checked query says but hardly means: a message with a remedy, and its place."""
    yield from loop_remarks(query.pattern)
    yield from size_remarks(query)
    if query.where is None:
        return
    scope = Scope.of(query)
    conjuncts = [part for part in traversal.conjuncts(query.where) if not isinstance(part, ast.SameAttributes)]
    for conjunct in conjuncts:
        found = [remark for part in traversal.walk(conjunct) for remark in _of_part(part, scope)]
        found += _shifts(conjunct, scope)
        yield from found
        limits = (conjunct.low, conjunct.high) if isinstance(conjunct, ast.Between) else ()
        if not found and any(map(_is_unknown, (conjunct, *limits))):
            yield Problem(
                f"{short_text(conjunct)} is never true, because NULL is unknown; remove it, or write IS NULL",
                conjunct,
            )
    yield from _contradictions(conjuncts)


def _of_part(part: ast.Expr, scope: Scope) -> Iterator[Problem]:
    if isinstance(part, ast.Binary) and part.operator in _COMPARISONS:
        for value, other in ((part.left, part.right), (part.right, part.left)):
            if _is_null(other):
                negation = "NOT " if part.operator == "!=" else ""
                yield Problem(
                    f"a comparison with NULL is always unknown; write {_operand(value)} IS {negation}NULL", part
                )
                return
        yield from _bare_number(part.left, part.right, scope)
        yield from _bare_number(part.right, part.left, scope)
    elif isinstance(part, ast.Between):
        for limit in (part.low, part.high):
            yield from _bare_number(part.operand, limit, scope)
    elif isinstance(part, ast.Membership) and any(_is_null(value) for value in part.values):
        text = short_text(part.operand)
        meaning = "is never true" if part.negated else "never finds a null"
        remedy = f"{text} IS NOT NULL AND" if part.negated else f"{text} IS NULL OR"
        yield Problem(f"a set with NULL {meaning}; leave NULL out, and write {remedy} … for nulls", part)


def _operand(value: ast.Expr) -> str:
    text = short_text(value)
    return f"({text})" if isinstance(value, ast.Call) and value.function in ("is null", "like") else text


def _is_null(node: ast.Expr) -> bool:
    return isinstance(node, ast.Literal) and node.value is None


def _bare_number(value: ast.Expr, number: ast.Expr, scope: Scope) -> Iterator[Problem]:
    """Yield the remark on a time, or on the difference of two times, that is compared with a number without a unit."""
    if not isinstance(number, ast.Literal) or isinstance(number.value, bool | str | None) or number.value == 0:
        return
    text = short_text(number)
    if type_of(value, scope) == "timestamp":
        yield Problem(
            f"{short_text(value)} is a time, so {text} means {text} ns after the start of 1970; write a time such as "
            f"TIMESTAMP '2026-11-27', or nanoseconds({short_text(value)}) for the number",
            number,
        )
    elif _is_difference(value, scope):
        whole = abs(int(number.value)) if math.isfinite(number.value) else 1
        yield Problem(
            f"{short_text(value)} is a duration, so {text} means {text} ns; write a unit, as in {whole}s, or "
            f"{whole}ns if you mean that",
            number,
        )


def _shifts(conjunct: ast.Expr, scope: Scope) -> Iterator[Problem]:
    """Yield the remarks on times to which a number without a unit is added, each chain of operators in one pass."""
    visited: set[int] = set()
    for part in traversal.walk(conjunct):
        if not isinstance(part, ast.Binary) or id(part) in visited:
            continue
        first, chain = part.spine()
        is_time = type_of(first, scope) == "timestamp"
        for operation in chain:
            visited.add(id(operation))
            number, is_shift = operation.right, operation.operator in ("+", "-")
            value = number.value if isinstance(number, ast.Literal) else None
            if is_time and is_shift and value and not isinstance(value, bool | str):
                whole = abs(int(value)) if math.isfinite(value) else 1
                text = short_text(number)
                yield Problem(
                    f"{short_text(operation.left)} is a time, so {text} means {text} ns; write a unit, as in {whole}s, "
                    f"or {whole}ns if you mean that",
                    number,
                )
            other = is_shift and type_of(number, scope) == "timestamp"
            is_time = is_shift and (is_time != other if operation.operator == "-" else is_time or other)


def _is_difference(value: ast.Expr, scope: Scope) -> bool:
    if not isinstance(value, ast.Binary) or value.operator != "-":
        return False
    return type_of(value.left, scope) == type_of(value.right, scope) == "timestamp"


def _is_unknown(node: ast.Expr) -> bool:
    """Return whether an expression is null whatever the events are."""
    match node:
        case ast.Literal(value=None):
            return True
        case ast.Binary():
            first, chain = node.spine()
            is_unknown = _is_unknown(first)
            for operation in chain:
                both = all if operation.operator in ("AND", "OR") else any
                is_unknown = both((is_unknown, _is_unknown(operation.right)))
            return is_unknown
        case ast.Between(operand=operand, low=low, high=high):  # one limit may be enough for false
            return _is_unknown(operand) or (_is_unknown(low) and _is_unknown(high))
        case ast.Call(function="is null"):
            return False
        case ast.Call(function="coalesce", arguments=arguments):
            return all(map(_is_unknown, arguments))
        case ast.Call(function="case", arguments=arguments):
            return all(map(_is_unknown, [*arguments[1::2], *arguments[len(arguments) // 2 * 2 :]]))
    return any(map(_is_unknown, traversal.children(node)))


# -------------------------------------------------------------------- ranges


@dataclass(slots=True)
class _Range:
    """The values that conditions leave to one expression, and the conjuncts that set its two limits."""

    low: Any = -math.inf
    high: Any = math.inf
    open_low: bool = False
    open_high: bool = False
    low_from: ast.Expr | None = None
    high_from: ast.Expr | None = None

    def excluding(self, operator: str, value: Any, conjunct: ast.Expr) -> ast.Expr | None:
        """Add a condition of ``conjunct``; return a conjunct, perhaps this one, that leaves no value with it."""
        if isinstance(value, str):  # only = is read for texts
            if self.low_from is not None and self.low != value:
                return self.low_from
            self.low, self.low_from = value, conjunct
            return None
        is_open = operator in ("<", ">")
        if operator in (">", ">=", "=") and (value, is_open) > (self.low, self.open_low):
            self.low, self.open_low, self.low_from = value, is_open, conjunct
        if operator in ("<", "<=", "=") and (value, not is_open) < (self.high, not self.open_high):
            self.high, self.open_high, self.high_from = value, is_open, conjunct
        if self.low < self.high or (self.low == self.high and not (self.open_low or self.open_high)):
            return None
        return (self.high_from if self.low_from is conjunct else self.low_from) or conjunct


def _contradictions(conjuncts: list[ast.Expr]) -> Iterator[Problem]:
    """Yield the first conjunct that no value of its expression can satisfy together with one before."""
    ranges: dict[ast.Expr, _Range] = {}
    for conjunct in conjuncts:
        for value, operator, constant in _bounds(conjunct):
            other = ranges.setdefault(value, _Range()).excluding(operator, constant, conjunct)
            if other is not None:
                text = f"{short_text(conjunct)} is never true"
                if other is not conjunct:
                    text = f"{short_text(other)} and {short_text(conjunct)} are never both true"
                yield Problem(f"{text}; correct a limit, or join alternatives by OR", conjunct)
                return


def _bounds(conjunct: ast.Expr) -> Iterator[tuple[ast.Expr, str, Any]]:
    """Yield an expression, an operator and a constant for each limit that a conjunct sets."""
    if isinstance(conjunct, ast.Between):
        for limit, operator in ((conjunct.low, ">="), (conjunct.high, "<=")):
            if (constant := _constant(limit)) is not None:
                yield conjunct.operand, operator, constant
    elif isinstance(conjunct, ast.Binary) and conjunct.operator in _COMPARISONS:
        for value, other, operator in (
            (conjunct.left, conjunct.right, conjunct.operator),
            (conjunct.right, conjunct.left, _MIRRORED[conjunct.operator]),
        ):
            constant = _constant(other)
            is_limit = operator == "=" or (operator != "!=" and not isinstance(constant, str))
            if is_limit and constant is not None and _constant(value) is None:
                yield value, operator, constant


def _constant(node: ast.Expr) -> int | float | str | None:
    if isinstance(node, ast.DurationLiteral | ast.TimestampLiteral):
        return node.nanoseconds
    if isinstance(node, ast.Literal) and isinstance(node.value, int | float | str) and not isinstance(node.value, bool):
        return node.value
    return None
