"""Remarks on loops whose end is not where a reader expects it."""

from __future__ import annotations

from collections.abc import Iterator

from fastcep.query import ast
from fastcep.query.patterns import sub_patterns
from fastcep.query.printer import pattern_text
from fastcep.query.source import Problem

__all__ = ["loop_remarks"]


def loop_remarks(pattern: ast.Pattern) -> Iterator[Problem]:
    """Yield the remark on each APERIODIC whose closing event looks as if it ended a loop."""
    loop = pattern.body if isinstance(pattern, ast.Aperiodic) else None
    if (
        isinstance(pattern, ast.Aperiodic)
        and isinstance(loop, ast.Variable | ast.Group)
        and loop.repeated
        and loop.maximum != 1
    ):
        negation = ast.Negation(pattern.closing.types, pattern.closing.name)
        ended = ast.Sequence((pattern.opening, ast.Until(loop, negation)))
        excluded = ast.Sequence((pattern.opening, negation, loop))
        yield Problem(
            f"{pattern_text(pattern.closing)} must not come before the first element of {loop.name}, but does not end "
            f"the loop; write {pattern_text(ended)} to end it, or {pattern_text(excluded)} if you mean that",
            pattern,
        )
    for part in sub_patterns(pattern):
        yield from loop_remarks(part)
