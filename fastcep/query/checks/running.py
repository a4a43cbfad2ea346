"""Check conditions with running aggregates, which are judged at each element of a Kleene variable when it is bound."""

from __future__ import annotations

from fastcep.query import ast, traversal
from fastcep.query.patterns import pattern_variables, sub_patterns
from fastcep.query.printer import short_text
from fastcep.query.source import Problem

__all__ = ["check_running", "refuse_running"]


def check_running(conjunct: ast.Expr, query: ast.Query) -> None:
    """Reject a condition with a running aggregate that also mentions something not known at each element."""
    running = running_aggregates(conjunct)
    if not running:
        return
    name, text = running[0].variable, short_text(running[0])
    for part in traversal.walk(conjunct):
        if not isinstance(part, ast.Attribute | ast.Aggregate) or part.index in (None, ast.Index("first")):
            known = not isinstance(part, ast.Aggregate) or part.variable != name
        elif part.variable == name:
            known = part.index in (ast.Index("first"), ast.Index("position")) or part.index.kind == "relative"
        else:
            known = part.index.kind != "relative"
        if not known:
            raise _unknown(part, text, name)
    earlier = bound_before(query.pattern, name)
    for mention in traversal.walk(conjunct):
        if isinstance(mention, ast.VariableReference) and mention.variable != name and mention.variable not in earlier:
            raise Problem(
                f"{text} is compared at each element of {name}, when {short_text(mention)} is not known yet; mention "
                f"only {name} and variables of parts before it in SEQ, or write a condition over all elements",
                mention,
            )


def _unknown(part: ast.Expr, text: str, name: str) -> Problem:
    return Problem(
        f"{text} is compared at each element of {name}, so the condition cannot mention {short_text(part)}; with a "
        f"running aggregate write {name}[i], {name}[i-1] or {name}[first], and attributes of variables before {name}",
        part,
    )


def refuse_running(expression: ast.Expr, place: str) -> None:
    """Reject running aggregates outside WHERE; ``place`` says where the expression is."""
    for part in running_aggregates(expression):
        whole = short_text(ast.Aggregate(part.function, part.variable, part.name, part.inner))
        raise Problem(f"{place} has no [i], so it has no {short_text(part)}; write {whole}", part)


def running_aggregates(expression: ast.Expr) -> list[ast.Aggregate]:
    """Return the running aggregates of an expression."""
    return [part for part in traversal.walk(expression) if isinstance(part, ast.Aggregate) and part.index is not None]


def bound_before(pattern: ast.Pattern, name: str) -> frozenset[str]:
    """Return the variables and groups that are complete when an event is bound to a variable.

    These are in earlier parts of a SEQ whose part contains the variable.
    """
    found: set[str] = set()
    for number, part in enumerate(sub_patterns(pattern)):
        if name in _names(part):
            if isinstance(pattern, ast.Sequence | ast.Aperiodic):
                for earlier in sub_patterns(pattern)[:number]:
                    found |= _names(earlier)
            return frozenset(found) | bound_before(part, name)
    return frozenset()


def _names(pattern: ast.Pattern) -> set[str]:
    """Return the names by which conditions mention the variables that a pattern binds."""
    variables = [variable.key[0] for variable in pattern_variables(pattern) if not variable.negated]
    return {*variables, *([pattern.name] if isinstance(pattern, ast.Group) else [])}
