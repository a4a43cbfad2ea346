"""Syntax tree of a query to AST, before names are resolved; what is not answered yet is refused here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lark import Tree

from fastcep.query import ast
from fastcep.query.expressions import ExpressionReader
from fastcep.query.printer import expression_text
from fastcep.query.source import Source, Spans
from fastcep.query.transform_pattern import PatternReader
from fastcep.query.tree import Branch, duration, integer, leaves, name_of, span_of, text_of

__all__ = ["RawQuery", "read_query"]

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


@dataclass(slots=True)
class RawQuery:
    """The parts of a query whose names are not resolved yet."""

    name: str | None
    pattern: ast.Pattern
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
    patterns = PatternReader(source)
    pattern = patterns.read(body.children[0])
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
    raw.spans = Spans(patterns.parts, partition_spans)
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
