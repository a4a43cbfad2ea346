"""Patterns: syntax tree to AST. What a pattern may hold is checked later, where built queries are checked too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from lark import Token, Tree

from fastcep.query import ast
from fastcep.query.source import NESTED, Source
from fastcep.query.tree import Branch, duration, integer, leaves, name_of, span_of, text_of

__all__ = ["PatternReader"]


class PatternReader:
    """Turns the tree of a pattern into AST nodes with spans.

    Parameters
    ----------
    source
        The text, for errors.

    Attributes
    ----------
    parts
        Where the names and numbers of what was read stand; see `fastcep.query.source.Spans`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._level = 0
        self.parts: dict[tuple[ast.Span, str, int], ast.Span] = {}

    def read(self, tree: Any) -> ast.Pattern:
        """Read a pattern or a part of one; ParseError says what is wrong with it."""
        span = span_of(tree)
        if self._level == ast.MAX_NESTING:
            raise self._source.error(NESTED.format("pattern"), span)
        make: Callable[[Any, ast.Span], ast.Pattern] = getattr(self, f"_{tree.data}")
        self._level += 1
        try:
            return make(tree.children, span)
        finally:
            self._level -= 1

    def _note(self, span: ast.Span, part: str, *places: Any) -> None:
        for number, place in enumerate(places):
            self.parts[span, part, number] = span_of(place)

    # ------------------------------------------------------------------ operators

    def _sequence(self, parts: Any, span: ast.Span) -> ast.Pattern:
        members, adjacent = [], []
        for place, part in enumerate(parts):
            if part.data == "next":
                adjacent.append(place)
                self.parts[span, "next", place] = span_of(part)
                part = part.children[0]
            members.append(self.read(part))
        return ast.Sequence(tuple(members), tuple(adjacent), span=span)

    def _next(self, _: Any, span: ast.Span) -> ast.Pattern:
        raise self._source.error(
            "NEXT stands only before a member of a SEQ: what it binds first comes right after the members before it; "
            "write SEQ(P p, NEXT Q q) there",
            span,
        )

    def _consecutive(self, parts: Any, span: ast.Span) -> ast.Pattern:
        part = self.read(parts[0])
        assert isinstance(part, ast.Member | ast.Group) and part.span is not None
        self.parts[part.span, "consecutive", 0] = span
        return replace(part, consecutive=True)

    def _conjunction(self, parts: Any, span: ast.Span) -> ast.Pattern:
        return ast.Conjunction(tuple(map(self.read, parts)), span=span)

    def _disjunction(self, parts: Any, span: ast.Span) -> ast.Pattern:
        return ast.Disjunction(tuple(map(self.read, parts)), span=span)

    def _any(self, parts: Any, span: ast.Span) -> ast.Pattern:
        number, *rest = parts
        trees = [part for part in rest if isinstance(part, Tree)]
        distinct = [part for part in rest if isinstance(part, Token)]
        if len(distinct) > 1:
            raise self._source.error("DISTINCT stands twice; keep one", span_of(distinct[1]))
        count = integer(number, self._source)
        self._note(span, "count", number)
        self._note(span, "distinct", *distinct)
        members = tuple(self._any_member(tree, count) for tree in trees)
        return ast.AnyOf(count, members, name_of(distinct[0]) if distinct else None, span=span)

    def _any_member(self, tree: Branch, count: int) -> ast.Member:
        types, quantifier, variable, brackets = tree.children
        if quantifier is not None:
            written = self._source.text[span_of(types).start : span_of(types).end]
            raise self._source.error(
                f"ANY takes members without ?, + or other bounds, as its number says how many; write {written} "
                f"{text_of(variable)}, or ANY(n, {written} {text_of(variable)}[]) for n events of one variable",
                span_of(quantifier),
            )
        if brackets is None:
            return self._plain(types, variable, span_of(tree))
        return self._plain(types, variable, span_of(tree), count, count, True)

    def _aperiodic(self, parts: Any, span: ast.Span) -> ast.Pattern:
        opening, body, closing = map(self.read, parts)
        # The checks refuse everything else in the last place.
        return ast.Aperiodic(opening, body, cast("ast.Member", closing), span=span)

    def _periodic(self, parts: Any, span: ast.Span) -> ast.Pattern:
        opening, every, closing = parts
        self._note(span, "every", every)
        nanoseconds = duration(every, self._source)
        return ast.Periodic(self.read(opening), nanoseconds, cast("ast.Member", self.read(closing)), span=span)

    def _negation(self, parts: Any, span: ast.Span) -> ast.Pattern:
        types, variable = parts
        self._note(span, "type", *leaves(types))
        self._note(span, "variable", variable)
        return ast.Negation(tuple(map(name_of, leaves(types))), name_of(variable), span=span)

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
                f"{name} holds one round at most, so it has no []; write {text_of(variable)}, or )* "
                f"{text_of(variable)}[] for several",
                span_of(variable),
            )
        self._note(span, "variable", variable)
        return ast.Group(self.read(pattern), name, minimum, maximum, repeated, span=span)

    # -------------------------------------------------------------------- members

    def _member(self, parts: Any, span: ast.Span) -> ast.Pattern:
        types, quantifier, variable, brackets = parts
        name = name_of(variable)
        minimum, maximum = (1, 1) if quantifier is None else self._bounds(quantifier, "events")
        repeated = quantifier is not None and quantifier.data != "optional"
        written = self._source.text[span_of(types).start : span_of(types).end]
        if repeated and brackets is None:
            raise self._source.error(
                f"{name} holds several events, so it is written {text_of(variable)}[]", span_of(variable)
            )
        if not repeated and brackets is not None:
            mend = f"write {text_of(variable)}"
            if quantifier is None:
                mend += f", or {written}+ {text_of(variable)}[] for several"
            raise self._source.error(f"{name} holds one event, so it has no []; {mend}", span_of(variable))
        return self._plain(types, variable, span, minimum, maximum, repeated)

    def _plain(
        self,
        types: Any,
        variable: Any,
        span: ast.Span,
        minimum: int = 1,
        maximum: int | None = 1,
        repeated: bool = False,
    ) -> ast.Member:
        self._note(span, "type", *leaves(types))
        self._note(span, "variable", variable)
        names = tuple(map(name_of, leaves(types)))
        return ast.Member(names, name_of(variable), minimum, maximum, repeated, span=span)

    def _bounds(self, quantifier: Branch, what: str) -> tuple[int, int | None]:
        span, source = span_of(quantifier), self._source
        kind = quantifier.data
        if kind == "plus":
            return 1, None
        if kind == "star":
            return 0, None
        if kind == "optional":
            return 0, 1
        mend = "leave it out for any number, as in {2,}"
        bounds = [integer(token, source, mend=mend) for token in leaves(quantifier)]
        if kind == "at_least":
            return bounds[0], None
        minimum, maximum = (0 if kind == "at_most" else bounds[0]), bounds[-1]
        if maximum < 1:
            exactly, written = kind == "exactly", ",".join(map(str, bounds))
            raise source.error(
                f"{{{',' if kind == 'at_most' else ''}{written}}} holds no {what[:-1]}; "
                f"the {'number' if exactly else 'upper bound'} must be at least 1",
                span,
            )
        if minimum > maximum:
            raise source.error(
                f"{{{minimum},{maximum}}} has its bounds the wrong way round; write {{{maximum},{minimum}}}", span
            )
        return minimum, maximum
