"""Checks of patterns: nesting of operators, places of NEG, names, types and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fastcep.events.units import INT64_MAX, format_duration
from fastcep.query import ast
from fastcep.query.checks.silence import check_silences
from fastcep.query.checks.until import check_loop
from fastcep.query.patterns import (
    PatternVariable,
    count_states,
    groups_of,
    is_nullable,
    pattern_variables,
    sub_patterns,
)
from fastcep.query.printer import bounds_text, pattern_text
from fastcep.query.source import Problem, Spans, suggest
from fastcep.query.types import BUILTINS, attribute_dtypes

if TYPE_CHECKING:
    from fastcep.events import Schema

__all__ = ["MAX_VARIABLES", "OUTPUT_COLUMNS", "check_name", "check_pattern", "check_types"]

MAX_VARIABLES = 64
MAX_STATES = 1024
MAX_TICKS = 1_000_000
OUTPUT_COLUMNS = ("query", "window_id", "detected_at")

_KEYWORDS = {
    ast.Sequence: "SEQ", ast.Conjunction: "AND", ast.Disjunction: "OR", ast.AnyOf: "ANY",
    ast.Aperiodic: "APERIODIC", ast.Periodic: "PERIODIC", ast.Group: "a group", ast.Until: "a loop",
}  # fmt: skip


def check_pattern(query: ast.Query, spans: Spans) -> None:
    """Check a query's pattern; raise `Problem` for the first rule that it breaks.

    Parameters
    ----------
    query
        A query as parsed or built.
    spans
        Positions of the parts of its pattern in the text, if it was parsed.
    """
    _check_nesting(query.pattern, query, spans)
    variables = pattern_variables(query.pattern)
    if len(variables) > MAX_VARIABLES:
        raise Problem(
            f"the pattern has {len(variables)} variables; at most {MAX_VARIABLES} are possible",
            variables[MAX_VARIABLES].declaration,
        )
    states = count_states(query.pattern)
    if states > MAX_STATES:
        raise Problem(
            f"the pattern has {states:,} states, because the parts of AND and ANY can come in every "
            f"order; at most {MAX_STATES:,} are possible; use fewer parts, or SEQ where the order is known",
            query.pattern,
        )
    check_silences(query, spans)
    _check_names(query, variables, spans)
    for pattern in _walk(query.pattern):
        if isinstance(pattern, ast.AnyOf) and pattern.distinct is not None:
            _check_distinct(pattern, pattern.distinct, query.schema, spans)


def _walk(pattern: ast.Pattern) -> list[ast.Pattern]:
    return [pattern, *(below for part in sub_patterns(pattern) for below in _walk(part))]


# ------------------------------------------------------------------------------ nesting


def _check_nesting(
    pattern: ast.Pattern,
    query: ast.Query,
    spans: Spans,
    parent: ast.Pattern | None = None,
    group: ast.Group | None = None,
) -> None:
    """Check a part of the pattern, which is a direct part of ``parent`` and, at any depth, inside ``group``."""
    if group is not None:
        _check_in_group(pattern, group)
    match pattern:
        case ast.Variable() | ast.Group():
            _check_bounds(pattern, spans)
        case ast.Negation(nanoseconds=int()) if isinstance(parent, ast.Sequence | ast.Conjunction | ast.Disjunction):
            if group is not None:
                raise Problem(
                    f"{pattern_text(pattern)} is not possible in the repeating group {group.name}; write it after the "
                    "group, or NEG without FOR",
                    pattern,
                )
        case ast.Negation() if not isinstance(parent, ast.Sequence | ast.Until):
            raise Problem(
                f"NEG is allowed only in a SEQ, not as a part of {_keyword(parent)}; "
                f"write SEQ(P p, {pattern_text(pattern)}, Q q) there",
                pattern,
            )
        case ast.Sequence():
            _check_sequence(pattern, query, spans, parent)
        case ast.Conjunction() | ast.Disjunction() if not pattern.patterns:
            keyword = _keyword(pattern)
            raise Problem(f"{keyword}() has no part; expected at least one, such as {keyword}(A a, B b)", pattern)
        case ast.AnyOf():
            _check_any(pattern, spans)
        case ast.Until():
            check_loop(pattern, spans)
        case ast.Aperiodic():
            _check_closing(pattern, pattern.closing)
        case ast.Periodic():
            _check_closing(pattern, pattern.closing)
            _check_periodic(pattern, query, spans, parent)
    inside = pattern if isinstance(pattern, ast.Group) else group
    for part in sub_patterns(pattern):
        _check_nesting(part, query, spans, pattern, inside)
    # Checked last, because an error inside a part is more specific than "may be empty".
    match pattern:
        case ast.Group():
            _need_events(pattern.pattern, f"a round of group {pattern.name}")
        case ast.Aperiodic():
            _need_events(pattern.opening, "the first part of APERIODIC")
            _need_events(pattern.body, "the second part of APERIODIC")
        case ast.Periodic():
            _need_events(pattern.opening, "the first part of PERIODIC")


def _keyword(pattern: ast.Pattern | None) -> str:
    return "the whole pattern" if pattern is None else _KEYWORDS[type(pattern)]


def _check_in_group(pattern: ast.Pattern, group: ast.Group) -> None:
    g = group.name
    match pattern:
        case ast.Group():
            raise Problem(
                f"group {pattern.name} is inside group {g}, but groups cannot be nested; "
                f"write the variables of {pattern.name} in {g}, or repeat single variables beside it",
                pattern,
            )
        case ast.Variable() if pattern.repeated:
            raise Problem(
                f"{pattern.name} holds several events, which is not possible inside the repeating group {g}; "
                f"write {pattern_text(ast.Variable(pattern.types, pattern.name))} there",
                pattern,
            )
        case ast.AnyOf() if any(variable.repeated for variable in pattern.variables):
            raise Problem(
                f"ANY of one variable holds several events, which is not possible in group {g}; "
                "list single variables, as in ANY(2, A a, B b, C c)",
                pattern,
            )


def _need_events(part: ast.Pattern, name: str) -> None:
    if is_nullable(part):
        raise Problem(
            f"{name} may be empty, but must bind at least one event; "
            "remove ? or * from one of its parts, or raise its lower bound to 1",
            part,
        )


def _check_sequence(pattern: ast.Sequence, query: ast.Query, spans: Spans, parent: ast.Pattern | None) -> None:
    parts = pattern.patterns
    if not parts:
        raise Problem("SEQ() has no part; expected at least one, such as SEQ(A a, B b)", pattern)
    if all(isinstance(part, ast.Negation) for part in parts):
        raise Problem("a SEQ of only NEG matches no event; add a variable that must occur, as in SEQ(A a, …)", pattern)
    for number, part in enumerate(parts):
        if not isinstance(part, ast.Negation):
            continue
        sides = () if part.nanoseconds is not None else (("before", parts[:number]), ("after", parts[number + 1 :]))
        for side, neighbours in sides:
            if all(map(is_nullable, neighbours)):
                _check_edge(part, side, neighbours, query, parent)
        if number in pattern.adjacent:
            raise Problem(
                f"NEXT is not allowed before {pattern_text(part)}, which binds no event; write it before the part "
                "that must come next, as in SEQ(A a, NEXT B b)",
                spans.of(pattern, "next", number),
            )


def _check_edge(
    part: ast.Negation, side: str, neighbours: tuple[ast.Pattern, ...], query: ast.Query, parent: ast.Pattern | None
) -> None:
    has_others = any(not isinstance(neighbour, ast.Negation) for neighbour in neighbours)
    fault = f"all parts {side} {pattern_text(part)} may be empty" if has_others else (
        f"no event is bound {side} {pattern_text(part)}"
    )  # fmt: skip
    if parent is not None:
        raise Problem(
            f"{fault} in its SEQ, which is not the whole pattern, so it is undefined where it {_ENDS[side]}; "
            f"add a variable {side} it that must occur, or move it to the outermost SEQ",
            part,
        )
    if not isinstance(query.window, ast.TimeWindow | ast.ExplicitWindow):
        raise Problem(
            f"{fault}, so it {_ENDS[side]} with the window, which must be a time or explicit; write WITHIN 5min or "
            f"WINDOW OPEN … CLOSE …, or add a variable {side} it that must occur",
            part,
        )


_ENDS = {"before": "begins", "after": "ends"}


def _check_any(pattern: ast.AnyOf, spans: Spans) -> None:
    variables, count = pattern.variables, pattern.count
    place = spans.of(pattern, "count")
    if not variables:
        raise Problem("ANY has no variable; expected at least one, such as ANY(2, A a, B b, C c)", pattern)
    if not 1 <= count <= INT64_MAX:
        raise Problem(f"ANY({count}, …) binds no event; write at least 1", place)
    several = [variable for variable in variables if variable.repeated]
    if several and len(variables) > 1:
        x = several[0].name
        raise Problem(
            f"{x}[] must be the only variable of ANY; write ANY(n, T {x}[]), or {x} without []",
            several[0],
        )
    for variable in variables:
        expected = (count, count) if variable.repeated else (1, 1)
        if (variable.minimum, variable.maximum) != expected:
            raise Problem(
                "ANY takes variables without ?, + or other bounds, because its number sets how many; write "
                f"{pattern_text(ast.Variable(variable.types, variable.name))}, or several events of one variable "
                f"as ANY(n, T {variable.name}[])",
                variable,
            )
        if variable.consecutive:
            raise Problem(
                f"ANY has no CONSECUTIVE; write SEQ({pattern_text(variable)}) for consecutive events", variable
            )
    if not several:
        if count > len(variables):
            raise Problem(
                f"ANY({count}, …) lists {len(variables)} variable{'s'[: len(variables) > 1]}, so it cannot bind "
                f"{count}; write at most {len(variables)}, or list more variables",
                place,
            )
        if pattern.distinct is not None:
            raise Problem(
                "DISTINCT needs one variable of several events, as in ANY(3, T x[] DISTINCT a); "
                "for single variables write conditions such as a.v != b.v",
                spans.of(pattern, "distinct"),
            )


def _check_closing(pattern: ast.Aperiodic | ast.Periodic, closing: ast.Pattern) -> None:
    single = isinstance(closing, ast.Variable) and (closing.minimum, closing.maximum, closing.repeated) == (1, 1, False)
    if not single:
        raise Problem(
            f"the last part of {_keyword(pattern)} must be a single event, written T x, not "
            f"{pattern_text(closing)}; for several types write (A|B) x",
            closing,
        )


def _check_periodic(pattern: ast.Periodic, query: ast.Query, spans: Spans, parent: ast.Pattern | None) -> None:
    if parent is not None:
        raise Problem(
            f"PERIODIC reports ticks, not events, so it can only be the whole pattern, not a part of "
            f"{_keyword(parent)}; write PATTERN PERIODIC(…)",
            pattern,
        )
    place = spans.of(pattern, "every")
    if not 1 <= pattern.nanoseconds <= INT64_MAX:
        raise Problem(
            f"PERIODIC every {format_duration(pattern.nanoseconds)} has no next tick; expected at least 1ns", place
        )
    if not isinstance(query.window, ast.TimeWindow):
        instead = " instead of WINDOW" if isinstance(query.window, ast.ExplicitWindow) else ""
        raise Problem(f"PERIODIC needs a time window, in which it ticks; write WITHIN 1h{instead}", pattern)
    ticks = query.window.nanoseconds // pattern.nanoseconds
    if ticks > MAX_TICKS:
        raise Problem(
            f"PERIODIC every {format_duration(pattern.nanoseconds)} ticks {ticks} times in "
            f"{format_duration(query.window.nanoseconds)}; at most {MAX_TICKS} are possible; use a longer period or "
            "a shorter WITHIN",
            place,
        )


# ------------------------------------------------------------------- names, types, bounds


def _check_names(query: ast.Query, variables: tuple[PatternVariable, ...], spans: Spans) -> None:
    seen: set[str] = set()
    columns = {variable.name: variable for variable in variables if variable.group is not None}
    for variable in variables:
        declaration = variable.declaration
        check_types(declaration, query.schema, spans)
        place = spans.of(declaration, "variable")
        _check_variable(declaration.name, seen, place)
        if not variable.negated and variable.name in OUTPUT_COLUMNS:
            raise Problem(f"variable '{variable.name}' has the name of an output column; choose another name", place)
        other = columns.get(variable.name)
        if other is not None and variable.group is None:
            raise Problem(
                f"variable '{variable.name}' has the output name of {other.declaration.name} in group {other.key[0]}; "
                "choose another name",
                place,
            )
        seen.add(declaration.name)
    for group in groups_of(query.pattern):
        _check_variable(group.name, seen, spans.of(group, "variable"))
        seen.add(group.name)


def check_types(part: ast.Variable | ast.Bound, schema: Schema, spans: Spans) -> None:
    """Check the event types of a variable."""
    for position, name in enumerate(part.types):
        place = spans.of(part, "type", position)
        if name not in schema.type_names:
            if isinstance(part, ast.Variable) and part.name in schema.type_names and len(part.types) == 1:
                raise Problem(f"unknown event type '{name}'; the type comes first: write {part.name} {name}", place)
            raise Problem(f"unknown event type '{name}'{suggest(name, schema.type_names, 'declared types:')}", place)
        if name in part.types[:position]:
            raise Problem(f"the union names '{name}' twice; keep one", place)


def check_name(name: str, place: ast.Span | None) -> None:
    """Check the name of a variable."""
    if name == "i":
        raise Problem("a variable cannot be called 'i', which is the index in x[i]; choose another name", place)
    if not name:
        raise Problem("a variable's name cannot be empty", place)


def _check_variable(name: str, seen: set[str], place: ast.Span | None) -> None:
    check_name(name, place)
    if name in seen:
        raise Problem(f"variable '{name}' is used twice in the pattern; give each variable its own name", place)


def _check_bounds(part: ast.Variable | ast.Group, spans: Spans) -> None:
    low, high = part.minimum, part.maximum
    if high is not None and (high < 1 or low > high or high > INT64_MAX):
        raise Problem(f"{bounds_text(low, high)} is not a valid quantifier; expected 0 <= m <= n and n >= 1", part)
    if not 0 <= low <= INT64_MAX or (not part.repeated and (high != 1 or low > 1)):
        raise Problem(f"{bounds_text(low, high)} does not fit {part.name}", part)
    if part.consecutive and (not part.repeated or high == 1):
        several = replace(part, minimum=1, maximum=None, repeated=True)
        element = "event" if isinstance(part, ast.Variable) else "round"
        raise Problem(
            f"CONSECUTIVE needs several {element}s, but {part.name} holds at most one; "
            f"write {pattern_text(several)}, or NEXT before it to exclude events before it",
            spans.of(part, "consecutive"),
        )


def _check_distinct(pattern: ast.AnyOf, name: str, schema: Schema, spans: Spans) -> None:
    (variable,) = pattern.variables
    names = [*attribute_dtypes(schema, variable.types), *BUILTINS]
    if name not in names:
        owner = " | ".join(variable.types)
        raise Problem(
            f"unknown attribute '{name}' of {owner} after DISTINCT{suggest(name, names, 'it has')}",
            spans.of(pattern, "distinct"),
        )
