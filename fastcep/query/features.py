"""Parse expressions over the partial matches of a query, which bind only some of its variables."""

from __future__ import annotations

from fastcep.query import ast, traversal
from fastcep.query.checks.condition import negated_mentions, refuse_deep, refuse_lists
from fastcep.query.checks.running import refuse_running
from fastcep.query.parsing.expressions import ExpressionReader
from fastcep.query.parsing.parser import parse_tree
from fastcep.query.printer import short_text
from fastcep.query.source import Problem, Source
from fastcep.query.types import Scope, type_of

__all__ = ["parse_feature"]


def parse_feature(text: str, query: ast.Query, description: str) -> ast.Expr:
    """Parse and check an expression over the variables of a query.

    Parameters
    ----------
    text
        An expression such as ``a.V + SUM(b[].V)``, over single events and aggregates; ``[i]`` is not allowed.
    query
        The checked query.
    description
        Name of the expression in error messages.

    Raises
    ------
    ParseError
        The text is invalid; the error shows the position.
    """
    source = Source(text, description)
    try:
        expression = ExpressionReader(source).read(parse_tree(source, "expression").children[0])
        _check(expression, Scope.of(query))
    except Problem as problem:
        raise source.error(problem.message, problem.span) from None
    return expression


def _check(expression: ast.Expr, scope: Scope) -> None:
    refuse_deep(expression)
    refuse_lists(expression)
    refuse_running(expression, "a feature")
    for part in traversal.walk(expression):
        if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
            x, a = part.variable, part.name if part.inner is None else f"{part.inner}.{part.name}"
            raise Problem(
                f"[i] refers to all elements, but a feature has one value per partial match; write {x}[first].{a}, "
                f"{x}[last].{a}, {x}[0].{a} or an aggregate such as MAX({x}[].{a})",
                part,
            )
    type_of(expression, scope)
    for mention in negated_mentions(expression, scope):
        raise Problem(
            f"{mention.qualified_name} is negated, so a partial match has no event of it; remove {short_text(mention)}",
            mention,
        )
