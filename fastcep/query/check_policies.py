"""What the clauses from STRATEGY to WEIGHT may say, and beside what."""

from __future__ import annotations

import difflib
import math

from fastcep.events.units import INT64_MAX
from fastcep.query import ast
from fastcep.query.patterns import trailing_negation
from fastcep.query.printer import expression_text, name_text, pattern_text
from fastcep.query.source import Problem, Spans

__all__ = ["check_policies"]

_CHOICES = {
    "strategy": ("STRATEGY", ast.STRATEGIES),
    "select": ("SELECT", ast.SELECTIONS),
    "consume": ("CONSUME", ast.CONSUMPTIONS),
    "after_match": ("AFTER MATCH", ast.AFTER_MATCH),
}
# What other languages call them.
_SYNONYMS = {
    "strategy": {
        "any": "skip_till_any", "skip_till_any_match": "skip_till_any", "followed_by_any": "skip_till_any",
        "skip_till_next_match": "skip_till_next", "relaxed": "skip_till_next", "followed_by": "skip_till_next",
        "strict": "strict_contiguity", "contiguity": "strict_contiguity", "contiguous": "strict_contiguity",
        "partition": "partition_contiguity",
    },
    "select": {"all": "each", "earliest": "first", "chronicle": "first", "latest": "last", "recent": "last"},
    "consume": {"none": "zero", "reuse": "zero", "all": "consumed", "selected": "consumed", "once": "consumed"},
    "after_match": {"next": "skip to next", "past last": "skip past last", "none": "no skip"},
}  # fmt: skip
_DOES = {
    "select": "chooses among the matches that end in one event",
    "consume": "takes away the events of a match when it ends",
    "after_match": "drops what overlaps a match when that ends",
}


def check_policies(query: ast.Query, spans: Spans) -> None:
    """Check a query's strategy, selection, consumption, limit, skip and weight; `Problem` is the first broken rule."""
    for name, (clause, known) in _CHOICES.items():
        chosen = getattr(query, name)
        if chosen not in known:
            raise Problem(f"unknown {clause} '{chosen}'{_meant(name, str(chosen))}", spans.clauses.get(name))
    _check_partition(query, spans)
    _check_deferred(query, spans)
    if query.select == "cumulative" and query.returns:
        raise Problem(
            "RETURN speaks of one match, and SELECT cumulative makes one result of all matches that end in an event; "
            "leave RETURN out, or write SELECT each",
            spans.clauses.get("returns"),
        )
    _check_limit(query, spans)
    if not (math.isfinite(query.weight) and query.weight > 0):
        raise Problem(f"WEIGHT {query.weight:g} is none; expected a number above 0", spans.clauses.get("weight"))


def _meant(name: str, chosen: str) -> str:
    known = _CHOICES[name][1]
    word = chosen.lower()
    close = _SYNONYMS[name].get(word) or next(iter(difflib.get_close_matches(word, known, 1)), "")
    return f"; expected {', '.join(known[:-1])} or {known[-1]}" + (f"; did you mean '{close}'?" if close else "")


def _check_partition(query: ast.Query, spans: Spans) -> None:
    if query.strategy != "partition_contiguity" or query.partition:
        return
    same = [part for part in ast.conjuncts(query.where) if isinstance(part, ast.SameAttributes)]
    mend = f"write PARTITION BY {', '.join(map(name_text, same[0].names))} instead of {expression_text(same[0])}" if (
        same
    ) else "add PARTITION BY"  # fmt: skip
    raise Problem(
        "partition_contiguity speaks of neighbours in a partition, and the query has no PARTITION BY; "
        f"{mend}, or write strict_contiguity for neighbours in the stream",
        spans.clauses.get("strategy"),
    )


def _check_deferred(query: ast.Query, spans: Spans) -> None:
    negation = trailing_negation(query.pattern)
    if negation is not None:
        why = f"with {pattern_text(negation)} at its end a match is decided only when the window has ended"
        mend = "leave the clause out, or add a member behind the NEG that must come"
    elif isinstance(query.pattern, ast.Periodic):
        why = "PERIODIC is reported at ticks, which are decided only when time has passed them"
        mend = "leave the clause out"
    else:
        return
    for name, does in _DOES.items():
        clause, (default, *_) = _CHOICES[name]
        chosen = getattr(query, name)
        if chosen != default:
            shown = chosen.upper() if name == "after_match" else chosen
            raise Problem(f"{clause} {shown} {does}, but {why}; {mend}", spans.clauses.get(name))


def _check_limit(query: ast.Query, spans: Spans) -> None:
    limit, place = query.limit, spans.clauses.get("limit")
    if limit is None:
        return
    if not 1 <= limit <= INT64_MAX:
        raise Problem(f"LIMIT {limit} PER WINDOW reports nothing; expected a number from 1 to {INT64_MAX}", place)
    if not isinstance(query.window, ast.ExplicitWindow):
        raise Problem(
            "LIMIT counts the matches of a window that events open, and WITHIN makes none; write "
            "WINDOW OPEN … CLOSE … instead of WITHIN, or leave LIMIT out",
            place,
        )
