"""Names resolved against a schema, and every rule that a query must keep beyond its grammar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastcep.events.units import INT64_MAX
from fastcep.query import ast
from fastcep.query.printer import expression_text
from fastcep.query.source import Problem, suggest
from fastcep.query.transform import Spans
from fastcep.query.types import BUILTINS, Scope, type_of

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["MAX_MEMBERS", "check"]

MAX_MEMBERS = 64
OUTPUT_COLUMNS = ("query", "window_id", "detected_at")


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
    _check_pattern(query, spans)
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


def _check_pattern(query: ast.Query, spans: Spans) -> None:
    members = query.pattern.members
    if not members:
        raise Problem("SEQ() has no member; expected at least one, such as SEQ(A a, B b)", query.pattern)
    if len(members) > MAX_MEMBERS:
        raise Problem(
            f"the pattern has {len(members)} members; at most {MAX_MEMBERS} are possible", members[MAX_MEMBERS]
        )
    seen: dict[str, ast.Member] = {}
    for number, member in enumerate(members):
        for position, name in enumerate(member.types):
            place = spans.types[number][position] if spans.types else None
            _check_type(name, query.schema, place or member.span)
            if name in member.types[:position]:
                raise Problem(f"the union names '{name}' twice; keep one", place or member.span)
        _check_variable(member.variable, seen, spans.variables[number] if spans.variables else member.span)
        _check_bounds(member)
        seen[member.variable] = member


def _check_type(name: str, schema: Schema, place: ast.Span | None) -> None:
    if name not in schema.type_names:
        raise Problem(f"unknown event type '{name}'{suggest(name, schema.type_names, 'declared are')}", place)


def _check_variable(name: str, seen: Iterable[str], place: ast.Span | None) -> None:
    if name == "i":
        raise Problem("'i' is no name for a variable, because it is the index in x[i]; choose another", place)
    if not name:
        raise Problem("a variable's name cannot be empty", place)
    if name in seen:
        raise Problem(f"variable '{name}' stands twice in the pattern; give each member its own", place)
    if name in OUTPUT_COLUMNS:
        raise Problem(f"variable '{name}' has the name of an output column; choose another", place)


def _check_bounds(member: ast.Member) -> None:
    low, high = member.minimum, member.maximum
    if high is not None and (high < 1 or low > high or high > INT64_MAX):
        raise Problem(f"{{{low},{high}}} is no quantifier; expected 0 <= m <= n and n >= 1", member)
    if not 0 <= low <= INT64_MAX or (not member.repeated and (high != 1 or low > 1)):
        raise Problem(f"{{{low},{high}}} does not fit {member.variable}", member)


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
    for kind in dict.fromkeys(kind for member in query.pattern.members for kind in member.types):
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
    for item in query.returns:
        expression = item.expression
        if not isinstance(expression, ast.AttributeList):
            _refuse_lists(expression)
        for part in ast.walk(expression):
            if isinstance(part, ast.Attribute) and part.index is not None and part.index.kind == "relative":
                x, a = part.variable, part.name
                raise Problem(
                    f"RETURN has no [i]: write {x}[].{a} for the list, {x}[first].{a}, {x}[last].{a} or {x}[0].{a}",
                    part,
                )
        type_of(expression, scope)
        if not item.name:
            raise Problem("an output column needs a name; write AS name", item)
        if item.name in names:
            raise Problem(f"two output columns are called '{item.name}'; tell them apart with AS name", item)
        if item.name in scope.members or item.name in OUTPUT_COLUMNS:
            what = "a variable" if item.name in scope.members else "a column of every result"
            raise Problem(f"the output column '{item.name}' has the name of {what}; choose another with AS", item)
        names.add(item.name)
