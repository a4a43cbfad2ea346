"""Draw conditions and values with null, choice and strings: IS NULL, coalesce, CASE, LIKE, functions of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcep.query import ast

if TYPE_CHECKING:
    from strategies.queries import Expressions

COMPARISONS = ("=", "<=", ">=", "<", ">", "!=")
PATTERNS = ("x%", "%", "_", "%x", "_%", "X", "", "%!%%", "y_")


def text(make: Expressions, depth: int) -> ast.Expr:
    """Draw a string: an attribute, a constant if there is none, or a function of one."""
    kind = make.pick("leaf", "leaf", "upper", "lower", "substr", "coalesce", "case") if depth > 0 else "leaf"
    if kind == "leaf":
        return make.reference("string") or make.pick(
            *(ast.Literal(word) for word in ("x", "y", "")), make.type_of_one()
        )
    inner = text(make, depth - 1)
    if kind == "substr":
        count = make.pick((), (ast.Literal(1),), (make.leaf_int(),))
        return ast.Call("substr", (inner, make.pick(ast.Literal(1), ast.Literal(-1), make.leaf_int()), *count))
    if kind == "coalesce":
        return ast.Call("coalesce", (inner, make.pick(ast.Literal("x"), text(make, 0))))
    if kind == "case":
        return ast.Call("case", (make.condition(0), inner, *make.pick((), (ast.Literal("y"),), (text(make, 0),))))
    return ast.Call(kind, (inner,))


def text_condition(make: Expressions) -> ast.Expr:
    """Draw a condition on strings."""
    operand = text(make, make.pick(0, 1, 1, 2))
    kind = make.pick("like", "order", "function", "length", "between", "equality")
    other = make.pick(ast.Literal("x"), ast.Literal("y"), ast.Literal(""), text(make, 0))
    if kind == "like":
        pattern = make.pick(*PATTERNS)
        escape = (ast.Literal("!"),) if "!" in pattern else ()
        return ast.Call("like", (operand, ast.Literal(pattern), *escape))
    if kind == "function":
        return ast.Call(make.pick("starts_with", "ends_with", "contains"), (operand, other))
    if kind == "length":
        return ast.Binary(make.pick(*COMPARISONS), ast.Call("length", (operand,)), ast.Literal(make.pick(1, 0)))
    if kind == "between":
        return ast.Between(operand, ast.Literal(""), other)
    operator = make.pick(*COMPARISONS) if kind == "order" else make.pick("=", "!=")
    return ast.Binary(operator, operand, other)


def null_condition(make: Expressions) -> ast.Expr:
    """Draw a condition on null or on a choice of values."""
    kind = make.pick("is null", "is null", "coalesce", "case", "condition")
    value = make.pick("number", "text", "bool")
    operand = make.number(1) if value == "number" else text(make, 1) if value == "text" else make.reference("bool")
    if kind == "is null":
        test = ast.Call("is null", (operand or make.condition(0),))
        return make.pick(test, ast.Unary("NOT", test))
    comparison = make.pick(*COMPARISONS)
    if kind == "coalesce":
        choice = ast.Call("coalesce", (make.number(1), make.pick(make.constant(), make.number(0))))
        return ast.Binary(comparison, choice, make.number(0))
    if kind == "case":
        branches = [make.condition(0), make.number(0)] * make.pick(1, 1, 2)
        return ast.Binary(comparison, ast.Call("case", (*branches, *make.pick((), (make.constant(),)))), make.number(0))
    return ast.Call("case", (make.condition(0), make.condition(0), *make.pick((), (make.condition(0),))))


def time(make: Expressions) -> ast.Expr:
    """Draw a time between 1969 and 1970, from hours, days or months that an attribute counts, or any integer."""
    scale = ast.DurationLiteral(make.pick(7 * 3600 * 10**9, 86400 * 10**9, 101 * 86400 * 10**9, 1))
    later = ast.Binary("*", make.leaf_int(), scale)
    moment = make.reference("timestamp") if make.pick(False, True) else None
    return ast.Binary("+", moment or make.attribute(make.pick(*make.positive), "time"), later)


def time_condition(make: Expressions) -> ast.Expr:
    """Draw a condition on a time of day, a day, or a time constant."""
    kind = make.pick("function", "function", "date", "constant")
    zone = make.pick((), *((ast.Literal(name),) for name in ("Europe/Berlin", "America/St_Johns", "America/Havana")))
    if kind == "date":
        return ast.Binary("=", ast.Call("date", (time(make), *zone)), ast.Call("date", (time(make), *zone)))
    if kind == "constant":
        return ast.Binary(make.pick(*COMPARISONS), time(make), ast.TimestampLiteral(make.pick(0, 1, 86400 * 10**9, -1)))
    function, constant = make.pick(("hour", 7), ("dayofweek", 4), ("minute", 30), ("hour", 1))
    return ast.Binary(make.pick(*COMPARISONS), ast.Call(function, (time(make), *zone)), ast.Literal(constant))
