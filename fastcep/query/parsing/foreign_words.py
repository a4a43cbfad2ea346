"""Hints for words of other languages: what to write instead of MEASURES, followedBy, ``->``, ``1h30min`` and others.

Every hint recommends a text that is itself valid; ``tests/query/test_foreign_words.py`` parses each of them.
"""

from __future__ import annotations

import re

from fastcep.events.hints import unit_of
from fastcep.events.units import INT64_MAX, NANOSECONDS, format_duration

__all__ = ["foreign_function", "foreign_hint"]

_SEQUENCE = "a sequence is written SEQ(A a, B b)"
_QUERY = "a query is written PATTERN SEQ(A a, B b) WHERE a.v = b.v WITHIN 5min RETURN a.v"
_COMMENT = "a comment starts with --"
_EVERY = f"every event that can begin a match does, so leave out EVERY; {_SEQUENCE}"
_DISTINCT = "the first event of each value is written SEQ(NEG A n, A a) WHERE n.v = a.v"
_LOOP = "a loop is written A+ a[]"
_TIMES = "a number of events is written A{5} a[], A{2,5} a[] or A{2,} a[]"
_OPTIONAL = "an optional event is written A? a"
_COMBINATIONS = "remove it: by default a loop has all combinations, as in A+ a[]"
_GREEDY = "remove it, and write SELECT longest with STRATEGY skip_till_next"
_RELUCTANT = "remove the ?: without SELECT longest no loop waits for its longest form"
_NEGATION = "an event that must not occur is written NEG N n"
_CONDITION = "conditions on events are written WHERE a.v = 3"
_VARIABLE = "the variable comes after its type, as in A a"
_KEY = "keys are written PARTITION BY v"
_ANY_ORDER = "events in any order are written AND(A a, B b)"
_ALTERNATIVES = "alternatives are written OR(A a, B b), or (A|B) x for one event"
_SILENCE = "a silence is written NEG N n FOR 5s, and ticks PERIODIC(A a, 5s, C c)"
_STARTS = "write starts_with(a.s, 'x'), ends_with(a.s, 'x') or contains(a.s, 'x')"
_UNTIL = "a loop that ends at an event is written A+ a[] UNTIL B b"
_COUNT = "the number of events of a variable is written COUNT(a[])"
_CALLS = r"(within|where|next|followedBy(Any)?|not(Next|FollowedBy)|times(OrMore)?|oneOrMore|optional|until|begin)"

#: Hints by a pattern of the text from the unexpected token on.
_AT: tuple[tuple[str, str], ...] = (
    (r"measures\b", "output columns come last, as in RETURN a.v AS name"),
    (r"define\s+(stream|table|window)\b", "event types are those of the schema, or of EVENT A (v int64) in a document"),
    (r"define\b", "conditions on variables are written WHERE a.v > 1 AND b.v > a.v"),
    (r"(\w+\s+)?followed\s*by(any)?\b|(\w+\s*)?->", _SEQUENCE),
    (r"(select\b.*\bfrom|from|insert|create|match_recognize)\b|@(app|info|name|sink|source|hint|audit)\b", _QUERY),
    (rf"(\w+\s*)?\.\s*{_CALLS}\s*\(|begin\s*\(", _QUERY),
    (r"partition\s+with\b|key\s*by\b", _KEY),
    (r"(one|all)\s+rows?\s+per\s+match\b", "the output columns are written RETURN a.v, b.v"),
    (r"order\s+by\b", "the stream is in order of time, so leave it out"),
    (r"having\b", "conditions, also on aggregates, are written WHERE COUNT(a[]) > 2"),
    (r"output\s+\w", "every match is reported when it is found, so leave it out"),
    (r"subset\b", "a variable for several types is written (A|B) x"),
    (r"mod\b", "a remainder is written a.v % 3"),
    (r"(#|//|/\*)", _COMMENT),
)
#: Hints by a pattern of the text from the unexpected token on, inside the pattern; windows begin EVERY 5min.
_IN_PATTERN: tuple[tuple[str, str], ...] = (
    (r"(every)?-distinct\b", _DISTINCT),
    (r"every\s+\w", _EVERY),
    (r"one_?or_?more\b", _LOOP),
    (r"times(ormore)?\s*\(", _TIMES),
    (r"optional\b", _OPTIONAL),
    (r"greedy\b", _GREEDY),
    (r"allow_?combinations\b", _COMBINATIONS),
    (r"permute\b", _ANY_ORDER),
    (r"until\b", _UNTIL),
    (r"\{-", "remove {- and -}, and leave out the columns of these variables"),
    (r"<\s*\d*\s*:?\s*\d*\s*>|\[\s*\d*\s*:?\s*\d*\s*\]\s*\w", _TIMES),
    (r"\?\s*\w+\s*\[", _RELUCTANT),
    (r"\^", "remove it; for the first event of the stream write WHERE a.seq = 0"),
    (r"\$", "remove it, because a stream has no end"),
    (r"[~¬]", _NEGATION),
    (r":\s*within\b", "a limit of time is written WITHIN 5min"),
    (r":\s*interval\b", _SILENCE),
    (r"\w+\s*(=|\w)[^;]*?(->|\bfollowed\s*by)", _SEQUENCE),
)
#: Hints by a pattern of the text before the unexpected token and a pattern of the text from it on, inside the pattern.
_AROUND: tuple[tuple[str, str, str], ...] = (
    (r"\bevery\s+\w+\s*$", "", _EVERY),
    (r"\bevery\s*$", r"-\s*distinct", _DISTINCT),
    (r"\bnot_?(followed_?by|next)\s+\w+\s*$", "", _NEGATION),
    (r"\bone_?or_?more\s*$", r"\(", _LOOP),
    (r"\btimes(ormore)?\s*$", r"\(", _TIMES),
    (r"\boptional\s+\w+\s*$", r"\w", _OPTIONAL),
    (r"\bpermute\s*$", r"\(", _ANY_ORDER),
    (r"[(,]\s*until\s+\w+\s*$", r"\w", _UNTIL),
    (r"[(,]\s*\w+\s+\w+\s*$", r"\|", _ALTERNATIVES),
    (r"[(,]\s*\w+\s*$", r"\(\s*\w+\s*[=<>!]|\[\s*[\w.]+\s*[=<>!]", _CONDITION),
    (r"[(,]\s*\w+\s*$", r"=", _VARIABLE),
    (r"\bpattern\s*$", r"\[|\((?!(?:[^()]|\([^()]*\))*\)\s*[+*?{])", _SEQUENCE),
)
#: The same, for the text after WHERE or WITHIN.
_IN_CLAUSES: tuple[tuple[str, str, str], ...] = (
    (r"\bcount\s*\(\s*(\w+\s*\.\s*)?$", r"\*", _COUNT),
    (r"\.\s*(size|length|count)\s*$", r"\(", _COUNT),
    (r"\.\s*(starts_?with|ends_?with|contains)\s*$", r"\(", _STARTS),
    (r"\brunning\s*$", r"\w", "a running aggregate is written SUM(a[..i].v)"),
    (r"\bfinal\s*$", r"\w", "leave it out: SUM(a[].v) is over all elements, and a[last].v is the last one"),
    (r"\btimer\s*$", r":\s*within\b", "a limit of time is written WITHIN 5min"),
)
#: Hints for functions.
_FUNCTIONS = {
    "lag": "for the event before write prev(a.v), for the element before, in a loop, a[i-1].v",
    "lead": "for the element after, in a condition on each element of a loop, write a[i+1].v",
    "next": "for the element after, in a condition on each element of a loop, write a[i+1].v",
    "first": "write a[1].v for the second element of a loop",
    "last": "write a[last-1].v for the element before the last, or a[i-1].v for the one before each element",
    "classifier": "each variable has its own column, so leave it out",
    "match_number": "matches are numbered by their rows, so leave it out",
    "if": "write CASE WHEN a.v > 1 THEN 2 ELSE 3 END",
    "ifthenelse": "write CASE WHEN a.v > 1 THEN 2 ELSE 3 END",
    "nvl": "write coalesce(a.v, 0)",
    "ifnull": "write coalesce(a.v, 0)",
    "skip_till_next": "write STRATEGY skip_till_next after the window",
    "skip_till_any": "write STRATEGY skip_till_any after the window",
    "strict_contiguity": "write STRATEGY strict_contiguity after the window",
    "partition_contiguity": "write PARTITION BY v STRATEGY partition_contiguity after the window",
}
_UNIT = "ns|us|ms|min|s|h|d|m"
_PART = rf"\d+\s*(?:{_UNIT})"


def foreign_hint(before: str, rest: str) -> str:
    """Return a hint, or an empty text; ``before`` and ``rest`` are the query before and from the unexpected token."""
    duration = _duration_hint(before, rest)
    if duration:
        return duration
    in_pattern = re.search(r"\b(where|within|window)\b", before, re.IGNORECASE) is None
    around = _AROUND if in_pattern else _IN_CLAUSES
    for pattern, hint in (*_AT, *(_IN_PATTERN if in_pattern else ())):
        if re.match(pattern, rest, re.IGNORECASE | re.DOTALL):
            return f"; {hint}"
    for pattern, following, hint in around:
        if re.match(following, rest, re.IGNORECASE) and re.search(pattern, before, re.IGNORECASE):
            return f"; {hint}"
    return ""


def foreign_function(name: str) -> str:
    """Return a hint for a function of another language, in small letters, or an empty text."""
    hint = _FUNCTIONS.get(name, "")
    return f"; {hint}" if hint else ""


def _duration_hint(before: str, rest: str) -> str:
    """Return the hint for ``1h30min`` or ``5 minutes``, of which ``before`` ends in a number or a duration."""
    interval = re.match(r"(?:interval\s+)?'?(\d+)'?\s+([a-z]+)\b", rest, re.IGNORECASE)
    if interval and re.search(r"\b(within|for|every|after)\s*$", before, re.IGNORECASE):
        unit = unit_of(interval[2].lower()) or interval[2].lower()
        return f"; write {interval[1]}{unit}" if unit in NANOSECONDS else ""
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
