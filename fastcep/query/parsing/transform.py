"""Convert the syntax tree of a query into the AST, before names are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lark import Token, Tree

from fastcep.query import ast
from fastcep.query.parsing.expressions import ExpressionReader
from fastcep.query.parsing.transform_pattern import PatternReader
from fastcep.query.parsing.tree import Branch, duration, integer, leaves, name_of, span_of
from fastcep.query.printer import expression_text
from fastcep.query.source import Source, Spans

__all__ = ["RawQuery", "read_query"]

# Clauses in the required order; grammar alias -> keyword.
CLAUSES = {
    "where": "WHERE", "within_time": "WITHIN", "within_events": "WITHIN", "within_unbounded": "WITHIN",
    "window": "WINDOW", "partition": "PARTITION BY", "strategy": "STRATEGY", "select": "SELECT",
    "consume": "CONSUME", "limit": "LIMIT", "after_no_skip": "AFTER MATCH", "after_to_next": "AFTER MATCH",
    "after_past_last": "AFTER MATCH", "after_to_first": "AFTER MATCH", "after_to_last": "AFTER MATCH",
    "weight": "WEIGHT", "return": "RETURN",
}  # fmt: skip
ORDER = list(dict.fromkeys(CLAUSES.values()))
_RANK = {keyword: ORDER.index("WITHIN" if keyword == "WINDOW" else keyword) for keyword in ORDER}
ORDER_TEXT = (
    "PATTERN, WHERE, WITHIN or WINDOW, PARTITION BY, STRATEGY, SELECT, CONSUME, LIMIT, AFTER MATCH, WEIGHT, RETURN"
)

_WORDS = {"strategy": ast.STRATEGIES, "select": ast.SELECTIONS, "consume": ast.CONSUMPTIONS}
_AFTER_MATCH = {
    "after_no_skip": "no skip", "after_to_next": "skip to next", "after_past_last": "skip past last",
    "after_to_first": "skip to first", "after_to_last": "skip to last",
}  # fmt: skip


@dataclass(slots=True)
class RawQuery:
    """The parts of a query before its names are resolved.

    ``choices`` holds the values of the clauses from STRATEGY to WEIGHT by the field of `ast.Query`.
    """

    name: str | None
    pattern: ast.Pattern
    span: ast.Span
    name_span: ast.Span | None = None
    where: ast.Expr | None = None
    window: ast.Window | None = None
    partition: tuple[str, ...] = ()
    choices: dict[str, Any] = field(default_factory=dict)
    returns: tuple[ast.ReturnItem, ...] = ()
    spans: Spans = field(default_factory=Spans)


def read_query(tree: Branch, source: Source) -> RawQuery:
    """Convert a ``query`` or ``named_query`` tree.

    Raises
    ------
    ParseError
        A clause is out of order or repeated, a quantifier or literal is invalid, or the window is missing.
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
    reader = _ClauseReader(raw, source, patterns.parts)
    for clause in clauses:
        reader.read(clause)
    if raw.window is None:
        place = raw.where.span if raw.where is not None and raw.where.span is not None else pattern.span
        raise source.error(
            "every query needs a window; add WITHIN 5min, WITHIN 100 EVENTS, WITHIN UNBOUNDED or "
            "WINDOW OPEN … CLOSE … after WHERE",
            place,
        )
    raw.spans = Spans(patterns.parts, reader.partition, reader.clauses)
    return raw


# -------------------------------------------------------------------------- clauses


def _check_order(clauses: list[Branch], source: Source) -> None:
    previous = ""
    for clause in clauses:
        keyword = CLAUSES[clause.data]
        if previous and _RANK[keyword] == _RANK[previous]:
            same = keyword == previous
            fault = f"{keyword} is written twice" if same else f"{previous} and {keyword} exclude each other"
            raise source.error(f"{fault}; keep one", span_of(clause))
        if previous and _RANK[keyword] < _RANK[previous]:
            raise source.error(f"{keyword} must come before {previous}; the order is {ORDER_TEXT}", span_of(clause))
        previous = keyword


class _ClauseReader:
    """Converts clauses and stores them in ``raw``; records positions of a window's names and numbers in ``parts``."""

    def __init__(self, raw: RawQuery, source: Source, parts: dict[tuple[ast.Span, str, int], ast.Span]) -> None:
        self._raw = raw
        self._source = source
        self._parts = parts
        self.partition: tuple[ast.Span, ...] = ()
        self.clauses: dict[str, ast.Span] = {}

    def read(self, clause: Branch) -> None:
        raw, kind, span = self._raw, clause.data, span_of(clause)
        if kind == "where":
            raw.where = self._expression(clause.children[0])
        elif kind == "window":
            opening, closing = map(self._bound, clause.children)
            raw.window = ast.ExplicitWindow(opening, closing, span=span)
        elif kind == "partition":
            self.partition = tuple(map(span_of, clause.children))
            raw.partition = tuple(map(name_of, leaves(clause)))
        elif kind == "return":
            self.clauses["returns"] = span
            raw.returns = tuple(map(self._return_item, clause.children))
        elif kind.startswith("within"):
            raw.window = self._within(clause, span)
        else:
            self._choice(clause, span)

    def _expression(self, tree: Any) -> ast.Expr:
        return ExpressionReader(self._source).read(tree)

    def _choice(self, clause: Branch, span: ast.Span) -> None:
        """Convert a clause from STRATEGY to WEIGHT; its value is checked later."""
        if clause.data in _AFTER_MATCH:
            self.clauses["after_match"] = span
            self._raw.choices["after_match"] = _AFTER_MATCH[clause.data]
            for token in leaves(clause):
                self.clauses["skip_to"] = span_of(token)
                self._raw.choices["skip_to"] = name_of(token)
            return
        (token,) = leaves(clause)
        self.clauses[clause.data] = span_of(token)
        value: str | int | float
        if clause.data in _WORDS:
            value = name_of(token)
            value = value.lower() if value.lower() in _WORDS[clause.data] else value
        else:
            value = integer(token, self._source) if clause.data == "limit" else float(token)
        self._raw.choices[clause.data] = value

    def _bound(self, tree: Any) -> ast.Bound:
        span = span_of(tree)
        first = tree.children[0]
        if isinstance(first, Token):
            self._parts[span, "extent", 0] = span_of(first)
            if first.type == "INT":
                return ast.Bound(events=integer(first, self._source), span=span)
            return ast.Bound(nanoseconds=duration(first, self._source), span=span)
        variable, *where = tree.children[1:]
        for number, name in enumerate(leaves(first)):
            self._parts[span, "type", number] = span_of(name)
        self._parts[span, "variable", 0] = span_of(variable)
        return ast.Bound(
            types=tuple(map(name_of, leaves(first))),
            variable=name_of(variable),
            where=self._expression(where[0]) if where else None,
            span=span,
        )

    def _within(self, clause: Branch, span: ast.Span) -> ast.Window:
        if clause.data == "within_unbounded":
            return ast.Unbounded(span=span)
        token = leaves(clause)[0]
        if clause.data == "within_events":
            events = integer(token, self._source)
            if events < 1:
                raise self._source.error("WITHIN 0 EVENTS contains no event; write at least 1", span_of(token))
            return ast.CountWindow(events, span=span)
        return ast.TimeWindow(duration(token, self._source), span=span)

    def _return_item(self, item: Any) -> ast.ReturnItem:
        expression = self._expression(item.children[0])
        alias = item.children[1] if len(item.children) > 1 else None
        name = expression_text(expression) if alias is None else name_of(alias)
        return ast.ReturnItem(expression, name, span=span_of(item if alias is None else alias))
