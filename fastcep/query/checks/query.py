"""Check a query against its schema and against all rules that the grammar does not express."""

from __future__ import annotations

from fastcep.query import ast, traversal
from fastcep.query.checks.condition import check_condition, negated_mentions, refuse_deep, refuse_lists
from fastcep.query.checks.pattern import OUTPUT_COLUMNS, check_pattern
from fastcep.query.checks.policies import check_policies
from fastcep.query.checks.running import check_running, refuse_running
from fastcep.query.checks.until import check_until
from fastcep.query.checks.window import check_window
from fastcep.query.patterns import nesting, pattern_variables, positive_variables
from fastcep.query.printer import short_text
from fastcep.query.source import NESTED, Problem, Spans, suggest
from fastcep.query.types import BUILTINS, Scope, type_of

__all__ = ["check"]


def check(query: ast.Query, spans: Spans | None = None) -> ast.Query:
    """Check a query.

    Parameters
    ----------
    query
        A query as parsed or built.
    spans
        Positions of its names and clauses in the text, if it was parsed.

    Returns
    -------
    Query
        The same query.

    Raises
    ------
    Problem
        The first rule that the query breaks.
    """
    spans = spans or Spans()
    if not query.name:
        raise Problem("a query's name cannot be empty")
    if nesting(query.pattern) > ast.MAX_NESTING:
        raise Problem(NESTED.format("pattern"), query.pattern)
    for expression in traversal.expressions(query):
        refuse_deep(expression)
    check_pattern(query, spans)
    scope = Scope.of(query)
    if query.where is not None:
        _check_where(query, query.where, scope)
    check_until(query)
    check_window(query, spans)
    for position, name in enumerate(query.partition):
        place = spans.partition[position] if spans.partition else None
        _check_key(name, query, "PARTITION BY", place)
        if name in query.partition[:position]:
            raise Problem(f"PARTITION BY names '{name}' twice; keep one", place)
    check_policies(query, spans)
    _check_returns(query, scope)
    return query


def _check_where(query: ast.Query, where: ast.Expr, scope: Scope) -> None:
    for conjunct in traversal.conjuncts(where):
        if isinstance(conjunct, ast.SameAttributes):
            for position, name in enumerate(conjunct.names):
                _check_key(name, query, "[…]", conjunct.span)
                if name in conjunct.names[:position]:
                    raise Problem(f"[…] names '{name}' twice; keep one", conjunct)
            continue
        check_condition(conjunct, scope)
        check_running(conjunct, query)


def _check_key(name: str, query: ast.Query, clause: str, place: ast.Span | None) -> None:
    if name in BUILTINS:
        raise Problem(
            f"{clause} needs an attribute of the events, but '{name}' is built in; compare it in WHERE", place
        )
    first: tuple[str, str] | None = None
    variables = pattern_variables(query.pattern)
    for kind in dict.fromkeys(kind for variable in variables for kind in variable.declaration.types):
        attributes = query.schema.attributes(kind)
        dtype = attributes.get(name)
        if dtype is None:
            hint = suggest(name, attributes, "it has").removesuffix("; choose one of them").removesuffix("; write it")
            remedy = "" if "did you mean" in hint else "; use an attribute of all types, or conditions in WHERE"
            raise Problem(
                f"{clause} needs '{name}' in every type of the pattern, but {kind} has no such attribute{hint}{remedy}",
                place,
            )
        first = first or (kind, dtype)
        if dtype != first[1]:
            raise Problem(
                f"{clause} needs '{name}' to have one type, but it is {first[1]} in {first[0]} and {dtype} in {kind}; "
                "declare them with the same type, or compare them in WHERE",
                place,
            )


def _check_returns(query: ast.Query, scope: Scope) -> None:
    names: set[str] = set()
    variables = {variable.name for variable in positive_variables(query.pattern)}
    for item in query.returns:
        expression = item.expression
        if not isinstance(expression, ast.AttributeList):
            refuse_lists(expression)
        refuse_running(expression, "RETURN")
        for part in traversal.walk(expression):
            if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
                x, a = part.variable, part.name if part.inner is None else f"{part.inner}.{part.name}"
                raise Problem(
                    f"RETURN has no [i]: write {x}[].{a} for the list, {x}[first].{a}, {x}[last].{a} or {x}[0].{a}",
                    part,
                )
        type_of(expression, scope)
        for mention in negated_mentions(expression, scope):
            raise Problem(
                f"RETURN has no {short_text(mention)}: {mention.qualified_name} is negated, so a match has no event "
                "of it; remove it",
                mention,
            )
        if not item.name:
            raise Problem("an output column needs a name; write AS name", item)
        if item.name in names:
            raise Problem(f"two output columns are called '{item.name}'; rename one with AS", item)
        if item.name in variables or item.name in OUTPUT_COLUMNS:
            owner = "a variable" if item.name in variables else "a column of every result"
            raise Problem(f"the output column '{item.name}' has the name of {owner}; choose another with AS", item)
        names.add(item.name)
