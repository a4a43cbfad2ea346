"""Checks of the clauses from STRATEGY to WEIGHT, and of their combinations."""

from __future__ import annotations

import difflib
import math

from fastcep.events.units import INT64_MAX
from fastcep.query import ast, traversal
from fastcep.query.checks.skip import check_skip_to
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
# Names that other languages use for the choices.
_SYNONYMS = {
    "strategy": {
        "any": "skip_till_any", "skip_till_any_match": "skip_till_any", "followed_by_any": "skip_till_any",
        "skip_till_next_match": "skip_till_next", "relaxed": "skip_till_next", "followed_by": "skip_till_next",
        "strict": "strict_contiguity", "contiguity": "strict_contiguity", "contiguous": "strict_contiguity",
        "partition": "partition_contiguity",
    },
    "select": {
        "all": "each", "earliest": "first", "chronicle": "first", "latest": "last", "recent": "last",
        "greedy": "longest", "maximal": "longest",
    },
    "consume": {"none": "zero", "reuse": "zero", "all": "consumed", "selected": "consumed", "once": "consumed"},
    "after_match": {"next": "skip to next", "past last": "skip past last", "none": "no skip"},
}  # fmt: skip
_DOES = {
    "select": "chooses among the matches that end in one event",
    "consume": "consumes the events of a match when it ends",
    "after_match": "drops partial matches that overlap a match when it ends",
}


def check_policies(query: ast.Query, spans: Spans) -> None:
    """Check a query's strategy, selection, consumption, limit, skip and weight; raise `Problem` at the first fault."""
    for name, (clause, choices) in _CHOICES.items():
        chosen = getattr(query, name)
        if chosen not in choices:
            raise Problem(f"unknown {clause} '{chosen}'{_expected(name, str(chosen))}", spans.clauses.get(name))
    _check_partition(query, spans)
    _check_deferred(query, spans)
    _check_longest(query, spans)
    check_skip_to(query, spans)
    if query.select == "cumulative" and query.returns:
        raise Problem(
            "RETURN describes a single match, but SELECT cumulative combines all matches that end in an event; "
            "remove RETURN, or write SELECT each",
            spans.clauses.get("returns"),
        )
    _check_limit(query, spans)
    if not (math.isfinite(query.weight) and query.weight > 0):
        raise Problem(f"WEIGHT {query.weight:g} is invalid; expected a number above 0", spans.clauses.get("weight"))


def _expected(name: str, chosen: str) -> str:
    choices = _CHOICES[name][1]
    word = chosen.lower()
    close = _SYNONYMS[name].get(word) or next(iter(difflib.get_close_matches(word, choices, 1)), "")
    return f"; expected {', '.join(choices[:-1])} or {choices[-1]}" + (f"; did you mean '{close}'?" if close else "")


def _check_partition(query: ast.Query, spans: Spans) -> None:
    if query.strategy != "partition_contiguity" or query.partition:
        return
    same_attributes = [part for part in traversal.conjuncts(query.where) if isinstance(part, ast.SameAttributes)]
    remedy = "add PARTITION BY"
    if same_attributes:
        names = ", ".join(map(name_text, same_attributes[0].names))
        remedy = f"write PARTITION BY {names} instead of {expression_text(same_attributes[0])}"
    raise Problem(
        "partition_contiguity needs PARTITION BY, because it requires adjacent events of a partition; "
        f"{remedy}, or write strict_contiguity for adjacent events of the stream",
        spans.clauses.get("strategy"),
    )


def _check_deferred(query: ast.Query, spans: Spans) -> None:
    negation = trailing_negation(query.pattern)
    if negation is not None:
        when = "the window ends" if negation.nanoseconds is None else "that time has passed"
        why = f"with {pattern_text(negation)} at its end a match is decided only when {when}"
        remedy = "remove the clause, or add a variable after the NEG that must occur"
    elif isinstance(query.pattern, ast.Periodic):
        why = "PERIODIC reports ticks, each of which is decided only after its time has passed"
        remedy = "remove the clause"
    else:
        return
    for name, effect in _DOES.items():
        clause, (default, *_) = _CHOICES[name]
        chosen = getattr(query, name)
        if chosen != default:
            choice = chosen.upper() if name == "after_match" else chosen
            raise Problem(f"{clause} {choice} {effect}, but {why}; {remedy}", spans.clauses.get(name))


def _check_longest(query: ast.Query, spans: Spans) -> None:
    if query.select != "longest":
        return
    if query.strategy == "skip_till_any":
        raise Problem(
            "SELECT longest needs STRATEGY skip_till_next, partition_contiguity or strict_contiguity, which define "
            "when a match cannot become longer; add one of them before SELECT",
            spans.clauses.get("select"),
        )
    if query.consume != "zero":
        raise Problem(
            f"CONSUME {query.consume} consumes the events of a match when it ends, but SELECT longest reports a match "
            "later, when other partial matches may have used them; write AFTER MATCH SKIP PAST LAST instead",
            spans.clauses.get("consume"),
        )


def _check_limit(query: ast.Query, spans: Spans) -> None:
    limit, place = query.limit, spans.clauses.get("limit")
    if limit is None:
        return
    if not 1 <= limit <= INT64_MAX:
        raise Problem(f"LIMIT {limit} PER WINDOW reports nothing; expected a number from 1 to {INT64_MAX}", place)
    if not isinstance(query.window, ast.ExplicitWindow):
        raise Problem(
            "LIMIT needs explicit windows, because it counts the matches of each window; write "
            "WINDOW OPEN … CLOSE … instead of WITHIN, or remove LIMIT",
            place,
        )
