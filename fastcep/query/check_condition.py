"""What may stand as a condition, whichever clause it is in."""

from __future__ import annotations

from fastcep.query import ast
from fastcep.query.printer import short_text
from fastcep.query.source import NESTED, Problem
from fastcep.query.types import Scope, type_of

__all__ = ["check_condition", "negated_mentions", "refuse_deep", "refuse_lists"]


def check_condition(conjunct: ast.Expr, scope: Scope, clause: str = "WHERE") -> None:
    """Check one of the conditions that a clause joins by AND; ``[attr]`` is not for this."""
    refuse_lists(conjunct)
    dtype = type_of(conjunct, scope)
    if dtype not in ("bool", "null"):
        raise Problem(
            f"{clause} needs conditions, but {short_text(conjunct)} is of type {dtype}; "
            f"compare it, as in {short_text(conjunct)} = …",
            conjunct,
        )
    _refuse_two_negated(conjunct, scope)


def negated_mentions(expression: ast.Expr, scope: Scope) -> list[ast.Attribute]:
    """The mentions of negated variables, once for each of these."""
    found = {
        part.leaf: part
        for part in ast.walk(expression)
        if isinstance(part, ast.Attribute) and scope.leaves[part.variable, part.inner].negated
    }
    return list(found.values())


def _refuse_two_negated(conjunct: ast.Expr, scope: Scope) -> None:
    mentions = negated_mentions(conjunct, scope)
    if len(mentions) > 1:
        one, other = (short_text(mention) for mention in mentions[:2])
        raise Problem(
            f"{one} and {other} are of two negated variables, and a condition can speak of one only, as neither is "
            "in the match; write a condition for each, joined by AND",
            mentions[1],
        )


def refuse_deep(expression: ast.Expr) -> None:
    """Refuse an expression that is too deep for what recurses into it."""
    if ast.nesting(expression) > ast.MAX_NESTING:
        raise Problem(NESTED.format("expression"), expression)


def refuse_lists(expression: ast.Expr) -> None:
    """Refuse ``x[].a`` outside of an aggregate, and ``[attr]`` inside of something else."""
    for part in ast.walk(expression):
        if isinstance(part, ast.SameAttributes):
            raise Problem(
                "[…] stands only as a condition of its own among the ANDs of WHERE, not inside OR, NOT or others", part
            )
        if isinstance(part, ast.AttributeList):
            text = short_text(part)
            raise Problem(f"the list {text} stands only in an aggregate such as MAX({text}), or alone in RETURN", part)
