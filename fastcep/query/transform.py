"""Syntax tree of a query to AST, before names are resolved; what is not answered yet is refused here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lark import Token, Tree

from fastcep.query import ast
from fastcep.query.expressions import ExpressionReader
from fastcep.query.printer import expression_text
from fastcep.query.source import Source
from fastcep.query.tree import Branch, duration, integer, leaves, name_of, span_of, text_of

__all__ = ["RawQuery", "Spans", "read_query"]

# Clauses in the order in which they must come; grammar alias -> keyword.
CLAUSES = {
    "where": "WHERE", "within_time": "WITHIN", "within_events": "WITHIN", "within_unbounded": "WITHIN",
    "window": "WINDOW", "partition": "PARTITION BY", "strategy": "STRATEGY", "select": "SELECT",
    "consume": "CONSUME", "limit": "LIMIT", "after_no_skip": "AFTER MATCH", "after_skip": "AFTER MATCH",
    "weight": "WEIGHT", "return": "RETURN",
}  # fmt: skip
ORDER = list(dict.fromkeys(CLAUSES.values()))
_RANK = {keyword: ORDER.index("WITHIN" if keyword == "WINDOW" else keyword) for keyword in ORDER}
ORDER_TEXT = (
    "PATTERN, WHERE, WITHIN or WINDOW, PARTITION BY, STRATEGY, SELECT, CONSUME, LIMIT, AFTER MATCH, WEIGHT, RETURN"
)

# Choices that have a default which is answered, and others that are not yet.
CHOICES = {
    "strategy": ("skip_till_any", ("skip_till_next", "partition_contiguity", "strict_contiguity")),
    "select": ("each", ("first", "last", "cumulative")),
    "consume": ("zero", ("consumed",)),
}
LATER_CLAUSES = {
    "window": "WINDOW", "limit": "LIMIT … PER WINDOW", "after_skip": "AFTER MATCH SKIP", "weight": "WEIGHT",
}  # fmt: skip
LATER_PATTERNS = {
    "conjunction": "AND(…) in a pattern", "disjunction": "OR(…) in a pattern", "any": "ANY(…)",
    "aperiodic": "APERIODIC", "periodic": "PERIODIC", "next": "NEXT", "consecutive": "CONSECUTIVE",
    "negation": "NEG", "group": "a group in a pattern", "sequence": "a SEQ inside a pattern",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the names stand that the AST keeps as plain text; empty for a built query."""

    types: tuple[tuple[ast.Span, ...], ...] = ()
    variables: tuple[ast.Span, ...] = ()
    partition: tuple[ast.Span, ...] = ()


@dataclass(slots=True)
class RawQuery:
    """The parts of a query whose names are not resolved yet."""

    name: str | None
    pattern: ast.Sequence
    span: ast.Span
    name_span: ast.Span | None = None
    where: ast.Expr | None = None
    window: ast.Window | None = None
    partition: tuple[str, ...] = ()
    returns: tuple[ast.ReturnItem, ...] = ()
    spans: Spans = field(default_factory=Spans)


def read_query(tree: Branch, source: Source) -> RawQuery:
    """Read a ``query`` or ``named_query`` tree.

    Raises
    ------
    ParseError
        A clause is out of order or double, a quantifier or literal is wrong, WITHIN is missing.
    NotYetError
        The query uses what this version does not answer yet.
    """
    name = tree.children[0] if tree.data == "named_query" else None
    body = tree.children[-1]
    assert isinstance(body, Tree)
    pattern, type_spans, variable_spans = _pattern(body.children[0], source)
    raw = RawQuery(
        None if name is None else name_of(name),
        pattern,
        span_of(tree),
        name_span=None if name is None else span_of(name),
    )
    clauses = [child for child in body.children[1:] if isinstance(child, Tree)]
    _check_order(clauses, source)
    partition_spans: tuple[ast.Span, ...] = ()
    for clause in clauses:
        if clause.data == "partition":
            partition_spans = tuple(span_of(child) for child in clause.children)
        _read_clause(raw, clause, source)
    if raw.window is None:
        place = raw.where.span if raw.where is not None and raw.where.span is not None else pattern.span
        raise source.error(
            "every query needs a window; add WITHIN 5min, WITHIN 100 EVENTS or WITHIN UNBOUNDED after WHERE", place
        )
    raw.spans = Spans(type_spans, variable_spans, partition_spans)
    return raw


# -------------------------------------------------------------------------- clauses


def _check_order(clauses: list[Branch], source: Source) -> None:
    before = ""
    for clause in clauses:
        keyword = CLAUSES[clause.data]
        if before and _RANK[keyword] == _RANK[before]:
            what = f"{keyword} stands twice" if keyword == before else f"{before} and {keyword} exclude each other"
            raise source.error(f"{what}; keep one", span_of(clause))
        if before and _RANK[keyword] < _RANK[before]:
            raise source.error(f"{keyword} must come before {before}; the order is {ORDER_TEXT}", span_of(clause))
        before = keyword


def _read_clause(raw: RawQuery, clause: Branch, source: Source) -> None:
    span = span_of(clause)
    if clause.data in LATER_CLAUSES:
        raise source.not_yet(LATER_CLAUSES[clause.data], span)
    if clause.data in CHOICES:
        _check_choice(clause, source)
    elif clause.data == "where":
        raw.where = ExpressionReader(source).read(clause.children[0])
    elif clause.data == "partition":
        raw.partition = tuple(name_of(child) for child in leaves(clause))
    elif clause.data == "return":
        raw.returns = tuple(_return_item(item, source) for item in clause.children)
    elif clause.data.startswith("within"):
        raw.window = _within(clause, span, source)


def _check_choice(clause: Branch, source: Source) -> None:
    token = leaves(clause)[0]
    default, later = CHOICES[clause.data]
    chosen = name_of(token).lower()
    if chosen in later:
        raise source.not_yet(f"{CLAUSES[clause.data]} {chosen}", span_of(token))
    if chosen != default:
        raise source.error(
            f"unknown {clause.data} {text_of(token)!r}; expected {', '.join((default, *later))}", span_of(token)
        )


def _within(clause: Branch, span: ast.Span, source: Source) -> ast.Window:
    if clause.data == "within_unbounded":
        return ast.Unbounded(span=span)
    token = leaves(clause)[0]
    if clause.data == "within_events":
        events = integer(token, source)
        if events < 1:
            raise source.error("WITHIN 0 EVENTS holds no event; expected at least 1", span_of(token))
        return ast.CountWindow(events, span=span)
    return ast.TimeWindow(duration(token, source), span=span)


def _return_item(item: Any, source: Source) -> ast.ReturnItem:
    expression = ExpressionReader(source).read(item.children[0])
    alias = item.children[1] if len(item.children) > 1 else None
    name = expression_text(expression) if alias is None else name_of(alias)
    return ast.ReturnItem(expression, name, span=span_of(item if alias is None else alias))


# -------------------------------------------------------------------------- pattern


def _pattern(tree: Any, source: Source) -> tuple[ast.Sequence, tuple[tuple[ast.Span, ...], ...], tuple[ast.Span, ...]]:
    if tree.data != "sequence":
        raise source.not_yet(LATER_PATTERNS[tree.data], span_of(tree))
    members: list[ast.Member] = []
    types: list[tuple[ast.Span, ...]] = []
    variables: list[ast.Span] = []
    for child in tree.children:
        if child.data != "member":
            raise source.not_yet(LATER_PATTERNS[child.data], span_of(child))
        members.append(_member(child, source))
        types.append(tuple(span_of(token) for token in child.children[0].children))
        variables.append(span_of(child.children[2]))
    return ast.Sequence(tuple(members), span=span_of(tree)), tuple(types), tuple(variables)


def _member(tree: Branch, source: Source) -> ast.Member:
    types, quantifier, variable, brackets = tree.children
    assert isinstance(types, Tree) and isinstance(variable, Token)
    name, span = name_of(variable), span_of(tree)
    minimum, maximum = 1, 1
    repeated = isinstance(quantifier, Tree) and quantifier.data != "optional"
    if isinstance(quantifier, Tree):
        minimum, limit = _bounds(quantifier, source)
        maximum = limit  # type: ignore[assignment]  # None: no upper bound
    written = source.text[span_of(types).start : span_of(types).end]
    if repeated and brackets is None:
        raise source.error(f"{name} holds several events, so it is written {text_of(variable)}[]", span_of(variable))
    if not repeated and brackets is not None:
        mend = f"write {text_of(variable)}"
        if quantifier is None:
            mend += f", or {written}+ {text_of(variable)}[] for several"
        raise source.error(f"{name} holds one event, so it has no []; {mend}", span_of(variable))
    return ast.Member(tuple(name_of(token) for token in leaves(types)), name, minimum, maximum, repeated, span=span)


def _bounds(quantifier: Branch, source: Source) -> tuple[int, int | None]:
    span = span_of(quantifier)
    read: Callable[[int], int] = lambda at: integer(leaves(quantifier)[at], source)  # noqa: E731
    kind = quantifier.data
    if kind == "plus":
        return 1, None
    if kind == "star":
        return 0, None
    if kind == "optional":
        return 0, 1
    if kind == "exactly":
        count = read(0)
        raise source.error(
            f"{{{count}}} is no quantifier; write {{{count},{count}}} for exactly {count} events, "
            f"or {{0,{count}}} with COUNT(x[]) IN {{0, {count}}} for all or nothing",
            span,
        )
    minimum = read(0)
    if kind == "at_least":
        return minimum, None
    maximum = read(1)
    if maximum < 1:
        raise source.error(f"{{{minimum},{maximum}}} holds no event; the upper bound must be at least 1", span)
    if minimum > maximum:
        raise source.error(
            f"{{{minimum},{maximum}}} has its bounds the wrong way round; write {{{maximum},{minimum}}}", span
        )
    return minimum, maximum
