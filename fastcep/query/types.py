"""Types of expressions: what each form asks of its operands and what it yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.query import ast
from fastcep.query.patterns import Leaf, groups_of, leaves_of
from fastcep.query.printer import short_text
from fastcep.query.source import Problem, suggest

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["BUILTINS", "Scope", "attribute_dtypes", "type_of"]

BUILTINS = {"time": "int64", "seq": "int64", "type": "string"}
_Reference: TypeAlias = "ast.Attribute | ast.Aggregate | ast.AttributeList"
_NUMBERS = ("int64", "float64")
_SHOWN = {"int64": "an int64", "float64": "a float64", "bool": "a bool", "string": "a string", "null": "NULL"}


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that an expression may mention, by `Leaf.key`, and the groups by name.

    ``elsewhere`` are names of the query that it may not mention, with what they are and why; ``listed`` begins the list
    of the variables in a message.
    """

    schema: Schema
    leaves: Mapping[tuple[str, str | None], Leaf]
    groups: Mapping[str, ast.Group]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    listed: str = "the pattern has"

    @staticmethod
    def of(query: ast.Query) -> Scope:
        """The scope of the conditions and the output of a query's pattern."""
        return Scope(
            query.schema,
            {leaf.key: leaf for leaf in leaves_of(query.pattern)},
            {group.variable: group for group in groups_of(query.pattern)},
            _window_variables(query.window),
        )


def _window_variables(window: ast.Window) -> dict[str, str]:
    if not isinstance(window, ast.ExplicitWindow):
        return {}
    why = (
        "the event that {} the window, no variable of the pattern; only the conditions in WINDOW can mention it; "
        "if a match needs it, bind it by a member of the pattern"
    )
    bounds = {"opens": window.opening, "closes": window.closing}
    return {bound.variable: why.format(does) for does, bound in bounds.items() if bound.types}


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
            return _list(node, node.name, scope)
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


def _leaf(node: _Reference, scope: Scope) -> Leaf:
    leaf = scope.leaves.get((node.variable, node.inner))
    if leaf is None:
        raise _unknown(node, scope)
    return leaf


def _unknown(node: _Reference, scope: Scope) -> Problem:
    """Say why no variable has the name that ``node`` gives."""
    x, inner = node.variable, node.inner
    if x in scope.elsewhere:
        return Problem(f"{x} is {scope.elsewhere[x]}", node)
    group = scope.groups.get(x)
    if group is not None:
        names = [name for owner, name in scope.leaves if owner == x and name is not None]
        if inner is not None:
            return Problem(f"unknown variable '{inner}' of group {x}{suggest(inner, names, 'it has')}", node)
        if node.name in names:
            text, mend = short_text(_without_function(node)), _spelled(node, group, str(node.name), "attribute")
            return Problem(f"{text} stands for an event of the group, not a value; write {mend}", node)
        mend = _spelled(node, group, names[0], node.name or "attribute")
        return Problem(f"{x} is a group; name one of its variables ({', '.join(names)}), as in {mend}", node)
    if inner is not None and (x, None) in scope.leaves:
        mend = short_text(replace(node, inner=None))
        return Problem(f"{x} is a variable, not a group, and has no '{inner}' inside; write {mend}", node)
    if inner is None:
        for leaf in scope.leaves.values():
            if leaf.group is not None and leaf.member.variable == x:
                mend = _spelled(node, leaf.group, x, node.name or "time")
                return Problem(f"{x} is a variable of group {leaf.group.variable}; write {mend}", node)
    known = [name for name, below in scope.leaves if below is None] + list(scope.groups)
    return Problem(f"unknown variable '{x}'{suggest(x, known, scope.listed)}", node)


def _without_function(node: _Reference) -> ast.Expr:
    if isinstance(node, ast.Aggregate) and node.name is not None:
        return ast.AttributeList(node.variable, node.name, node.inner)
    return node


def _spelled(node: _Reference, group: ast.Group, inner: str, name: str) -> str:
    """How ``node`` would name an attribute of a variable of a group."""
    if not group.repeated:
        return short_text(ast.Attribute(group.variable, name, None, inner))
    if isinstance(node, ast.Attribute):
        return short_text(ast.Attribute(group.variable, name, node.index or ast.Index("relative"), inner))
    return short_text(replace(node, variable=group.variable, name=name, inner=inner))


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


def _attribute(node: ast.Attribute, scope: Scope) -> str:
    leaf = _leaf(node, scope)
    x, path, index = node.variable, _path(node), node.index
    if leaf.repeated and index is None:
        if leaf.negated:
            raise Problem(f"{leaf.name} is negated in every round of {x}; write {x}[i].{path}", node)
        raise Problem(
            f"{x} holds several {_things(leaf)}s; write {x}[i].{path} (every one), {x}[first].{path}, "
            f"{x}[last].{path}, {x}[0].{path} or an aggregate such as MAX({x}[].{path})",
            node,
        )
    if not leaf.repeated and index is not None:
        raise Problem(f"{x} holds one {_things(leaf)} and has no index; write {x}.{path}", node)
    if index is not None:
        offset = index.offset
        if not INT64_MIN <= offset <= INT64_MAX or (index.kind == "position" and offset < 0):
            raise Problem(f"the index {offset} is out of range; positions count from 0", node)
        if leaf.negated and index != ast.Index("relative"):
            raise Problem(
                f"{leaf.name} is negated, and the condition is on its own round, so the index is [i]; "
                f"write {x}[i].{path}",
                node,
            )
    return _lookup(leaf.member, node.name, node, scope)


def _path(node: _Reference) -> str:
    return f"{node.name}" if node.inner is None else f"{node.inner}.{node.name}"


def _things(leaf: Leaf) -> str:
    return "event" if leaf.group is None else "round"


def _list(node: ast.Aggregate | ast.AttributeList, name: str | None, scope: Scope) -> str:
    """The dtype of the elements of a list; int64 for that of ``COUNT(x[])``."""
    if node.inner is None and name is None and node.variable in scope.groups:
        if not scope.groups[node.variable].repeated:
            raise Problem(f"{node.variable} holds one round, not a list; write a condition without COUNT", node)
        return "int64"
    leaf = _leaf(node, scope)
    if leaf.negated:
        raise Problem(
            f"{leaf.name} is negated, so a match has no events of it to list; "
            "compare its attributes in a condition of WHERE",
            node,
        )
    if not leaf.repeated:
        mend = "a condition without COUNT" if name is None else f"{node.variable}.{_path(node)}"
        raise Problem(f"{node.variable} holds one {_things(leaf)}, not a list; write {mend}", node)
    return "int64" if name is None else _lookup(leaf.member, name, node, scope)


def _aggregate(node: ast.Aggregate, scope: Scope) -> str:
    dtype = _list(node, node.name, scope)
    if node.function == "COUNT":
        return "int64"
    if node.name is None:
        raise Problem(f"{node.function} needs an attribute, such as {node.function}({node.variable}[].a)", node)
    if dtype not in _NUMBERS:
        raise Problem(f"{node.function} needs numbers, but {node.variable}[].{_path(node)} is {_SHOWN[dtype]}", node)
    return dtype if node.function in ("SUM", "MIN", "MAX") else "float64"


# ---------------------------------------------------------------------- operators


def _need_number(operand: ast.Expr, scope: Scope, what: str) -> str:
    return _must_be_number(_type(operand, scope), operand, what)


def _must_be_number(dtype: str, operand: ast.Expr, what: str) -> str:
    if dtype not in (*_NUMBERS, "null"):
        raise Problem(f"{what} needs numbers, but {short_text(operand)} is {_SHOWN[dtype]}", operand)
    return dtype


def _need_bool(operand: ast.Expr, scope: Scope, what: str) -> None:
    _must_be_bool(_type(operand, scope), operand, what)


def _must_be_bool(dtype: str, operand: ast.Expr, what: str) -> None:
    if dtype not in ("bool", "null"):
        mend = "; write AND between conditions, and compare a value, as in x.a > 0"
        raise Problem(f"{what} needs a condition, but {short_text(operand)} is {_SHOWN[dtype]}{mend}", operand)


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
                f"{name} needs {_SHOWN[dtype]} as argument {number}, but {short_text(argument)} is "
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
    first, chain = node.spine()
    dtype = _type(first, scope)
    for link in chain:
        dtype = _joint(link, dtype, scope)
    return dtype


def _joint(node: ast.Binary, left: str, scope: Scope) -> str:
    """The dtype of an operation whose left operand is of the dtype ``left``."""
    operator = node.operator
    if operator in ("AND", "OR"):
        _must_be_bool(left, node.left, operator)
        _need_bool(node.right, scope, operator)
        return "bool"
    if operator in ("=", "!="):
        _comparable(left, node.left, _type(node.right, scope), node.right, operator)
        return "bool"
    dtypes = [_must_be_number(left, node.left, operator), _need_number(node.right, scope, operator)]
    if operator in ("<", "<=", ">", ">="):
        return "bool"
    return "float64" if operator in ("/", "^") else _joined(dtypes)


def _comparable(left: str, left_node: ast.Expr, right: str, right_node: ast.Expr, operator: str) -> None:
    kinds = {"number" if dtype in _NUMBERS else dtype for dtype in (left, right)} - {"null"}
    if len(kinds) > 1:
        raise Problem(
            f"{operator} compares {short_text(left_node)}, which is {_SHOWN[left]}, with "
            f"{short_text(right_node)}, which is {_SHOWN[right]}; both sides must be of one kind",
            right_node,
        )
