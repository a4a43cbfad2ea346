"""Null, choice and strings in the reference matcher: IS NULL, coalesce, CASE, LIKE and the functions of strings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from fastcep.query import ast
from reference.values import Value, checked, compare, truth

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Functions of this module, by the name of the call.
FORMS = frozenset({
    "is null", "coalesce", "case", "like", "lower", "upper", "substr", "starts_with", "ends_with", "contains", "length",
    "hour", "minute", "dayofweek", "date", "nanoseconds",
})  # fmt: skip


def form(node: ast.Call, value: Callable[[ast.Expr], Value]) -> Value:
    """Return the value of a call; ``value`` evaluates an argument."""
    arguments = list(map(value, node.arguments))
    if node.function == "is null":
        return arguments[0] is None
    if node.function == "coalesce":
        return widened(next((argument for argument in arguments if argument is not None), None), arguments)
    if node.function == "case":
        results = [*arguments[1::2], *(arguments[-1:] if len(arguments) % 2 else [])]
        for place in range(0, len(arguments) - 1, 2):
            if truth(arguments[place]) is True:
                return widened(arguments[place + 1], results)
        return widened(arguments[-1] if len(arguments) % 2 else None, results)
    if any(argument is None for argument in arguments):
        return None
    if node.function in ("hour", "minute", "dayofweek", "date", "nanoseconds"):
        return calendar(node.function, *arguments)
    text, *others = arguments
    assert isinstance(text, str), text
    match node.function, others:
        case "lower", []:
            return text.lower()
        case "upper", []:
            return text.upper()
        case "length", []:
            return len(text)
        case "starts_with", [str(part)]:
            return text[: len(part)] == part
        case "ends_with", [str(part)]:
            return len(part) <= len(text) and text[len(text) - len(part) :] == part
        case "contains", [str(part)]:
            return any(text[place : place + len(part)] == part for place in range(len(text) + 1))
        case "like", [str(pattern), *mark]:
            return like(text, pattern, str(mark[0]) if mark else "")
        case "substr", [int(start), *count]:
            first = start if start >= 0 else len(text) + start + 1
            numbers = range(first, first + int(count[0])) if count else range(first, len(text) + 1)
            return "".join(letter for place, letter in enumerate(text, 1) if place in numbers)
    raise AssertionError(node)


def calendar(function: str, time: Value, zone: Value = "UTC") -> Value:
    """Return a part of a time in a time zone, or the moment when its day begins there; null if it does not fit."""
    assert isinstance(time, int) and isinstance(zone, str), (time, zone)
    if function == "nanoseconds":
        return time
    moment = EPOCH + timedelta(seconds=time // 10**9)
    local = moment.astimezone(ZoneInfo(zone))
    shift = local.utcoffset()
    if shift and checked(time + shift // timedelta(microseconds=1) * 1000) is None:
        return None
    if function != "date":
        return {"hour": local.hour, "minute": local.minute, "dayofweek": local.isoweekday()}[function]
    begins = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)
    return checked((begins - EPOCH) // timedelta(seconds=1) * 10**9)


def widened(value: Value, others: list[Value]) -> Value:
    """Return an int as a float if another value is a float: the values of a choice have one dtype."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_int and any(isinstance(other, float) for other in others) else value


def like(text: str, pattern: str, mark: str) -> bool:
    """Return True if a text has the form of a pattern: ``%`` is any text, ``_`` one character, ``mark`` escapes."""
    if not pattern:
        return not text
    if mark and pattern[0] == mark and len(pattern) > 1:
        return text[:1] == pattern[1] and like(text[1:], pattern[2:], mark)
    if pattern[0] == "%":
        return any(like(text[place:], pattern[1:], mark) for place in range(len(text) + 1))
    return text != "" and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:], mark)


def ordered(operator: str, left: Value, right: Value) -> bool | None:
    """Compare two texts by their code points; anything else as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
    return compare(operator, left, right)
