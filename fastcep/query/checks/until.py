"""Checks of ``UNTIL``: the loop, and the conditions on the event that ends it.

The event that ends a loop is searched when an element of the loop is bound, so its conditions may mention only what is
known at the first element: variables bound before the loop, and ``b[first]``. Later elements change nothing about an
event that has not ended the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastcep.query import ast, traversal
from fastcep.query.patterns import groups_of, positive_variables, sub_patterns
from fastcep.query.printer import pattern_text, short_text
from fastcep.query.source import Problem, Spans

__all__ = ["check_loop", "check_until"]


def check_loop(pattern: ast.Until, spans: Spans) -> None:
    """Check that UNTIL is about a loop; raise `Problem` if not."""
    loop = pattern.pattern
    if loop.repeated and loop.maximum != 1:
        return
    several = replace(loop, minimum=1, maximum=None, repeated=True)
    element = "event" if isinstance(loop, ast.Variable) else "round"
    raise Problem(
        f"UNTIL ends a loop, but {loop.name} holds at most one {element}; write {pattern_text(several)}, or "
        f"{pattern_text(pattern.negation)} before it in a SEQ",
        spans.of(pattern, "until") or pattern,
    )


def check_until(query: ast.Query) -> None:
    """Check the conditions on the events that end loops; raise `Problem` at the first fault."""
    for until, before in _loops(query.pattern, frozenset()):
        ending = until.negation.name
        for conjunct in traversal.conjuncts(query.where):
            if ending not in traversal.variables(conjunct):
                continue
            for part in traversal.walk(conjunct):
                if isinstance(part, ast.VariableReference) and not _is_known(part, until, before):
                    raise _unknown(part, until, before)


def _loops(pattern: ast.Pattern, before: frozenset[str]) -> Iterator[tuple[ast.Until, frozenset[str]]]:
    """Yield each loop with UNTIL, and the names of the variables and groups bound before it."""
    if isinstance(pattern, ast.Until):
        yield pattern, before
    in_order = isinstance(pattern, ast.Sequence | ast.Aperiodic)
    for part in sub_patterns(pattern):
        yield from _loops(part, before)
        if in_order:
            before |= {variable.name for variable in positive_variables(part)}
            before |= {group.name for group in groups_of(part)}


def _is_known(part: ast.VariableReference, until: ast.Until, before: frozenset[str]) -> bool:
    if part.variable == until.negation.name or part.qualified_name in before:
        return True
    index = part.index if isinstance(part, ast.Attribute) else None
    is_first = index is not None and (index.kind == "first" or (index.kind, index.offset) == ("position", 0))
    return is_first and isinstance(until.pattern, ast.Variable) and part.variable == until.pattern.name


def _unknown(part: ast.VariableReference, until: ast.Until, before: frozenset[str]) -> Problem:
    assert isinstance(part, ast.Expr)
    loop, ending = until.pattern, until.negation.name
    known = [*sorted(before), *([f"{loop.name}[first]"] if isinstance(loop, ast.Variable) else [])]
    expected = f"only {', '.join(known)}" if known else "no other variable"
    return Problem(
        f"a condition on {ending}, which ends the loop {loop.name}, mentions {short_text(part)}; it may mention "
        f"{expected}, which {'are' if len(known) > 1 else 'is'} known before the second element of {loop.name}",
        part,
    )
