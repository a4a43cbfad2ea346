"""Filter the events that cannot affect a query, so that they are not sent to slices.

An event cannot affect a query if no variable has its type, or if it fails the conditions on itself (``a.V = 10``) for
each variable that could bind it. Spark evaluates only conditions that are sure to mean the same in Spark SQL:
comparisons of an attribute with constants, combined by AND, OR and NOT. Other conditions are ignored here, as the
engine evaluates all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.plan import Plan
from fastcep.plan.partition_key import event_partition
from fastcep.plan.slicing import relevant_types
from fastcep.query import ast, traversal
from fastcep.query.patterns import PatternVariable, pattern_variables
from fastcep.query.plain_schema import TYPE
from fastcep.query.types import BUILTINS
from fastcep.spark.columns import SOURCE_TYPE

__all__ = ["condition", "condition_of_source"]

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_EXACT = 2**53  # float64 represents all integers up to this one


def condition_of_source(plan: Plan) -> str | None:
    """Return `condition` over the type as it is stored, `SOURCE_TYPE`: Spark evaluates it when it reads the source."""
    schema = plan.query.schema
    if schema.codes is not None:
        return condition(plan, SOURCE_TYPE, [str(schema.codes[name]) for name in schema.type_names])
    return condition(plan, SOURCE_TYPE, [_string(name) for name in schema.type_names])


def condition(plan: Plan, column: str = TYPE, values: Sequence[str] | None = None) -> str | None:
    """Return the condition on relevant events in Spark SQL, over the columns of `Events.frame`; None if all may be.

    Parameters
    ----------
    plan
        Plan of the query.
    column, values
        Column of the type, and the SQL of its value for each type; None: the number of the type.
    """
    schema, relevant = plan.query.schema, relevant_types(plan)
    variables = pattern_variables(plan.query.pattern)
    cases: dict[str, list[str]] = {}  # types by condition
    for number, name in enumerate(schema.type_names):
        binding = [variable for variable in variables if name in variable.declaration.types]
        if not relevant[number]:
            continue
        conditions = []
        if event_partition(plan) is None:
            conditions = [_condition_of(plan.query, variable, name) for variable in binding]
        unconditional = not all(conditions) or not binding or not conditions
        any_of = "true" if unconditional else " OR ".join(f"({condition})" for condition in conditions)
        cases.setdefault(any_of, []).append(str(number) if values is None else values[number])
    if schema.type is None:
        text = " OR ".join(cases) or "false"
        return None if text == "true" else text
    texts = [f"({_one_of(column, types)} AND ({any_of}))" for any_of, types in cases.items()]
    return None if all(relevant) and list(cases) == ["true"] else " OR ".join(texts) or "false"


def _one_of(column: str, values: Sequence[str]) -> str:
    return f"{column} = {values[0]}" if len(values) == 1 else f"{column} IN ({', '.join(values)})"


def _string(value: str) -> str:
    """Return a literal that does not depend on settings of the parser."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _condition_of(query: ast.Query, variable: PatternVariable, kind: str) -> str:
    """Return the conditions of one variable on its own events of a type; empty if none can be translated."""
    parts = []
    for conjunct in traversal.conjuncts(query.where):
        if traversal.variables(conjunct) == {variable.name}:
            text = _text(conjunct, query, kind, positive=True)
            if text is not None:
                parts.append(f"({text})")
    return " AND ".join(parts)


def _text(node: ast.Expr, query: ast.Query, kind: str, *, positive: bool) -> str | None:
    """Translate a condition to Spark SQL; None if it could differ, as with NaN under NOT (``positive`` is false)."""
    match node:
        case ast.Binary("AND" | "OR" as connective):
            operands: list[ast.Expr] = []
            while isinstance(node, ast.Binary) and node.operator == connective:
                operands.append(node.right)
                node = node.left
            texts = [_text(part, query, kind, positive=positive) for part in (node, *reversed(operands))]
            return None if None in texts else f" {connective} ".join(f"({text})" for text in texts)
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
    if node.name in BUILTINS or node.places or (index is not None and (index.kind != "relative" or index.offset)):
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
    if dtype == "string" and isinstance(value, str) and operator in ("=", "!="):
        return f"{column} {operator} {_string(value)}"
    return None
