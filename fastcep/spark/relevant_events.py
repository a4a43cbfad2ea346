"""Which events can be told from none at all by a query: the others need not be sent anywhere.

These are events of types that no variable has, and those that fail conditions on themselves (``a.V = 10``) for each
variable that they could be bound to. Conditions are handed to Spark only where it is sure to mean the same by them:
comparisons of an attribute with constants, joined by AND, OR and NOT. What it would let through in vain the engine
refuses; so a condition that is not understood here is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import functions as F

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.plan import Plan
from fastcep.plan.slicing import relevant_types
from fastcep.query import ast
from fastcep.query.patterns import Leaf, leaves_of
from fastcep.query.types import BUILTINS
from fastcep.spark.columns import TYPE, Events

__all__ = ["condition", "relevant"]

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_EXACT = 2**53  # whole numbers that float64 tells apart


def relevant(plan: Plan, events: Events) -> Events:
    """Leave out the events that the query cannot tell from none; numbers and the clock do not need them."""
    text = condition(plan)
    return events if text is None else replace(events, frame=events.frame.filter(F.expr(text)))


def condition(plan: Plan) -> str | None:
    """What events must satisfy, over the columns of `Events.frame`; None if all may matter."""
    schema, wanted = plan.query.schema, relevant_types(plan)
    leaves = leaves_of(plan.query.pattern)
    cases: list[str] = []
    for number, name in enumerate(schema.type_names):
        own = [leaf for leaf in leaves if name in leaf.member.types]
        if not wanted[number]:
            continue
        told = [_of(plan.query, leaf, name) for leaf in own] if plan.partition is None else []
        either = "true" if not all(told) or not own or not told else " OR ".join(f"({one})" for one in told)
        cases.append(either if schema.type is None else f"({TYPE} = {number} AND ({either}))")
    text = " OR ".join(cases) or "false"
    if schema.type is None:
        return None if text == "true" else text
    everything = all(wanted) and all(case.endswith("(true))") for case in cases)
    return None if everything else text


def _of(query: ast.Query, leaf: Leaf, kind: str) -> str:
    """The conditions on events of a type that one variable has on its events alone; empty: none is understood."""
    parts = []
    for conjunct in ast.conjuncts(query.where):
        if ast.variables(conjunct) == {leaf.name}:
            text = _text(conjunct, query, kind, positive=True)
            if text is not None:
                parts.append(f"({text})")
    return " AND ".join(parts)


def _text(node: ast.Expr, query: ast.Query, kind: str, *, positive: bool) -> str | None:
    """A condition as Spark's; None if it is not sure to be the same. Where not ``positive``, NaN is in the way."""
    match node:
        case ast.Binary("AND" | "OR" as word):
            operands: list[ast.Expr] = []
            while isinstance(node, ast.Binary) and node.operator == word:
                operands.append(node.right)
                node = node.left
            texts = [_text(part, query, kind, positive=positive) for part in (node, *reversed(operands))]
            return None if None in texts else f" {word} ".join(f"({text})" for text in texts)
        case ast.Unary("NOT", operand):
            inner = _text(operand, query, kind, positive=False)
            return None if inner is None else f"NOT ({inner})"
        case ast.Binary(operator, ast.Attribute() as left, ast.Literal() as right) if operator in _COMPARISONS:
            return _compared(left, operator, right, query, kind, positive)
        case ast.Membership(ast.Attribute() as operand, values, negated):
            parts = list(_each(operand, values, query, kind, positive and not negated))
            text = None if None in parts else " OR ".join(str(part) for part in parts)
            return None if text is None else f"NOT ({text})" if negated else text
        case ast.Between(ast.Attribute() as operand, ast.Literal() as low, ast.Literal() as high):
            ends = [_compared(operand, ">=", low, query, kind, positive),
                    _compared(operand, "<=", high, query, kind, positive)]  # fmt: skip
            return None if None in ends else f"{ends[0]} AND {ends[1]}"
    return None


def _each(
    operand: ast.Attribute, values: tuple[ast.Literal, ...], query: ast.Query, kind: str, positive: bool
) -> Iterator[str | None]:
    for value in values:
        yield _compared(operand, "=", value, query, kind, positive)


def _compared(
    node: ast.Attribute, operator: str, literal: ast.Literal, query: ast.Query, kind: str, positive: bool
) -> str | None:
    index = node.index
    if node.name in BUILTINS or (index is not None and (index.kind != "relative" or index.offset)):
        return None
    schema, value = query.schema, literal.value
    dtype, column = schema.attributes(kind)[node.name], f"c{schema.column_of(kind, node.name)}"
    if dtype == "bool" and isinstance(value, bool) and operator in ("=", "!="):
        return f"{column} {operator} {str(value).lower()}"
    if isinstance(value, bool):
        return None
    if dtype == "int64" and isinstance(value, int) and INT64_MIN < value <= INT64_MAX:
        return f"{column} {operator} {value}L"
    if dtype == "float64" and positive and isinstance(value, int | float) and abs(value) <= _EXACT:
        return f"{column} {operator} {float(value)!r}D"
    if dtype == "string" and isinstance(value, str) and operator in ("=", "!="):  # which no setting reads otherwise
        return f"{column} {operator} CAST(X'{value.encode().hex()}' AS STRING)"
    return None
