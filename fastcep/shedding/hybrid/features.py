"""Features of partial matches and events: expressions that the remaining conditions of a query depend on.

For ``a.V + b.V = c.V`` this is ``a.V`` until b is bound, then ``a.V + b.V``. Attributes that are only compared for
equality with each other, such as ``a.ID = b.ID``, are keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastcep.query import ast, traversal
from fastcep.query.patterns import positive_variables

__all__ = ["attributes_of", "of_events", "of_matches"]


def attributes_of(expression: ast.Expr) -> set[str]:
    """Return the names of the attributes that an expression uses."""
    parts = traversal.walk(expression)
    return {str(part.name) for part in parts if isinstance(part, ast.Attribute | ast.Aggregate) and part.name}


def of_matches(query: ast.Query, keys: bool = False) -> dict[str, list[ast.Expr]]:
    """Return, by the variable bound last, the expressions over bound variables that open conditions depend on.

    ``keys`` adds the expressions of conditions on keys, and on adjacent elements of a repeated variable.
    """
    conditions, names = _conditions(query, keys), [variable.name for variable in positive_variables(query.pattern)]
    features = {}
    for number, name in enumerate(names[:-1]):
        bound = set(names[: number + 1])
        open_ = [c for c in conditions if not _mentions(c) <= bound]
        parts = [part for c in open_ for part in _parts(c, bound) if keys or not _is_relative(part)]
        if keys:  # attributes that the next element will be compared with
            closed = [part for c in conditions if _mentions(c) <= bound for part in traversal.walk(c)]
            attributes = [part for part in closed if isinstance(part, ast.Attribute) and part.qualified_name == name]
            parts += [part for part in attributes if _is_relative(part)]
        features[name] = list(dict.fromkeys(_last(part) if keys else part for part in parts))
    return features


def of_events(query: ast.Query, keys: bool = False) -> dict[str, list[ast.Expr]]:
    """Return, by variable, the expressions over the event alone that conditions with other variables depend on."""
    conditions, features = _conditions(query, keys), {}
    for one in positive_variables(query.pattern):
        variable = {one.name}
        parts = [_last(part) for c in conditions if _mentions(c) != variable for part in _parts(c, variable)]
        features[one.name] = list(dict.fromkeys(parts))
    return features


def _conditions(query: ast.Query, keys: bool) -> list[ast.Expr]:
    """Return the conjuncts, without those that only compare keys unless ``keys`` is true."""
    conjuncts = [c for c in traversal.conjuncts(query.where) if not isinstance(c, ast.SameAttributes)]
    if keys:
        return conjuncts
    joins = [c for c in conjuncts if _joined(c) is not None]
    others = {
        part.name for c in conjuncts if c not in joins for part in traversal.walk(c) if isinstance(part, ast.Attribute)
    }
    return [c for c in conjuncts if c not in joins or _joined(c) in others]


def _joined(condition: ast.Expr) -> str | None:
    """Return the attribute that must be equal for two variables, if the condition is such a comparison."""
    match condition:
        case ast.Binary("=", ast.Attribute() as left, ast.Attribute() as right) if (
            left.name == right.name and left.places == right.places == 0
        ):
            return left.name if left.qualified_name != right.qualified_name else None
    return None


def _mentions(node: ast.Expr) -> set[str]:
    return {part.qualified_name for part in traversal.walk(node) if isinstance(part, ast.Attribute | ast.Aggregate)}


def _parts(node: ast.Expr, bound: set[str]) -> Iterator[ast.Expr]:
    """Yield the largest sub-expressions that are values over bound variables only."""
    mentions = _mentions(node)
    if not mentions & bound:
        return
    if mentions <= bound and _is_value(node):
        yield node
        return
    for child in traversal.children(node):
        yield from _parts(child, bound)


def _is_value(node: ast.Expr) -> bool:
    match node:
        case ast.Binary():
            return node.operator in ("+", "-", "*", "/", "//", "%", "^")
        case ast.Unary():
            return node.operator == "-"
    return isinstance(node, ast.Attribute | ast.Aggregate | ast.Call)


def _is_relative(node: ast.Expr) -> bool:
    """Return whether an expression refers to each element of a repeated variable."""
    parts = (part for part in traversal.walk(node) if isinstance(part, ast.Attribute | ast.Aggregate))
    return any(part.index is not None and part.index.kind == "relative" for part in parts)


def _last(node: ast.Expr) -> ast.Expr:
    """Return the expression for the last element of a repeated variable."""
    if isinstance(node, ast.Attribute):
        return replace(node, index=None if node.index is None else ast.Index("last"))
    if isinstance(node, ast.Aggregate):
        return replace(node, index=None)
    if isinstance(node, ast.Binary):
        return replace(node, left=_last(node.left), right=_last(node.right))
    if isinstance(node, ast.Unary):
        return replace(node, operand=_last(node.operand))
    if isinstance(node, ast.Call):
        return replace(node, arguments=tuple(map(_last, node.arguments)))
    return node
