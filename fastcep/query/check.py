"""Names resolved against a schema, and every rule that a query must keep beyond its grammar."""

from __future__ import annotations

from fastcep.events.units import INT64_MAX
from fastcep.query import ast
from fastcep.query.check_pattern import OUTPUT_COLUMNS, check_pattern
from fastcep.query.patterns import leaves_of, positive_leaves
from fastcep.query.printer import expression_text
from fastcep.query.source import Problem, Spans, suggest
from fastcep.query.types import BUILTINS, Scope, type_of

__all__ = ["check"]


def check(query: ast.Query, spans: Spans | None = None) -> ast.Query:
    """Check a query.

    Parameters
    ----------
    query
        A query as parsed or built.
    spans
        Where the names of its pattern and keys stand, if it was parsed.

    Returns
    -------
    Query
        The same query.

    Raises
    ------
    Problem
        The first rule that it breaks.
    """
    spans = spans or Spans()
    if not query.name:
        raise Problem("a query's name cannot be empty")
    check_pattern(query, spans)
    scope = Scope.of(query)
    if query.where is not None:
        _check_where(query, query.where, scope)
    _check_window(query.window)
    for position, name in enumerate(query.partition):
        place = spans.partition[position] if spans.partition else None
        _check_key(name, query, "PARTITION BY", place)
        if name in query.partition[:position]:
            raise Problem(f"PARTITION BY names '{name}' twice; keep one", place)
    _check_returns(query, scope)
    return query


def _check_where(query: ast.Query, where: ast.Expr, scope: Scope) -> None:
    for conjunct in ast.conjuncts(where):
        if isinstance(conjunct, ast.SameAttributes):
            for position, name in enumerate(conjunct.names):
                _check_key(name, query, "[…]", conjunct.span)
                if name in conjunct.names[:position]:
                    raise Problem(f"[…] names '{name}' twice; keep one", conjunct)
            continue
        _refuse_lists(conjunct)
        dtype = type_of(conjunct, scope)
        if dtype not in ("bool", "null"):
            raise Problem(
                f"WHERE needs conditions, but {expression_text(conjunct)} is of type {dtype}; "
                f"compare it, as in {expression_text(conjunct)} = …",
                conjunct,
            )
        _refuse_two_negated(conjunct, scope)


def _negated(expression: ast.Expr, scope: Scope) -> list[ast.Attribute]:
    """The mentions of negated variables, once for each of these."""
    found = {
        part.leaf: part
        for part in ast.walk(expression)
        if isinstance(part, ast.Attribute) and scope.leaves[part.variable, part.inner].negated
    }
    return list(found.values())


def _refuse_two_negated(conjunct: ast.Expr, scope: Scope) -> None:
    mentions = _negated(conjunct, scope)
    if len(mentions) > 1:
        one, other = (expression_text(mention) for mention in mentions[:2])
        raise Problem(
            f"{one} and {other} are of two negated variables, and a condition can speak of one only, as neither is "
            "in the match; write a condition for each, joined by AND",
            mentions[1],
        )


def _refuse_lists(expression: ast.Expr) -> None:
    for part in ast.walk(expression):
        if isinstance(part, ast.SameAttributes):
            raise Problem(
                "[…] stands only as a condition of its own among the ANDs of WHERE, not inside OR, NOT or others", part
            )
        if isinstance(part, ast.AttributeList):
            text = expression_text(part)
            raise Problem(f"the list {text} stands only in an aggregate such as MAX({text}), or alone in RETURN", part)


def _check_window(window: ast.Window) -> None:
    if isinstance(window, ast.CountWindow) and not 1 <= window.events <= INT64_MAX:
        raise Problem(f"WITHIN {window.events} EVENTS is no window; expected at least 1", window)
    if isinstance(window, ast.TimeWindow) and not 0 <= window.nanoseconds <= INT64_MAX:
        raise Problem(f"WITHIN {window.nanoseconds} ns is no window; expected 0 to {INT64_MAX} ns", window)


def _check_key(name: str, query: ast.Query, clause: str, place: ast.Span | None) -> None:
    if name in BUILTINS:
        raise Problem(
            f"{clause} needs an attribute of the events, and '{name}' is built in; compare it in WHERE", place
        )
    first: tuple[str, str] | None = None
    for kind in dict.fromkeys(kind for leaf in leaves_of(query.pattern) for kind in leaf.member.types):
        attributes = query.schema.attributes(kind)
        dtype = attributes.get(name)
        if dtype is None:
            raise Problem(
                f"{clause} needs '{name}' in every type of the pattern, but {kind} has no such attribute"
                f"{suggest(name, attributes, 'it has')}",
                place,
            )
        first = first or (kind, dtype)
        if dtype != first[1]:
            raise Problem(
                f"{clause} needs '{name}' to have one type, but it is {first[1]} in {first[0]} and {dtype} in {kind}; "
                "declare them alike, or compare them in WHERE",
                place,
            )


def _check_returns(query: ast.Query, scope: Scope) -> None:
    names: set[str] = set()
    variables = {leaf.name for leaf in positive_leaves(query.pattern)}
    for item in query.returns:
        expression = item.expression
        if not isinstance(expression, ast.AttributeList):
            _refuse_lists(expression)
        for part in ast.walk(expression):
            if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
                x, a = part.variable, part.name if part.inner is None else f"{part.inner}.{part.name}"
                raise Problem(
                    f"RETURN has no [i]: write {x}[].{a} for the list, {x}[first].{a}, {x}[last].{a} or {x}[0].{a}",
                    part,
                )
        type_of(expression, scope)
        for mention in _negated(expression, scope):
            raise Problem(
                f"RETURN has no {expression_text(mention)}: {mention.leaf} is negated, so a match has no event of it; "
                "leave it out",
                mention,
            )
        if not item.name:
            raise Problem("an output column needs a name; write AS name", item)
        if item.name in names:
            raise Problem(f"two output columns are called '{item.name}'; tell them apart with AS name", item)
        if item.name in variables or item.name in OUTPUT_COLUMNS:
            what = "a variable" if item.name in variables else "a column of every result"
            raise Problem(f"the output column '{item.name}' has the name of {what}; choose another with AS", item)
        names.add(item.name)
