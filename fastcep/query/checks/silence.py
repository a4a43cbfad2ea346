"""Checks of ``NEG N n FOR t``: it follows an event, and a match that waits for it has a window that allows that."""

from __future__ import annotations

from fastcep.events.units import INT64_MAX, format_duration
from fastcep.query import ast
from fastcep.query.patterns import is_nullable, sub_patterns, trailing_silence
from fastcep.query.printer import pattern_text
from fastcep.query.source import Problem, Spans

__all__ = ["check_silences"]


def check_silences(query: ast.Query, spans: Spans) -> None:
    """Check all silences of a pattern, which is valid otherwise."""
    _check(query.pattern, spans, follows=False)
    waiting = trailing_silence(query.pattern)
    if waiting is None:
        return
    text = pattern_text(waiting)
    if not isinstance(query.window, ast.TimeWindow | ast.Unbounded):
        counts = isinstance(query.window, ast.CountWindow)
        clause = "WITHIN n EVENTS counts events" if counts else "WINDOW may close first"
        raise Problem(
            f"a match can end with {text}, so it waits until that time has passed, but {clause}; write WITHIN 1h or "
            "WITHIN UNBOUNDED, or add a variable after it that must occur",
            waiting,
        )
    plain = _edge_negation(query.pattern)
    if plain is not None:
        raise Problem(
            f"a match can end with {text} and with {pattern_text(plain)}, which have different ends; write FOR and a "
            "time after both, or add a variable after them that must occur",
            plain,
        )


def _check(pattern: ast.Pattern, spans: Spans, follows: bool) -> None:
    """Check a part of the pattern; ``follows``: an event is always bound before it."""
    if isinstance(pattern, ast.Negation) and pattern.nanoseconds is not None:
        _check_silence(pattern, pattern.nanoseconds, spans, follows)
    if isinstance(pattern, ast.Aperiodic | ast.Periodic) and any(map(_has_silence, sub_patterns(pattern))):
        keyword = "APERIODIC" if isinstance(pattern, ast.Aperiodic) else "PERIODIC"
        raise Problem(
            f"{keyword} has its own end, so its parts cannot contain NEG … FOR; write NEG without FOR", pattern
        )
    if isinstance(pattern, ast.Disjunction):
        empty = [part for part in pattern.patterns if is_nullable(part)]
        if len(empty) > 1 and any(map(_has_silence, empty)):
            raise Problem(
                f"{pattern_text(empty[0])} and {pattern_text(empty[1])} are branches of one OR that may bind no event, "
                "so it is undefined which one is taken; keep one, or add a variable that must occur",
                empty[1],
            )
    for part in sub_patterns(pattern):
        _check(part, spans, follows)
        if isinstance(pattern, ast.Sequence) and not is_nullable(part):
            follows = True


def _check_silence(part: ast.Negation, nanoseconds: int, spans: Spans, follows: bool) -> None:
    text = pattern_text(part)
    if not 1 <= nanoseconds <= INT64_MAX:
        raise Problem(
            f"NEG … FOR {format_duration(nanoseconds)} excludes nothing; expected at least 1ns",
            spans.of(part, "silence"),
        )
    if not follows:
        raise Problem(
            f"{text} counts from the last event bound before it, but there may be none; write it after a variable that "
            f"must occur, as in SEQ(P p, {text})",
            part,
        )


def _has_silence(pattern: ast.Pattern) -> bool:
    if isinstance(pattern, ast.Negation):
        return pattern.nanoseconds is not None
    return any(map(_has_silence, sub_patterns(pattern)))


def _edge_negation(pattern: ast.Pattern) -> ast.Negation | None:
    """Return the first NEG without FOR at the end of the outermost SEQ, or None."""
    parts = pattern.patterns if isinstance(pattern, ast.Sequence) else ()
    for number, part in enumerate(parts):
        is_plain = isinstance(part, ast.Negation) and part.nanoseconds is None
        if isinstance(part, ast.Negation) and is_plain and all(map(is_nullable, parts[number + 1 :])):
            return part
    return None
