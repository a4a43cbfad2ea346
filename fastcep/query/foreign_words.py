"""Hints for words of other languages: what to write instead of MEASURES, followedBy, ``->``, ``1h30min`` and others.

Every hint recommends a text that is itself valid; ``tests/query/test_foreign_words.py`` parses each of them.
"""

from __future__ import annotations

import re

from fastcep.events.hints import unit_of
from fastcep.events.units import INT64_MAX, NANOSECONDS, format_duration

__all__ = ["foreign_hint"]

_SEQUENCE = "a sequence is written SEQ(A a, B b)"
_QUERY = "a query is written PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"
_COMMENT = "a comment starts with --"
#: Hints by a pattern of the text from the unexpected token on.
_AT: tuple[tuple[str, str], ...] = (
    (r"measures\b", "output columns come last, as in RETURN a.v AS name"),
    (r"define\b", "conditions on variables are written WHERE a.v > 1 AND b.v > a.v"),
    (r"(\w+\s+)?followed\s*by(any)?\b|(\w+\s*)?->", _SEQUENCE),
    (r"every\s+\w", f"every event that can begin a match does, so leave out EVERY; {_SEQUENCE}"),
    (r"(select\b.*\bfrom|from|insert|create|match_recognize)\b", _QUERY),
    (r"(one|all)\s+rows?\s+per\s+match\b", "the output columns are written RETURN a.v, b.v"),
    (r"order\s+by\b", "the stream is in order of time, so leave it out"),
    (r"having\b", "conditions, also on aggregates, are written WHERE COUNT(a[]) > 2"),
    (r"(#|//|/\*)", _COMMENT),
)
#: Hints by a pattern of the text before the unexpected token.
_BEFORE: tuple[tuple[str, str], ...] = (
    (r"\bevery\s+\w+\s*$", f"every event that can begin a match does, so leave out EVERY; {_SEQUENCE}"),
    (r"\bcount\s*\(\s*$", "the number of events of a variable is written COUNT(a[])"),
)
_UNIT = "ns|us|ms|min|s|h|d|m"
_PART = rf"\d+\s*(?:{_UNIT})"


def foreign_hint(before: str, rest: str) -> str:
    """Return a hint, or an empty text; ``before`` and ``rest`` are the query before and from the unexpected token."""
    duration = _duration_hint(before, rest)
    if duration:
        return duration
    in_pattern = re.search(r"\b(where|within|window)\b", before, re.IGNORECASE) is None
    for pattern, hint in _AT:
        if "every" in pattern and not in_pattern:  # windows begin EVERY 5min
            continue
        if re.match(pattern, rest, re.IGNORECASE | re.DOTALL):
            return f"; {hint}"
    for pattern, hint in _BEFORE:
        fits = rest.startswith("*") if "count" in pattern else in_pattern
        if fits and re.search(pattern, before, re.IGNORECASE):
            return f"; {hint}"
    return ""


def _duration_hint(before: str, rest: str) -> str:
    """Return the hint for ``1h30min`` or ``5 minutes``, of which ``before`` ends in a number or a duration."""
    number = re.search(r"(\d+)\s*$", before)
    begun = re.search(rf"({_PART}|\d+)\s*$", before, re.IGNORECASE)
    further = re.match(rf"((?:{_UNIT})\s*)?((?:{_PART}\s*)+)(?!\w)", rest, re.IGNORECASE)
    if begun and further:
        parts = re.findall(r"(\d+)\s*([a-z]+)", (begun[0] + further[0]).lower())
        total = sum(int(count) * NANOSECONDS[unit_of(unit) or unit] for count, unit in parts)
        return f"; a duration has one unit: write {format_duration(total)}" if total <= INT64_MAX else ""
    further = re.match(r"(\.\d+)?\s*([a-z]+)(?!\w)", rest, re.IGNORECASE)
    if number is None or further is None:
        return ""
    decimals, word = further[1] or "", further[2].lower()
    if word in ("week", "weeks") and not decimals:
        return f"; write {7 * int(number[1])}d"
    unit = unit_of(word)
    return f"; write {number[1]}{decimals}{unit}" if unit is not None else ""
