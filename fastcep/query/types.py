"""Types of expressions: what each form asks of its operands and what it yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.query import ast
from fastcep.query.printer import expression_text
from fastcep.query.source import Problem, suggest

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["BUILTINS", "Scope", "attribute_dtypes", "type_of"]

BUILTINS = {"time": "int64", "seq": "int64", "type": "string"}
_NUMBERS = ("int64", "float64")
_SHOWN = {"int64": "an int64", "float64": "a float64", "bool": "a bool", "string": "a string", "null": "NULL"}


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that an expression may mention."""

    schema: Schema
    members: Mapping[str, ast.Member]

    @staticmethod
    def of(query: ast.Query) -> Scope:
        """The scope of a query's conditions."""
        return Scope(query.schema, {member.variable: member for member in query.pattern.members})


def attribute_dtypes(schema: Schema, types: tuple[str, ...]) -> dict[str, str]:
    """Attributes that all ``types`` share with one dtype, in the order of the first; built-ins are not among them."""
    first, *others = (schema.attributes(name) for name in types)
    return {name: dtype for name, dtype in first.items() if all(other.get(name) == dtype for other in others)}


def type_of(expression: ast.Expr, scope: ast.Query | Scope) -> str:
    """Give the dtype of an expression.

    Parameters
    ----------
    expression
        Any expression but ``[attr]``, which is a bool.
    scope
        The query that it belongs to, or its variables.

    Returns
    -------
    str
        ``"int64"``, ``"float64"``, ``"bool"``, ``"string"`` or, for a NULL constant, ``"null"``. An
        `AttributeList` has the dtype of its elements.

    Raises
    ------
    Problem
        Unknown names or operands of the wrong type; never for a checked query.
    """
    return _type(expression, scope if isinstance(scope, Scope) else Scope.of(scope))


def _type(node: ast.Expr, scope: Scope) -> str:
    match node:
        case ast.Literal():
            return _literal(node)
        case ast.DurationLiteral():
            if node.nanoseconds > INT64_MAX or node.nanoseconds < INT64_MIN:
                raise Problem(f"the duration {node.nanoseconds} ns does not fit int64", node)
            return "int64"
        case ast.Attribute():
            return _attribute(node, scope)
        case ast.Aggregate():
            return _aggregate(node, scope)
        case ast.AttributeList():
            member = _member(node, scope)
            _need_repeated(member, node, f"{node.variable}.{node.name}")
            return _lookup(member, node.name, node, scope)
        case ast.SameAttributes():
            return "bool"
        case ast.Call():
            return _call(node, scope)
        case ast.UserCall():
            return _user_call(node, scope)
        case ast.Unary():
            return _unary(node, scope)
        case ast.Binary():
            return _binary(node, scope)
        case ast.Membership():
            kind = _type(node.operand, scope)
            for value in node.values:
                _comparable(kind, node.operand, _type(value, scope), value, "IN")
            return "bool"
        case ast.Between():
            for operand in (node.operand, node.low, node.high):
                _need_number(operand, scope, "BETWEEN")
            return "bool"
    raise TypeError(f"no type for {type(node).__name__}")


def _literal(node: ast.Literal) -> str:
    value = node.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise Problem(f"{value} does not fit int64 (at most {INT64_MAX}); make it a float64", node)
        return "int64"
    return "float64" if isinstance(value, float) else "string"


# ---------------------------------------------------------------------- variables


def _member(node: ast.Attribute | ast.Aggregate | ast.AttributeList, scope: Scope) -> ast.Member:
    member = scope.members.get(node.variable)
    if member is None:
        hint = suggest(node.variable, scope.members, "the pattern has")
        raise Problem(f"unknown variable '{node.variable}'{hint}", node)
    return member


def _lookup(member: ast.Member, name: str, node: ast.Expr, scope: Scope) -> str:
    if name in BUILTINS:
        return BUILTINS[name]
    shared = attribute_dtypes(scope.schema, member.types)
    if name in shared:
        return shared[name]
    owner = " | ".join(member.types)
    if len(member.types) > 1:
        dtypes = [(kind, scope.schema.attributes(kind).get(name)) for kind in member.types]
        if any(dtype for _, dtype in dtypes):
            shown = ", ".join(f"{kind} has {'none' if dtype is None else dtype}" for kind, dtype in dtypes)
            raise Problem(
                f"'{name}' is no attribute that all of {owner} share with one type ({shown}); "
                f"'{member.variable}' has only shared attributes{suggest(name, shared, 'which are')}",
                node,
            )
    hint = suggest(name, [*shared, *BUILTINS], "it has")
    raise Problem(f"unknown attribute '{name}' of {owner}{hint}", node)


def _need_repeated(member: ast.Member, node: ast.Expr, mend: str) -> None:
    if not member.repeated:
        raise Problem(f"{member.variable} holds one event, not a list; write {mend}", node)


def _attribute(node: ast.Attribute, scope: Scope) -> str:
    member = _member(node, scope)
    x, a = node.variable, node.name
    if member.repeated and node.index is None:
        raise Problem(
            f"{x} holds several events; write {x}[i].{a} (every one), {x}[first].{a}, {x}[last].{a}, {x}[0].{a} "
            f"or an aggregate such as MAX({x}[].{a})",
            node,
        )
    if not member.repeated and node.index is not None:
        raise Problem(f"{x} holds one event and has no index; write {x}.{a}", node)
    if node.index is not None:
        offset = node.index.offset
        if not INT64_MIN <= offset <= INT64_MAX or (node.index.kind == "position" and offset < 0):
            raise Problem(f"the index {offset} is out of range; positions count from 0", node)
    return _lookup(member, a, node, scope)


def _aggregate(node: ast.Aggregate, scope: Scope) -> str:
    member = _member(node, scope)
    name = node.name
    mend = f"{node.variable}.{name}" if name is not None else "a condition without COUNT"
    _need_repeated(member, node, mend)
    if name is None:
        if node.function != "COUNT":
            raise Problem(f"{node.function} needs an attribute, such as {node.function}({node.variable}[].a)", node)
        return "int64"
    dtype = _lookup(member, name, node, scope)
    if node.function == "COUNT":
        return "int64"
    if dtype not in _NUMBERS:
        raise Problem(f"{node.function} needs numbers, but {node.variable}[].{name} is {_SHOWN[dtype]}", node)
    return dtype if node.function in ("SUM", "MIN", "MAX") else "float64"


# ---------------------------------------------------------------------- operators


def _need_number(operand: ast.Expr, scope: Scope, what: str) -> str:
    dtype = _type(operand, scope)
    if dtype not in (*_NUMBERS, "null"):
        raise Problem(f"{what} needs numbers, but {expression_text(operand)} is {_SHOWN[dtype]}", operand)
    return dtype


def _need_bool(operand: ast.Expr, scope: Scope, what: str) -> None:
    dtype = _type(operand, scope)
    if dtype not in ("bool", "null"):
        mend = "; write AND between conditions, and compare a value, as in x.a > 0"
        raise Problem(f"{what} needs a condition, but {expression_text(operand)} is {_SHOWN[dtype]}{mend}", operand)


def _joined(dtypes: list[str]) -> str:
    """The dtype of arithmetic on numbers: float64 if any is, NULL only if all are."""
    return next((kind for kind in ("float64", "int64") if kind in dtypes), "null")


def _call(node: ast.Call, scope: Scope) -> str:
    dtypes = [_need_number(argument, scope, node.function) for argument in node.arguments]
    if node.function in ("sqrt", "exp", "log", "avg"):
        return "float64"
    return _joined(dtypes)


def _user_call(node: ast.UserCall, scope: Scope) -> str:
    name, wanted = node.signature.name, node.signature.parameters
    if len(node.arguments) != len(wanted):
        plural = "" if len(wanted) == 1 else "s"
        raise Problem(
            f"{name} takes {len(wanted)} argument{plural} ({', '.join(wanted)}), not {len(node.arguments)}", node
        )
    for number, (argument, dtype) in enumerate(zip(node.arguments, wanted, strict=True), 1):
        given = _type(argument, scope)
        if given not in (dtype, "null") and (given, dtype) != ("int64", "float64"):
            raise Problem(
                f"{name} needs {_SHOWN[dtype]} as argument {number}, but {expression_text(argument)} is "
                f"{_SHOWN[given]}",
                argument,
            )
    return node.signature.result


def _unary(node: ast.Unary, scope: Scope) -> str:
    if node.operator == "NOT":
        _need_bool(node.operand, scope, "NOT")
        return "bool"
    return _need_number(node.operand, scope, "-")


def _binary(node: ast.Binary, scope: Scope) -> str:
    operator = node.operator
    if operator in ("AND", "OR"):
        _need_bool(node.left, scope, operator)
        _need_bool(node.right, scope, operator)
        return "bool"
    if operator in ("=", "!="):
        _comparable(_type(node.left, scope), node.left, _type(node.right, scope), node.right, operator)
        return "bool"
    dtypes = [_need_number(operand, scope, operator) for operand in (node.left, node.right)]
    if operator in ("<", "<=", ">", ">="):
        return "bool"
    return "float64" if operator in ("/", "^") else _joined(dtypes)


def _comparable(left: str, left_node: ast.Expr, right: str, right_node: ast.Expr, operator: str) -> None:
    kinds = {"number" if dtype in _NUMBERS else dtype for dtype in (left, right)} - {"null"}
    if len(kinds) > 1:
        raise Problem(
            f"{operator} compares {expression_text(left_node)}, which is {_SHOWN[left]}, with "
            f"{expression_text(right_node)}, which is {_SHOWN[right]}; both sides must be of one kind",
            right_node,
        )
