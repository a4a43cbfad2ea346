"""Checks of ``AFTER MATCH SKIP TO FIRST x`` and ``SKIP TO LAST x``."""

from __future__ import annotations

from fastcep.query import ast
from fastcep.query.patterns import groups_of, is_nullable, pattern_variables, sub_patterns
from fastcep.query.printer import name_text
from fastcep.query.source import Problem, Spans, suggest

__all__ = ["check_skip_to", "skip_variables"]


def skip_variables(query: ast.Query) -> tuple[int, ...]:
    """Return the positions of the variables of ``SKIP TO FIRST x`` and ``LAST x``: x, or those of the group x."""
    if query.skip_to is None:
        return ()
    return tuple(
        number
        for number, variable in enumerate(pattern_variables(query.pattern))
        if not variable.negated
        and query.skip_to in (variable.name, variable.group.name if variable.group is not None else None)
    )


def check_skip_to(query: ast.Query, spans: Spans) -> None:
    """Check the variable of ``SKIP TO FIRST`` and ``SKIP TO LAST``; raise `Problem` if it does not fit."""
    x, place = query.skip_to, spans.clauses.get("skip_to") or spans.clauses.get("after_match")
    clause = f"AFTER MATCH {query.after_match.upper()}"
    if query.after_match not in ("skip to first", "skip to last"):
        if x is not None:
            raise Problem(f"{clause} names no variable, but {x!r} is given; write SKIP TO FIRST or SKIP TO LAST", place)
        return
    if not isinstance(x, str):
        raise Problem(f"{clause} needs the name of a variable, as in {clause} x", place)
    variables = pattern_variables(query.pattern)
    names = [variable.name for variable in variables if not variable.negated and variable.group is None]
    names += [group.name for group in groups_of(query.pattern)]
    if x not in names:
        for variable in variables:
            if variable.negated and variable.name == x:
                raise Problem(f"{clause} {name_text(x)}: {x} is negated, so a match has no event of it", place)
            if variable.group is not None and variable.declaration.name == x:
                g = variable.group.name
                raise Problem(f"{clause} {name_text(x)}: {x} is in the group {g}; write {clause} {name_text(g)}", place)
        raise Problem(f"unknown variable {x!r} in {clause}{suggest(x, names, 'the pattern has')}", place)
    first = _first(query.pattern)
    if first is None or first.name != x:
        return
    if query.after_match == "skip to first" or not first.repeated:
        raise Problem(
            f"{clause} {name_text(x)}: every match begins with {'the first event of ' * first.repeated}{x}, so it "
            "would skip nothing; write AFTER MATCH SKIP TO NEXT"
            + (f", or {clause.replace('FIRST', 'LAST')} {name_text(x)}" if first.repeated else ""),
            place,
        )


def _first(pattern: ast.Pattern) -> ast.Variable | ast.Group | None:
    """Return the variable or group with which every match begins, or None if there are several possibilities."""
    if isinstance(pattern, ast.Variable | ast.Group):
        return pattern
    if isinstance(pattern, ast.Sequence):
        parts = [part for part in pattern.patterns if not isinstance(part, ast.Negation)]
        return None if not parts or is_nullable(parts[0]) else _first(parts[0])
    if isinstance(pattern, ast.Aperiodic | ast.Until):
        return _first(sub_patterns(pattern)[0])
    return None
