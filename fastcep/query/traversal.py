"""Walks over the expressions of a query."""

from __future__ import annotations

from collections.abc import Iterator

from fastcep.query import ast

__all__ = ["children", "conjuncts", "expressions", "nesting", "variables", "walk"]


def children(node: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the direct sub-expressions of ``node``, left to right."""
    if isinstance(node, ast.Literal):  # a fast path, because IN can have many
        return
    names: tuple[str, ...] = type(node).__match_args__  # the fields without the span; `fields` is slow
    for name in names:
        value = getattr(node, name)
        if isinstance(value, ast.Expr):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, ast.Expr))


def walk(node: ast.Expr) -> Iterator[ast.Expr]:
    """Yield ``node`` and all its descendants, parents first, left to right."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(tuple(children(node))))


def conjuncts(where: ast.Expr | None) -> tuple[ast.Expr, ...]:
    """Split a condition at its top-level ANDs, regardless of parentheses; NOT and OR are not split."""
    terms, stack = [], [] if where is None else [where]
    while stack:
        term = stack.pop()
        if isinstance(term, ast.Binary) and term.operator == "AND":
            stack += (term.right, term.left)
        else:
            terms.append(term)
    return tuple(terms)


def nesting(node: ast.Expr) -> int:
    """Return the nesting depth of an expression; a chain of operations, such as a sum, is one level."""
    deepest, stack = 0, [(node, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        for child in children(node):
            in_chain = isinstance(node, ast.Binary) and child is node.left and isinstance(child, ast.Binary)
            stack.append((child, level if in_chain else level + 1))
    return deepest


def expressions(query: ast.Query) -> Iterator[ast.Expr]:
    """Yield the expressions of a query: in RETURN, in WHERE and in the bounds of its windows."""
    yield from (item.expression for item in query.returns)
    wheres = [query.where]
    if isinstance(query.window, ast.ExplicitWindow):
        wheres += [query.window.opening.where, query.window.closing.where]
    yield from (where for where in wheres if where is not None)


def variables(node: ast.Expr) -> frozenset[str]:
    """Return the names of the variables that ``node`` mentions: ``x``, ``g.a``, and ``g`` for ``COUNT(g[])``."""
    return frozenset(part.qualified_name for part in walk(node) if isinstance(part, ast.VariableReference))
