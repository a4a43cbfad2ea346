"""Convert the syntax tree of a pattern into the AST; `check` validates it later, as it does for the builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from lark import Token, Tree

from fastcep.query import ast
from fastcep.query.parsing.tree import Branch, duration, integer, leaves, name_of, span_of, text_of
from fastcep.query.source import NESTED, Source

__all__ = ["PatternReader"]


class PatternReader:
    """Converts the syntax tree of a pattern into AST nodes with spans.

    Parameters
    ----------
    source
        The parsed text, for error messages.

    Attributes
    ----------
    parts
        Positions of the names and numbers in the text; see `fastcep.query.source.Spans`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._level = 0
        self.parts: dict[tuple[ast.Span, str, int], ast.Span] = {}

    def read(self, tree: Any) -> ast.Pattern:
        """Convert a pattern or a part of one; raise ParseError if it is invalid."""
        span = span_of(tree)
        if self._level == ast.MAX_NESTING:
            raise self._source.error(NESTED.format("pattern"), span)
        make: Callable[[Any, ast.Span], ast.Pattern] = getattr(self, f"_{tree.data}")
        self._level += 1
        try:
            return make(tree.children, span)
        finally:
            self._level -= 1

    def _record(self, span: ast.Span, part: str, *items: Any) -> None:
        for number, item in enumerate(items):
            self.parts[span, part, number] = span_of(item)

    # ------------------------------------------------------------------ operators

    def _sequence(self, parts: Any, span: ast.Span) -> ast.Pattern:
        patterns, adjacent = [], []
        for index, part in enumerate(parts):
            if part.data == "next":
                adjacent.append(index)
                self.parts[span, "next", index] = span_of(part)
                part = part.children[0]
            patterns.append(self.read(part))
        return ast.Sequence(tuple(patterns), tuple(adjacent), span=span)

    def _next(self, _: Any, span: ast.Span) -> ast.Pattern:
        raise self._source.error(
            "NEXT is allowed only before a part of a SEQ, whose first event comes right after the previous parts; "
            "write SEQ(P p, NEXT Q q) there",
            span,
        )

    def _consecutive(self, parts: Any, span: ast.Span) -> ast.Pattern:
        part = self.read(parts[0])
        assert isinstance(part, ast.Variable | ast.Group) and part.span is not None
        self.parts[part.span, "consecutive", 0] = span
        return replace(part, consecutive=True)

    def _conjunction(self, parts: Any, span: ast.Span) -> ast.Pattern:
        return ast.Conjunction(tuple(map(self.read, parts)), span=span)

    def _disjunction(self, parts: Any, span: ast.Span) -> ast.Pattern:
        return ast.Disjunction(tuple(map(self.read, parts)), span=span)

    def _any(self, parts: Any, span: ast.Span) -> ast.Pattern:
        number, *others = parts
        trees = [part for part in others if isinstance(part, Tree)]
        distinct = [part for part in others if isinstance(part, Token)]
        if len(distinct) > 1:
            raise self._source.error("DISTINCT is written twice; keep one", span_of(distinct[1]))
        count = integer(number, self._source)
        self._record(span, "count", number)
        self._record(span, "distinct", *distinct)
        variables = tuple(self._any_variable(tree, count) for tree in trees)
        return ast.AnyOf(count, variables, name_of(distinct[0]) if distinct else None, span=span)

    def _any_variable(self, tree: Branch, count: int) -> ast.Variable:
        types, quantifier, variable, brackets = tree.children
        if quantifier is not None:
            types_text = self._source.text[span_of(types).start : span_of(types).end]
            raise self._source.error(
                "ANY takes variables without ?, + or other bounds, because its number sets how many; write "
                f"{types_text} {text_of(variable)}, or ANY(n, {types_text} {text_of(variable)}[]) for n events of one "
                "variable",
                span_of(quantifier),
            )
        if brackets is None:
            return self._plain(types, variable, span_of(tree))
        return self._plain(types, variable, span_of(tree), count, count, True)

    def _aperiodic(self, parts: Any, span: ast.Span) -> ast.Pattern:
        opening, body, closing = map(self.read, parts)
        # The checks reject everything except a single variable as the last part.
        return ast.Aperiodic(opening, body, cast("ast.Variable", closing), span=span)

    def _periodic(self, parts: Any, span: ast.Span) -> ast.Pattern:
        opening, every, closing = parts
        self._record(span, "every", every)
        nanoseconds = duration(every, self._source)
        return ast.Periodic(self.read(opening), nanoseconds, cast("ast.Variable", self.read(closing)), span=span)

    def _negation(self, parts: Any, span: ast.Span) -> ast.Pattern:
        types, variable, silence = parts
        self._record(span, "type", *leaves(types))
        self._record(span, "variable", variable)
        nanoseconds = None
        if silence is not None:
            self._record(span, "silence", silence)
            nanoseconds = duration(silence, self._source)
        return ast.Negation(tuple(map(name_of, leaves(types))), name_of(variable), nanoseconds, span=span)

    def _until(self, parts: Any, span: ast.Span) -> ast.Pattern:
        loop, types, variable = parts
        pattern = self.read(loop)
        assert isinstance(pattern, ast.Variable | ast.Group)
        negated = ast.Span(span_of(types).start, span.end, span_of(types).line, span_of(types).column)
        self.parts[span, "until", 0] = negated
        negation = self._negation((types, variable, None), negated)
        assert isinstance(negation, ast.Negation)
        return ast.Until(pattern, negation, span=span)

    def _group(self, parts: Any, span: ast.Span) -> ast.Pattern:
        pattern, quantifier, variable, brackets = parts
        minimum, maximum = self._bounds(quantifier, "rounds")
        name, repeated = name_of(variable), quantifier.data != "optional"
        if repeated and brackets is None:
            raise self._source.error(
                f"{name} holds several rounds, so it is written {text_of(variable)}[]", span_of(variable)
            )
        if not repeated and brackets is not None:
            raise self._source.error(
                f"{name} holds at most one round, so it has no []; write {text_of(variable)}, or )* "
                f"{text_of(variable)}[] for several",
                span_of(variable),
            )
        self._record(span, "variable", variable)
        return ast.Group(self.read(pattern), name, minimum, maximum, repeated, span=span)

    # -------------------------------------------------------------------- variables

    def _member(self, parts: Any, span: ast.Span) -> ast.Pattern:
        types, quantifier, variable, brackets = parts
        name = name_of(variable)
        minimum, maximum = (1, 1) if quantifier is None else self._bounds(quantifier, "events")
        repeated = quantifier is not None and quantifier.data != "optional"
        types_text = self._source.text[span_of(types).start : span_of(types).end]
        if repeated and brackets is None:
            raise self._source.error(
                f"{name} holds several events, so it is written {text_of(variable)}[]", span_of(variable)
            )
        if not repeated and brackets is not None:
            remedy = f"write {text_of(variable)}"
            if quantifier is None:
                remedy += f", or {types_text}+ {text_of(variable)}[] for several"
            raise self._source.error(f"{name} holds one event, so it has no []; {remedy}", span_of(variable))
        return self._plain(types, variable, span, minimum, maximum, repeated)

    def _plain(
        self,
        types: Any,
        variable: Any,
        span: ast.Span,
        minimum: int = 1,
        maximum: int | None = 1,
        repeated: bool = False,
    ) -> ast.Variable:
        self._record(span, "type", *leaves(types))
        self._record(span, "variable", variable)
        names = tuple(map(name_of, leaves(types)))
        return ast.Variable(names, name_of(variable), minimum, maximum, repeated, span=span)

    def _bounds(self, quantifier: Branch, elements: str) -> tuple[int, int | None]:
        span, source = span_of(quantifier), self._source
        kind = quantifier.data
        if kind == "plus":
            return 1, None
        if kind == "star":
            return 0, None
        if kind == "optional":
            return 0, 1
        remedy = "omit it for any number, as in {2,}"
        bounds = [integer(token, source, remedy=remedy) for token in leaves(quantifier)]
        if kind == "at_least":
            return bounds[0], None
        minimum, maximum = (0 if kind == "at_most" else bounds[0]), bounds[-1]
        if maximum < 1:
            exactly, bounds_text = kind == "exactly", ",".join(map(str, bounds))
            raise source.error(
                f"{{{',' if kind == 'at_most' else ''}{bounds_text}}} allows no {elements[:-1]}; "
                f"the {'number' if exactly else 'upper bound'} must be at least 1",
                span,
            )
        if minimum > maximum:
            raise source.error(
                f"{{{minimum},{maximum}}} has its bounds in the wrong order; write {{{maximum},{minimum}}}", span
            )
        return minimum, maximum
