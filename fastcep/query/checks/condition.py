"""Checks of conditions, which are the same in all clauses."""

from __future__ import annotations

from fastcep.query import ast, traversal
from fastcep.query.printer import short_text
from fastcep.query.source import NESTED, Problem
from fastcep.query.types import Scope, type_of

__all__ = ["check_condition", "negated_mentions", "refuse_deep", "refuse_lists"]


def check_condition(conjunct: ast.Expr, scope: Scope, clause: str = "WHERE") -> None:
    """Check one of the conditions that a clause joins by AND, except ``[attr]``."""
    refuse_lists(conjunct)
    dtype = type_of(conjunct, scope)
    if dtype not in ("bool", "null"):
        raise Problem(
            f"{clause} needs conditions, but {short_text(conjunct)} has the type {dtype}; "
            f"compare it, as in {short_text(conjunct)} = …",
            conjunct,
        )
    _refuse_two_negated(conjunct, scope)


def negated_mentions(expression: ast.Expr, scope: Scope) -> list[ast.Attribute]:
    """Return one mention of each negated variable in an expression."""
    mentions = {
        part.qualified_name: part
        for part in traversal.walk(expression)
        if isinstance(part, ast.Attribute) and scope.variables[part.variable, part.inner].negated
    }
    return list(mentions.values())


def _refuse_two_negated(conjunct: ast.Expr, scope: Scope) -> None:
    mentions = negated_mentions(conjunct, scope)
    if len(mentions) > 1:
        one, other = (short_text(mention) for mention in mentions[:2])
        raise Problem(
            f"{one} and {other} belong to two negated variables, but a condition can mention only one; write a "
            "condition for each, joined by AND",
            mentions[1],
        )


def refuse_deep(expression: ast.Expr) -> None:
    """Reject an expression that is too deep for the recursive functions that process it."""
    if traversal.nesting(expression) > ast.MAX_NESTING:
        raise Problem(NESTED.format("expression"), expression)


def refuse_lists(expression: ast.Expr) -> None:
    """Reject ``x[].a`` outside an aggregate, and ``[attr]`` inside another expression."""
    for part in traversal.walk(expression):
        if isinstance(part, ast.SameAttributes):
            raise Problem(
                "[…] is allowed only as a separate condition of WHERE, joined by AND, not inside OR, NOT or others; "
                "compare the attributes there instead, as in x.a = y.a",
                part,
            )
        if isinstance(part, ast.AttributeList):
            text = short_text(part)
            raise Problem(
                f"the list {text} is allowed only in an aggregate such as MAX({text}), or alone in RETURN", part
            )
