"""Short notation of matches, for cases worked by hand.

A result is ``a1 b3``: variable and sequence number; ``b3,4`` for a repeated variable, ``b-`` for one that is not bound,
``b[]`` for an empty Kleene variable; ``g.a0,3 g.b-,4`` for two rounds of a group, of which the first binds no b. With
an explicit window its id comes first, as in ``w0 a0 b2``.
"""

from __future__ import annotations

from reference import matcher as naive

from fastcep.events import Schema
from fastcep.query import ast, parse
from fastcep.query.patterns import positive_variables
from support import harness

VALUES = {"k": "int64", "v": "int64", "f": "float64", "s": "string", "b": "bool"}
SCHEMA = Schema({"A": VALUES, "B": VALUES, "C": VALUES, "D": {"k": "int64"}}, time="ts", type="type")


def show(query: ast.Query, bindings: dict[str, naive.Binding]) -> str:
    """Return one match as short text."""
    words = []
    for variable in positive_variables(query.pattern):
        bound = bindings[variable.name]
        numbers = bound if isinstance(bound, list) else [bound]
        shown = ",".join("-" if number is None else str(number) for number in numbers)
        words.append(variable.name + (shown or "[]"))
    return " ".join(words)


def shown(query: ast.Query, match: naive.Match) -> str:
    """Return a match of the reference matcher as short text, with its window."""
    return ("" if match.window_id is None else f"w{match.window_id} ") + show(query, match.bindings)


def found(text: str, events: str, schema: Schema = SCHEMA) -> list[str]:
    """Return the matches of the reference matcher in order."""
    query = parse(f"PATTERN {text}", schema)
    return [shown(query, match) for match in naive.find_matches(query, harness.stream(schema, events))]


def found_at(text: str, events: str, schema: Schema = SCHEMA) -> list[str]:
    """Return the same with the time of detection, after ``@`` if the last event has it, otherwise after ``@@``."""
    query = parse(f"PATTERN {text}", schema)
    matches = naive.find_matches(query, harness.stream(schema, events))
    return [f"{shown(query, m)} {'@@' if m.deferred else '@'}{m.detected_at}" for m in matches]
