"""Whole queries: every clause drawn independently of all others, then adapted until fastcep accepts the query."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from strategies.clauses import adjoined, explicit_windows
from strategies.loops import ended, ending_conditions, is_ending
from strategies.patterns import Draw, most_events, negated_patterns, nested_patterns, patterns
from strategies.queries import Expressions, returned, time_windows, windows
from strategies.running import so_far

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.plan import make_plan
from fastcep.query import ast, parse, to_text
from fastcep.query.checks.query import check
from fastcep.query.patterns import PatternVariable, groups_of, pattern_variables, positive_variables
from fastcep.query.source import Problem
from matrix.refusals import OF_QUERIES, Refusal, refusal_of

#: A window that allows any pattern; the query's own window is drawn independently of the pattern.
_ANY = ast.TimeWindow(5)

_DEFAULTS: dict[str, Any] = {"select": "each", "consume": "zero", "after_match": "no skip", "limit": None,
                             "returns": (), "where": None}  # fmt: skip


#: Adds conditions to a query.
Add = Callable[[Draw, ast.Query], ast.Query]


@dataclass(frozen=True)
class Drawn:
    """A query as parsed from its text, and the rejections during the draw."""

    query: ast.Query
    refused: tuple[tuple[ast.Query, Refusal], ...]


@st.composite
def whole_queries(
    draw: Draw, schema: Schema, name: str = "q", themes: Sequence[str] = (), add: Add | None = None
) -> Drawn:
    """Draw a query of any clauses, with one of these `THEMES` (default: any), to which ``add`` adds conditions."""
    query = draw(unchecked(schema, name, draw(st.sampled_from(themes or THEMES))))
    return settled(draw, query if add is None else add(draw, query))


def with_keys(draw: Draw, query: ast.Query) -> ast.Query:
    """Add conditions that variables agree in an attribute: all of them, or each with the next.

    Most often its state can then be divided by a key, or nearly.
    """
    assert query.schema is not None
    make = Expressions(draw, query.schema, pattern_variables(query.pattern))
    key = make.pick(*make.shared())
    other = make.pick(*make.shared())
    partition = tuple(dict.fromkeys(make.pick((), (), (), (key,), (other, key), (other, key))))
    if draw(st.sampled_from([True, True, False])):
        agree: list[ast.Expr] = [ast.SameAttributes((key,))]
    else:
        pairs = zip(make.positive, make.positive[1:], strict=False)
        agree = [_equal(key, *pair) for pair in pairs if draw(st.sampled_from([True, True, True, False]))]
    return dataclasses.replace(query, where=_all([query.where, *agree]), partition=partition)


def with_joins(draw: Draw, query: ast.Query) -> ast.Query:
    """Add conditions that variables agree with one before them, each in some attribute."""
    assert query.schema is not None
    make = Expressions(draw, query.schema, pattern_variables(query.pattern))
    agree = [
        _equal(make.pick(*make.shared()), make.pick(*make.positive[:number]), one)
        for number, one in enumerate(make.positive)
        if number and draw(st.booleans())
    ]
    return dataclasses.replace(query, where=_all([query.where, *agree]))


def _equal(key: str, one: PatternVariable, other: PatternVariable) -> ast.Expr:
    ends = (
        ast.Attribute(variable.key[0], key, ast.Index("relative", 0) if variable.repeated else None, variable.key[1])
        for variable in (one, other)
    )
    return ast.Binary("=", *ends)


def _all(parts: Sequence[ast.Expr | None]) -> ast.Expr | None:
    given = [part for part in parts if part is not None]
    return functools.reduce(lambda left, right: ast.Binary("AND", left, right), given) if given else None


#: Theme of a query: it determines how often a policy has its default, and which patterns, windows
#: and numbers of conjuncts are likely. Every clause is possible in each theme; most queries of "stores" allow both
#: stores. "keys" and "alternatives", in which several events extend a partial match, leave most conditions to
#: `with_keys` and `with_joins`.
THEMES = ("joins", "stores", "policies", "operators", "stores", "windows")
_USUAL = {"joins": 14, "stores": 20, "policies": 1, "operators": 4, "windows": 3, "keys": 2, "alternatives": 8}
_CONJUNCTS = {
    "joins": (1, 1, 1, 0, 2, 3), "stores": (1, 0, 1, 2), "policies": (0, 0, 1, 2), "operators": (0, 1, 1, 2, 3),
    "windows": (0, 0, 1, 2), "keys": (0, 0, 0, 1), "alternatives": (0, 0, 0, 1),
}  # fmt: skip


@st.composite
def unchecked(draw: Draw, schema: Schema, name: str, theme: str) -> ast.Query:
    """Draw a query of any clauses, whose combination may be invalid."""

    def pick(first: Any, *others: Any) -> Any:
        return draw(st.sampled_from([first] * _USUAL[theme] + [*others]))

    pattern = draw(any_pattern(schema, theme))
    if draw(st.sampled_from([True, *[False] * (_USUAL[theme] // 4 + 1)])):
        pattern = ended(draw, pattern, schema)
    explicit = pick(False, True) if theme != "windows" else draw(st.sampled_from([True, True, True, False]))
    long = st.sampled_from([ast.TimeWindow(20), ast.TimeWindow(8), ast.CountWindow(8), ast.Unbounded()])
    window = draw(explicit_windows(schema) if explicit else st.one_of(windows(), long))
    make = Expressions(draw, schema, pattern_variables(pattern))
    keys = draw(st.lists(st.sampled_from(make.shared()), min_size=1, max_size=2, unique=True))
    partition = tuple(keys) if draw(st.sampled_from([False, theme != "stores", True])) else ()
    plain = Expressions(draw, schema, make.variables, relative=False)
    count = draw(st.sampled_from([0, 0, 0, 1, 2]))
    after_match = pick(*ast.AFTER_MATCH)
    return ast.Query(
        name,
        adjoined(draw, pattern) if draw(st.sampled_from([True, *[False] * (_USUAL[theme] // 4 + 1)])) else pattern,
        window,
        conditions(draw, make, theme, pattern),
        partition,
        tuple(ast.ReturnItem(returned(plain), f"r{number}") for number in range(count)),
        strategy=pick(*ast.STRATEGIES),
        select=pick(*ast.SELECTIONS),
        consume=pick(*ast.CONSUMPTIONS),
        limit=draw(st.sampled_from([None, 1, 2, 3])) if explicit else pick(None, 2),
        after_match=after_match,
        skip_to=draw(skipped_to(pattern)) if after_match in ("skip to first", "skip to last") else None,
        weight=draw(st.sampled_from([1.0, 1.0, 1.0, 2.5])),
        schema=schema,
    )


def skipped_to(pattern: ast.Pattern) -> st.SearchStrategy[str]:
    """Draw the variable or group of SKIP TO FIRST and SKIP TO LAST."""
    names = [variable.name for variable in positive_variables(pattern) if variable.group is None]
    return st.sampled_from([*reversed(names), *(group.name for group in groups_of(pattern))])


@st.composite
def any_pattern(draw: Draw, schema: Schema, theme: str) -> ast.Pattern:
    """Draw joins of several variables, which every store supports; sequences; negation; nested operators."""
    others = (patterns, nested_patterns, negated_patterns, joins)
    if theme == "stores":
        return draw(joins(schema))
    if theme == "alternatives":
        return draw(alternatives(schema))
    kind = draw(st.sampled_from({
        "joins": (joins,) * 6 + others, "operators": (nested_patterns,) * 6 + others, "keys": (joins,) * 8 + others,
    }.get(theme, others)))  # fmt: skip
    return draw(kind(schema) if kind in (joins, patterns) else kind(schema, _ANY))


@st.composite
def joins(draw: Draw, schema: Schema) -> ast.Sequence:
    """Draw two to four variables, the inner ones perhaps with ``+``."""
    count = draw(st.integers(2, 4))
    variables = []
    for place, name in enumerate("abcd"[:count]):
        types = tuple(draw(st.lists(st.sampled_from(schema.type_names), min_size=1, max_size=2, unique=True)))
        repeated = 0 < place < count - 1 and draw(st.booleans())
        consecutive = repeated and draw(st.sampled_from([False] * 7 + [True]))
        most = draw(st.sampled_from([*[None] * 8, 2, 3])) if repeated else 1
        variables.append(ast.Variable(types, name, 1, most, repeated, consecutive=consecutive))
    return ast.Sequence(tuple(variables))


@st.composite
def alternatives(draw: Draw, schema: Schema) -> ast.Sequence:
    """Draw a variable, then one of two or three alternatives, mostly of different types."""
    types = draw(st.permutations([*schema.type_names, *schema.type_names[:1]]))[:4]
    variables = tuple(ast.Variable((kind,), name) for kind, name in zip(types, "abcd", strict=False))
    return ast.Sequence((variables[0], ast.Disjunction(variables[1:])))


def conditions(draw: Draw, make: Expressions, theme: str, pattern: ast.Pattern) -> ast.Expr | None:
    """Draw up to three conjuncts of any kind, and some on each negated variable, or None."""
    parts: list[ast.Expr] = []
    for _ in range(make.pick(*_CONJUNCTS[theme])):
        joins = make.pick(True, True, True, False) if theme in ("joins", "stores") else make.pick(True, False)
        parts.append(joined(make) if joins else make.condition())
    for variable in make.variables:
        if variable.negated and is_ending(pattern, variable):
            parts += ending_conditions(draw, make.schema, pattern, variable)
        elif variable.negated:
            parts += [make.forbidden(variable) for _ in range(make.pick(0, 0, 1, 2))]
    if make.pick(*[False] * 5, True):
        parts.append(ast.SameAttributes((make.pick(*make.shared()),)))
    return _all(parts)


def joined(make: Expressions) -> ast.Expr:
    """Draw a condition that joins variables: events, elements with an event, neighbours, or computed values."""
    kind = make.pick("equal", "equal", "sum", "less", "neighbours", "end", "end", "so far")
    repeated = [variable for variable in make.positive if variable.repeated and variable.group is None]
    if kind == "neighbours" and repeated:
        name = make.pick(*repeated).declaration.name
        ends = (ast.Attribute(name, "k", ast.Index("relative", offset)) for offset in (1, 0))
        return ast.Binary(make.pick("=", ">=", "<"), *ends)
    if kind == "so far" and (running := so_far(make)) is not None:
        return running
    if kind == "end" and repeated:
        end = ast.Attribute(make.pick(*repeated).declaration.name, "k", ast.Index(make.pick("first", "last"), 0))
        keys = [variable.key for variable in make.positive if not variable.repeated]
        single = [ast.Attribute(own, "k", None, inner) for own, inner in keys]
        return ast.Binary(make.pick("=", ">", "<=", "!="), end, make.pick(*single or [ast.Literal(1)]))

    def own(variable: Any) -> ast.Expr:
        each = ast.Index("relative", 0) if variable.repeated else None
        name, inner = variable.key
        return ast.Attribute(name, make.pick("k", *numbers(make, variable)), each, inner)

    variables = make.draw(st.permutations(make.positive))[:3]
    first, second, third = (variables * 3)[:3]
    if kind == "sum" and len(variables) == 3:
        return ast.Binary("=", ast.Binary(make.pick("+", "-"), own(first), own(second)), own(third))
    return ast.Binary("=" if kind != "less" else make.pick("<", "<=", "!="), own(first), own(second))


def numbers(make: Expressions, variable: Any) -> list[str]:
    """Return the attributes of a variable that are integers."""
    return [key for key, dtype in make.dtypes(variable).items() if dtype == "int64"]


# ------------------------------------------------------------------------ settle


def settled(draw: Draw, query: ast.Query) -> Drawn:
    """Remove one rejected clause after the other until the query is accepted."""
    refused: list[tuple[ast.Query, Refusal]] = []
    for _ in range(9):
        message = error_of(query)
        if message is None:
            accepted = parse(to_text(query), query.schema, name=query.name)
            return Drawn(accepted, tuple(refused))
        refusal = refusal_of(message, OF_QUERIES)
        if refusal is None:
            raise AssertionError(f"not on the list of refusals: {message}\n{to_text(query)}")
        refused.append((query, refusal))
        query = dataclasses.replace(query, **{refusal.clause: _instead(draw, query, refusal.clause)})
        if query.after_match not in ("skip to first", "skip to last"):
            query = dataclasses.replace(query, skip_to=None)
    raise AssertionError(f"refused again and again: {refused}")


def _instead(draw: Draw, query: ast.Query, clause: str) -> Any:
    if clause == "window":
        return draw(time_windows())
    if clause == "strategy":
        return draw(st.sampled_from(ast.STRATEGIES[1:]))
    if clause == "partition":
        return ("k",)
    return _DEFAULTS[clause]


def error_of(query: ast.Query) -> str | None:
    """Return the error of a query, None if it is valid."""
    for call in (check, make_plan):
        try:
            _call(call, query)
        except (Problem, ValidationError) as error:
            return str(error)
    return None


def _call(call: Callable[[ast.Query], Any], query: ast.Query) -> None:
    call(query)


def most(queries: list[ast.Query]) -> int:
    """Return the maximum length of a stream for which the reference matcher is quick on all queries."""
    return min(most_events(query.pattern) for query in queries)
