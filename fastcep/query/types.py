"""Types of expressions: operand types that each form requires, and its result type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.query import ast
from fastcep.query.patterns import PatternVariable, groups_of, pattern_variables
from fastcep.query.printer import short_text
from fastcep.query.remedies import kind_remedy, number_remedy
from fastcep.query.scalar_functions import DTYPE_TEXT, NUMBERS, arithmetic_dtype, call_dtype
from fastcep.query.source import Problem, suggest

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["BUILTINS", "Scope", "attribute_dtypes", "type_of"]

BUILTINS = {"time": "timestamp", "seq": "int64", "type": "string"}
_Reference: TypeAlias = "ast.Attribute | ast.Aggregate | ast.AttributeList"


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that an expression can mention, by `PatternVariable.key`, and the groups by name.

    ``elsewhere`` maps names of the query that it cannot mention to an explanation. ``listed`` introduces the list of
    variables in a message.
    """

    schema: Schema
    variables: Mapping[tuple[str, str | None], PatternVariable]
    groups: Mapping[str, ast.Group]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    listed: str = "the pattern has"

    @staticmethod
    def of(query: ast.Query) -> Scope:
        """Return the scope of the conditions and the output of a query's pattern."""
        return Scope(
            query.schema,
            {variable.key: variable for variable in pattern_variables(query.pattern)},
            {group.name: group for group in groups_of(query.pattern)},
            _window_variables(query.window),
        )


def _window_variables(window: ast.Window) -> dict[str, str]:
    if not isinstance(window, ast.ExplicitWindow):
        return {}
    explanation = (
        "the event that {} the window, not a variable of the pattern; only the conditions in WINDOW can mention it. "
        "If the match needs it, add a variable to the pattern that binds it"
    )
    bounds = {"opens": window.opening, "closes": window.closing}
    return {bound.variable: explanation.format(action) for action, bound in bounds.items() if bound.types}


def attribute_dtypes(schema: Schema, types: tuple[str, ...]) -> dict[str, str]:
    """Return the attributes that all ``types`` share with the same dtype, in the order of the first type.

    Built-in attributes are not included.
    """
    first, *others = (schema.attributes(name) for name in types)
    return {name: dtype for name, dtype in first.items() if all(other.get(name) == dtype for other in others)}


def type_of(expression: ast.Expr, scope: ast.Query | Scope) -> str:
    """Return the dtype of an expression.

    Parameters
    ----------
    expression
        Any expression.
    scope
        Query of the expression, or the variables that it can mention.

    Returns
    -------
    str
        ``"int64"``, ``"float64"``, ``"bool"``, ``"string"``, ``"timestamp"`` or, for a NULL constant, ``"null"``. An
        `AttributeList` has the dtype of its elements.

    Raises
    ------
    Problem
        A name is unknown or an operand has the wrong type; never raised for a checked query.
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
        case ast.TimestampLiteral():
            return "timestamp"
        case ast.Attribute():
            return _attribute(node, scope)
        case ast.Aggregate():
            return _aggregate(node, scope)
        case ast.AttributeList():
            return _list(node, node.name, scope)
        case ast.SameAttributes():
            return "bool"
        case ast.Call():
            return call_dtype(node, [_type(argument, scope) for argument in node.arguments])
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
            parts = (node.operand, node.low, node.high)
            dtypes = [_type(part, scope) for part in parts]
            _must_be_ordered(dtypes, parts, "BETWEEN")
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
            raise Problem(f"{value} does not fit int64 (at most {INT64_MAX}); write it as a float64", node)
        return "int64"
    return "float64" if isinstance(value, float) else "string"


# ---------------------------------------------------------------------- variables


def _variable(node: _Reference, scope: Scope) -> PatternVariable:
    variable = scope.variables.get((node.variable, node.inner))
    if variable is None:
        raise _unknown(node, scope)
    return variable


def _unknown(node: _Reference, scope: Scope) -> Problem:
    """Return the error for a name that no variable has."""
    x, inner = node.variable, node.inner
    if x in scope.elsewhere:
        return Problem(f"{x} is {scope.elsewhere[x]}", node)
    group = scope.groups.get(x)
    if group is not None:
        names = [name for owner, name in scope.variables if owner == x and name is not None]
        if inner is not None:
            return Problem(f"unknown variable '{inner}' of group {x}{suggest(inner, names, 'it has')}", node)
        if node.name in names:
            text = short_text(_without_function(node))
            remedy = _reference_text(node, group, str(node.name), "attribute")
            return Problem(f"{text} is an event of the group, not a value; write {remedy}", node)
        remedy = _reference_text(node, group, names[0], node.name or "attribute")
        return Problem(f"{x} is a group; name one of its variables ({', '.join(names)}), as in {remedy}", node)
    if inner is not None and (x, None) in scope.variables:
        is_repeated = scope.variables[x, None].repeated
        if inner.lower() in ("first", "last") and isinstance(node, ast.Attribute) and is_repeated:
            remedy = short_text(replace(node, inner=None, index=ast.Index(inner.lower())))
            return Problem(f"an element of {x} is named in brackets; write {remedy}", node)
        remedy = short_text(replace(node, inner=None))
        return Problem(f"{x} is a variable, not a group, so it has no '{inner}'; write {remedy}", node)
    if inner is None:
        for variable in scope.variables.values():
            if variable.group is not None and variable.declaration.name == x:
                remedy = _reference_text(node, variable.group, x, node.name or "time")
                return Problem(f"{x} is a variable of group {variable.group.name}; write {remedy}", node)
    variable_names = [name for name, below in scope.variables if below is None] + list(scope.groups)
    if x in scope.schema.type_names:
        own = [v.name for v in scope.variables.values() if x in v.declaration.types and v.group is None]
        remedy = f", as in {own[0]}.{node.name}" if own and node.name else ""
        return Problem(f"'{x}' is an event type, not a variable; write the variable{remedy}", node)
    return Problem(f"unknown variable '{x}'{suggest(x, variable_names, scope.listed)}", node)


def _without_function(node: _Reference) -> ast.Expr:
    if isinstance(node, ast.Aggregate) and node.name is not None:
        return ast.AttributeList(node.variable, node.name, node.inner)
    return node


def _reference_text(node: _Reference, group: ast.Group, inner: str, name: str) -> str:
    """Return the text by which ``node`` should name an attribute of a variable in a group."""
    if not group.repeated:
        return short_text(ast.Attribute(group.name, name, None, inner))
    if isinstance(node, ast.Attribute):
        return short_text(ast.Attribute(group.name, name, node.index or ast.Index("relative"), inner))
    return short_text(replace(node, variable=group.name, name=name, inner=inner))


def _lookup(declaration: ast.Variable, name: str, node: ast.Expr, scope: Scope) -> str:
    if name in BUILTINS:
        return BUILTINS[name]
    shared = attribute_dtypes(scope.schema, declaration.types)
    if name in shared:
        return shared[name]
    owner = " | ".join(declaration.types)
    if len(declaration.types) > 1:
        dtypes = [(event_type, scope.schema.attributes(event_type).get(name)) for event_type in declaration.types]
        if any(dtype for _, dtype in dtypes):
            dtypes_text = ", ".join(f"{event_type} has {dtype or 'none'}" for event_type, dtype in dtypes)
            raise Problem(
                f"'{name}' is not an attribute that all of {owner} share with the same type ({dtypes_text}); "
                f"'{declaration.name}' has only the shared attributes{suggest(name, shared, 'these are')}",
                node,
            )
    hint = suggest(name, [*shared, *BUILTINS], "it has")
    raise Problem(f"unknown attribute '{name}' of {owner}{hint}", node)


def _attribute(node: ast.Attribute, scope: Scope) -> str:
    variable = _variable(node, scope)
    x, path, index = node.variable, _path(node), node.index
    if variable.repeated and index is None:
        if variable.negated:
            raise Problem(f"{variable.name} is negated in every round of {x}; write {x}[i].{path}", node)
        raise Problem(
            f"{x} holds several {_element_text(variable)}s; write {x}[i].{path} (every one), {x}[first].{path}, "
            f"{x}[last].{path}, {x}[0].{path} or an aggregate such as MAX({x}[].{path})",
            node,
        )
    if not variable.repeated and index is not None:
        raise Problem(f"{x} holds one {_element_text(variable)} and has no index; write {x}.{path}", node)
    if index is not None:
        offset = index.offset
        if not INT64_MIN <= offset <= INT64_MAX or (
            (index.kind == "position" and offset < 0) or (index.kind == "last" and offset > 0)
        ):
            raise Problem(f"the index {offset} is out of range; positions count from 0", node)
        if variable.negated and index != ast.Index("relative"):
            raise Problem(
                f"{variable.name} is negated, so the index must be [i], which refers to its own round; "
                f"write {x}[i].{path}",
                node,
            )
    return _lookup(variable.declaration, node.name, node, scope)


def _path(node: _Reference) -> str:
    return f"{node.name}" if node.inner is None else f"{node.inner}.{node.name}"


def _element_text(variable: PatternVariable) -> str:
    return "event" if variable.group is None else "round"


def _list(node: ast.Aggregate | ast.AttributeList, name: str | None, scope: Scope) -> str:
    """Return the dtype of the elements of a list; int64 for ``COUNT(x[])``."""
    if node.inner is None and name is None and node.variable in scope.groups:
        if not scope.groups[node.variable].repeated:
            raise Problem(f"{node.variable} holds one round, not a list; write a condition without COUNT", node)
        return "int64"
    variable = _variable(node, scope)
    if variable.negated:
        raise Problem(
            f"{variable.name} is negated, so a match has no events of it to list; "
            "compare its attributes in a condition of WHERE",
            node,
        )
    if not variable.repeated:
        remedy = "a condition without COUNT" if name is None else f"{node.variable}.{_path(node)}"
        raise Problem(f"{node.variable} holds one {_element_text(variable)}, not a list; write {remedy}", node)
    return "int64" if name is None else _lookup(variable.declaration, name, node, scope)


def _aggregate(node: ast.Aggregate, scope: Scope) -> str:
    if node.index is not None and (node.variable in scope.groups or node.inner is not None):
        raise Problem(
            f"a running aggregate is over the elements of a variable such as B+ b[], but {node.variable} is a group; "
            f"write {short_text(replace(node, index=None))} for all rounds",
            node,
        )
    dtype = _list(node, node.name, scope)
    if node.function == "COUNT":
        return "int64"
    if node.name is None:
        raise Problem(f"{node.function} needs an attribute, such as {node.function}({node.variable}[].a)", node)
    if dtype not in NUMBERS:
        list_text = f"{node.variable}[].{_path(node)}"
        raise Problem(
            f"{node.function} needs numbers, but {list_text} is {DTYPE_TEXT[dtype]}{number_remedy(node)}", node
        )
    if node.function == "SUM" and dtype == "timestamp":
        raise Problem(
            f"SUM of times has no meaning, but {node.variable}[].{_path(node)} is a timestamp; use MIN, MAX, AVG or "
            "COUNT, or sum up durations that are attributes of type int64",
            node,
        )
    if node.function == "SUM":
        return arithmetic_dtype([dtype])
    return dtype if node.function in ("MIN", "MAX") else "float64"


# ---------------------------------------------------------------------- operators


def _need_number(operand: ast.Expr, scope: Scope, operator: str) -> str:
    return _must_be_number(_type(operand, scope), operand, operator)


def _must_be_number(dtype: str, operand: ast.Expr, operator: str) -> str:
    if dtype not in (*NUMBERS, "null"):
        raise Problem(
            f"{operator} needs numbers, but {short_text(operand)} is {DTYPE_TEXT[dtype]}{number_remedy(operand)}",
            operand,
        )
    return dtype


def _need_bool(operand: ast.Expr, scope: Scope, operator: str) -> None:
    _must_be_bool(_type(operand, scope), operand, operator)


def _must_be_bool(dtype: str, operand: ast.Expr, operator: str) -> None:
    if dtype not in ("bool", "null"):
        remedy = "; write AND between conditions, and compare a value, as in x.a > 0"
        text = short_text(operand)
        raise Problem(f"{operator} needs a condition, but {text} is {DTYPE_TEXT[dtype]}{remedy}", operand)


def _user_call(node: ast.UserCall, scope: Scope) -> str:
    name, parameters = node.signature.name, node.signature.parameters
    if len(node.arguments) != len(parameters):
        plural = "" if len(parameters) == 1 else "s"
        expected = f"{len(parameters)} argument{plural} ({', '.join(parameters)})"
        raise Problem(f"{name} takes {expected}, not {len(node.arguments)}", node)
    for number, (argument, dtype) in enumerate(zip(node.arguments, parameters, strict=True), 1):
        argument_dtype = _type(argument, scope)
        widened = {"int64": ("int64", "float64"), "timestamp": ("int64", "float64")}.get(argument_dtype, ())
        if argument_dtype not in (dtype, "null") and dtype not in widened:
            raise Problem(
                f"{name} needs {DTYPE_TEXT[dtype]} as argument {number}, but {short_text(argument)} is "
                f"{DTYPE_TEXT[argument_dtype]}",
                argument,
            )
    return node.signature.result


def _unary(node: ast.Unary, scope: Scope) -> str:
    if node.operator == "NOT":
        _need_bool(node.operand, scope, "NOT")
        return "bool"
    return arithmetic_dtype([_need_number(node.operand, scope, "-")])


def _binary(node: ast.Binary, scope: Scope) -> str:
    first, chain = node.spine()
    dtype = _type(first, scope)
    for link in chain:
        dtype = _operation(link, dtype, scope)
    return dtype


def _operation(node: ast.Binary, left: str, scope: Scope) -> str:
    """Return the dtype of an operation whose left operand has the dtype ``left``."""
    operator = node.operator
    if operator in ("AND", "OR"):
        _must_be_bool(left, node.left, operator)
        _need_bool(node.right, scope, operator)
        return "bool"
    if operator in ("=", "!="):
        _comparable(left, node.left, _type(node.right, scope), node.right, operator)
        return "bool"
    if operator in ("<", "<=", ">", ">="):
        _must_be_ordered([left, _type(node.right, scope)], (node.left, node.right), operator)
        return "bool"
    dtypes = [_must_be_number(left, node.left, operator), _need_number(node.right, scope, operator)]
    if operator in ("/", "^"):
        return "float64"
    is_later = operator == "+" and sorted(dtypes) == ["int64", "timestamp"]
    is_earlier = operator == "-" and dtypes == ["timestamp", "int64"]
    return "timestamp" if is_later or is_earlier else arithmetic_dtype(dtypes)


def _must_be_ordered(dtypes: list[str], operands: tuple[ast.Expr, ...], operator: str) -> None:
    """Require operands that are all numbers or all strings."""
    if "string" in dtypes:
        place = dtypes.index("string")
        for dtype, operand in zip(dtypes, operands, strict=True):
            _comparable("string", operands[place], dtype, operand, operator)
        return
    for dtype, operand in zip(dtypes, operands, strict=True):
        _must_be_number(dtype, operand, operator)


def _comparable(left: str, left_node: ast.Expr, right: str, right_node: ast.Expr, operator: str) -> None:
    kinds = {"number" if dtype in NUMBERS else dtype for dtype in (left, right)} - {"null"}
    if len(kinds) > 1:
        raise Problem(
            f"{operator} compares {short_text(left_node)}, which is {DTYPE_TEXT[left]}, with "
            f"{short_text(right_node)}, which is {DTYPE_TEXT[right]}; both sides must have the same kind"
            f"{kind_remedy((left_node, left), (right_node, right))}",
            right_node,
        )
