"""What the rest of a query wants to know of a partial match, or of an event: by that they are told apart.

Of ``a.V + b.V = c.V`` that is ``a.V`` as long as b is not bound, and then ``a.V + b.V``. Attributes that are compared
for equality with each other only, such as ``a.ID = b.ID``, are keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastcep.query import ast
from fastcep.query.patterns import positive_leaves

__all__ = ["of_events", "of_matches"]


def of_matches(query: ast.Query, keys: bool = False) -> dict[str, list[ast.Expr]]:
    """By the variable bound last, the expressions over what is bound that open conditions ask for.

    ``keys``: those that conditions on keys ask for, too, and on neighbouring elements of a repeated variable.
    """
    conditions, names = _conditions(query, keys), [leaf.name for leaf in positive_leaves(query.pattern)]
    found = {}
    for number, name in enumerate(names[:-1]):
        bound = set(names[: number + 1])
        open_ = [c for c in conditions if not _mentions(c) <= bound]
        parts = [part for c in open_ for part in _parts(c, bound) if keys or not _runs(part)]
        if keys:  # what its next element will be compared with
            of_next = [part for c in conditions if _mentions(c) <= bound for part in ast.walk(c)]
            parts += [part for part in of_next if isinstance(part, ast.Attribute) and part.leaf == name and _runs(part)]
        found[name] = list(dict.fromkeys(_last(part) if keys else part for part in parts))
    return found


def of_events(query: ast.Query, keys: bool = False) -> dict[str, list[ast.Expr]]:
    """By variable, the expressions over the event alone that conditions with others ask for."""
    conditions, found = _conditions(query, keys), {}
    for leaf in positive_leaves(query.pattern):
        own = {leaf.name}
        wanted = [_last(part) for c in conditions if _mentions(c) != own for part in _parts(c, own)]
        found[leaf.name] = list(dict.fromkeys(wanted))
    return found


def _conditions(query: ast.Query, keys: bool) -> list[ast.Expr]:
    """The conjuncts, but those that compare keys only, unless these are wanted."""
    all_ = [c for c in ast.conjuncts(query.where) if not isinstance(c, ast.SameAttributes)]
    if keys:
        return all_
    joins = [c for c in all_ if _joined(c) is not None]
    others = {part.name for c in all_ if c not in joins for part in ast.walk(c) if isinstance(part, ast.Attribute)}
    return [c for c in all_ if c not in joins or _joined(c) in others]


def _joined(condition: ast.Expr) -> str | None:
    """The attribute that two variables have to agree on, if the condition says no more than that."""
    match condition:
        case ast.Binary("=", ast.Attribute() as left, ast.Attribute() as right) if left.name == right.name:
            return left.name if left.leaf != right.leaf else None
    return None


def _mentions(node: ast.Expr) -> set[str]:
    return {part.leaf for part in ast.walk(node) if isinstance(part, ast.Attribute | ast.Aggregate)}


def _parts(node: ast.Expr, bound: set[str]) -> Iterator[ast.Expr]:
    """The largest sub-expressions that are values over the bound variables only."""
    mentions = _mentions(node)
    if not mentions & bound:
        return
    if mentions <= bound and _is_value(node):
        yield node
        return
    for child in ast.children(node):
        yield from _parts(child, bound)


def _is_value(node: ast.Expr) -> bool:
    match node:
        case ast.Binary():
            return node.operator in ("+", "-", "*", "/", "//", "%", "^")
        case ast.Unary():
            return node.operator == "-"
    return isinstance(node, ast.Attribute | ast.Aggregate | ast.Call)


def _runs(node: ast.Expr) -> bool:
    """Whether it is of all elements of a repeated variable."""
    parts = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return any(part.index is not None and part.index.kind == "relative" for part in parts)


def _last(node: ast.Expr) -> ast.Expr:
    """The same of the element that comes."""
    if isinstance(node, ast.Attribute):
        return replace(node, index=None if node.index is None else ast.Index("last"))
    if isinstance(node, ast.Binary):
        return replace(node, left=_last(node.left), right=_last(node.right))
    if isinstance(node, ast.Unary):
        return replace(node, operand=_last(node.operand))
    if isinstance(node, ast.Call):
        return replace(node, arguments=tuple(map(_last, node.arguments)))
    return node
