"""The clauses of a query, by the names of the matrix's rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reference.matcher import Event, Value

from fastcep.query import ast, traversal
from fastcep.query.patterns import is_nullable, pattern_variables, sub_patterns
from fastcep.query.scalar_functions import TEXT_FUNCTIONS, TIME_FUNCTIONS

#: Alternative clauses: a query has at most one of each group.
ALTERNATIVES = (
    ("WITHIN t", "WITHIN n EVENTS", "WITHIN UNBOUNDED", "OPEN ON", "EVERY t", "EVERY n EVENTS"),
    ("WITHIN t", "WITHIN n EVENTS", "WITHIN UNBOUNDED", "CLOSE AFTER t", "CLOSE AFTER n EVENTS", "CLOSE ON"),
    ("skip_till_any", "skip_till_next", "partition_contiguity", "strict_contiguity"),
    ("SELECT each", "SELECT first", "SELECT last", "SELECT cumulative", "SELECT longest"),
    ("SKIP TO NEXT", "SKIP PAST LAST", "SKIP TO FIRST", "SKIP TO LAST"),
    ("PARTITION BY a", "PARTITION BY a, b"),
)

PATTERNS = (
    "SEQ", "AND", "OR", "ANY", "ANY DISTINCT", "APERIODIC", "PERIODIC", "NEG first", "NEG between", "NEG last",
    "NEG FOR", "T? x", "T+ x[]", "T* x[]", "T{m,n} x[]", "(…)+ g[]", "(…)? g", "(A|B) x", "NEXT", "CONSECUTIVE",
    "UNTIL",
)  # fmt: skip
CONDITIONS = (
    "x.a = y.b", "x.a < y.b", "x.a + y.b = z.c", "x.a < 1", "x[i].a", "x[i+1].a", "x[first].a", "x[last-1].a",
    "prev(x.a)", "AVG(x[].a)", "AVG(x[..i].a)", "OR, NOT", "IN, BETWEEN", "text, bool", "IS NULL, CASE",
    "LIKE, lower(x.a)", "hour(x.time)", "[a]", "WHERE on NEG",
)  # fmt: skip
WINDOWS = (
    "WITHIN t", "WITHIN n EVENTS", "WITHIN UNBOUNDED", "OPEN ON", "EVERY t", "EVERY n EVENTS", "CLOSE AFTER t",
    "CLOSE AFTER n EVENTS", "CLOSE ON",
)  # fmt: skip
POLICIES = (
    "PARTITION BY a", "PARTITION BY a, b", "null in PARTITION BY", "skip_till_any", "skip_till_next",
    "partition_contiguity", "strict_contiguity", "SELECT each", "SELECT first", "SELECT last", "SELECT cumulative",
    "SELECT longest", "CONSUME consumed", "LIMIT k", "SKIP TO NEXT", "SKIP PAST LAST", "SKIP TO FIRST", "SKIP TO LAST",
    "WEIGHT w", "RETURN", "another query",
    "SEQUENCE column", "type codes",
)  # fmt: skip
CLAUSES = (*PATTERNS, *CONDITIONS, *WINDOWS, *POLICIES)


def clauses_of(query: ast.Query, events: Sequence[Event] = (), several: bool = False) -> frozenset[str]:
    """Return the names of the clauses of a query, and of properties of its stream and of queries beside it."""
    found = {*_of_pattern(query.pattern), *_of_conditions(query), *_of_window(query.window), *_of_policies(query)}
    if query.partition:
        found.add("PARTITION BY a" if len(query.partition) == 1 else "PARTITION BY a, b")
        if any(_is_null(event.values.get(name)) for event in events for name in query.partition):
            found.add("null in PARTITION BY")
    if several:
        found.add("another query")
    if query.schema.sequence is not None:
        found.add("SEQUENCE column")
    if query.schema.codes is not None:
        found.add("type codes")
    unknown = found - set(CLAUSES)
    assert not unknown, unknown
    return frozenset(found)


def _is_null(value: Value) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


# --------------------------------------------------------------------- pattern


def _of_pattern(pattern: ast.Pattern) -> Iterator[str]:
    match pattern:
        case ast.Sequence():
            yield "SEQ"
            yield from (_place(pattern, place) for place, part in enumerate(pattern.patterns) if _has_no_time(part))
            if pattern.adjacent:
                yield "NEXT"
        case ast.Conjunction():
            yield "AND"
        case ast.Disjunction():
            yield "OR"
        case ast.AnyOf():
            yield "ANY" if pattern.distinct is None else "ANY DISTINCT"
            return  # its variables are plain
        case ast.Aperiodic():
            yield "APERIODIC"
        case ast.Periodic():
            yield "PERIODIC"
        case ast.Until():
            yield "UNTIL"
        case ast.Group():
            yield "(…)+ g[]" if pattern.repeated else "(…)? g"
        case ast.Variable():
            yield from _of_variable(pattern)
        case ast.Negation(nanoseconds=int()):
            yield "NEG FOR"
    if getattr(pattern, "consecutive", False):
        yield "CONSECUTIVE"
    for part in sub_patterns(pattern):
        yield from _of_pattern(part)


def _of_variable(variable: ast.Variable) -> Iterator[str]:
    if len(variable.types) > 1:
        yield "(A|B) x"
    match variable.minimum, variable.maximum, variable.repeated:
        case 1, 1, False:
            pass
        case 0, 1, False:
            yield "T? x"
        case 1, None, True:
            yield "T+ x[]"
        case 0, None, True:
            yield "T* x[]"
        case _:
            yield "T{m,n} x[]"


def _is_negation(part: ast.Pattern) -> bool:
    return isinstance(part, ast.Negation)


def _has_no_time(part: ast.Pattern) -> bool:
    return isinstance(part, ast.Negation) and part.nanoseconds is None


def _place(sequence: ast.Sequence, place: int) -> str:
    if all(map(_may_be_empty, sequence.patterns[:place])):
        return "NEG first"
    return "NEG last" if all(map(_may_be_empty, sequence.patterns[place + 1 :])) else "NEG between"


def _may_be_empty(part: ast.Pattern) -> bool:
    return _is_negation(part) or is_nullable(part)


# ------------------------------------------------------------------ conditions


def _of_conditions(query: ast.Query) -> Iterator[str]:
    negated = {variable.name for variable in pattern_variables(query.pattern) if variable.negated}
    for conjunct in traversal.conjuncts(query.where):
        yield from _of_conjunct(conjunct, negated)


def _of_conjunct(conjunct: ast.Expr, negated: set[str]) -> Iterator[str]:
    if isinstance(conjunct, ast.SameAttributes):
        yield "[a]"
        return
    mentioned = traversal.variables(conjunct)
    if mentioned & negated:
        yield "WHERE on NEG"
    if len(mentioned) == 1:
        yield "x.a < 1"
    elif isinstance(conjunct, ast.Binary) and conjunct.operator == "=":
        yield "x.a = y.b" if _is_plain(conjunct.left) and _is_plain(conjunct.right) else "x.a + y.b = z.c"
    else:
        yield "x.a < y.b"
    for part in traversal.walk(conjunct):
        if isinstance(part, ast.Attribute) and part.places:
            yield "prev(x.a)"
        yield from _of_part(part)


def _is_plain(side: ast.Expr) -> bool:
    return isinstance(side, ast.Attribute) and not side.places


def _of_part(part: ast.Expr) -> Iterator[str]:
    match part:
        case ast.Attribute(index=ast.Index(kind="relative", offset=offset)):
            yield "x[i+1].a" if offset else "x[i].a"
        case ast.Attribute(index=ast.Index(kind="last", offset=offset)) if offset:
            yield "x[last-1].a"
        case ast.Attribute(index=ast.Index()):
            yield "x[first].a"
        case ast.Aggregate():
            yield "AVG(x[].a)" if part.index is None else "AVG(x[..i].a)"
        case ast.Binary(operator="OR") | ast.Unary(operator="NOT"):
            yield "OR, NOT"
        case ast.Membership() | ast.Between():
            yield "IN, BETWEEN"
        case ast.Call("is null" | "coalesce" | "case"):
            yield "IS NULL, CASE"
        case ast.Call(function) if function == "like" or function in TEXT_FUNCTIONS:
            yield "LIKE, lower(x.a)"
        case ast.Call(function) if function in TIME_FUNCTIONS:
            yield "hour(x.time)"
        case ast.TimestampLiteral():
            yield "hour(x.time)"
        case ast.Literal(value=str() | bool()):
            yield "text, bool"


# ----------------------------------------------------------- window and policies


def _of_window(window: ast.Window) -> Iterator[str]:
    match window:
        case ast.TimeWindow():
            yield "WITHIN t"
        case ast.CountWindow():
            yield "WITHIN n EVENTS"
        case ast.Unbounded():
            yield "WITHIN UNBOUNDED"
        case ast.ExplicitWindow(opening, closing):
            yield "EVERY n EVENTS" if opening.events else "EVERY t" if opening.nanoseconds else "OPEN ON"
            yield "CLOSE AFTER n EVENTS" if closing.events else "CLOSE AFTER t" if closing.nanoseconds else "CLOSE ON"


def _of_policies(query: ast.Query) -> Iterator[str]:
    yield query.strategy
    yield f"SELECT {query.select}"
    if query.consume != "zero":
        yield f"CONSUME {query.consume}"
    if query.limit is not None:
        yield "LIMIT k"
    if query.after_match != "no skip":
        yield query.after_match.upper()
    if query.weight != 1:
        yield "WEIGHT w"
    if query.returns:
        yield "RETURN"
