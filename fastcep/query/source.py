"""Where things stand in a text, and errors that point there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fastcep.errors import ParseError
from fastcep.query.ast import MAX_NESTING, Node, Span

__all__ = ["NESTED", "Problem", "Source", "Spans", "suggest"]


#: Said of an expression or a pattern that is too deep for what reads it.
NESTED = (
    f"the {{}} is nested deeper than {MAX_NESTING} levels; write it flatter, for example with IN or as several "
    "conditions joined by AND"
)


class Problem(Exception):
    """A fault of a query, before it is known whether the query came from a text or from the builder.

    Parameters
    ----------
    message
        What is wrong, what was expected, a suggestion.
    where
        The node or the stretch of text at fault; None if there is none.
    """

    def __init__(self, message: str, where: Node | Span | None = None) -> None:
        self.message = message
        self.span = where.span if isinstance(where, Node) else where
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Source:
    """A text being parsed, with the name of its file (None for text given in a call)."""

    text: str
    filename: str | None = None

    def error(self, message: str, span: Span | None) -> ParseError:
        """Give the error for ``span``; without one it points at the start of the text."""
        span = span or Span(0, 0, 1, 1)
        return ParseError(message, self.text, span.line, span.column, span.end - span.start, self.filename)

    def end(self) -> Span:
        """Give the place just behind the last character that is no white space."""
        kept = self.text.rstrip()
        line = kept.count("\n")
        return Span(len(kept), len(kept), line + 1, len(kept) - (kept.rfind("\n") + 1) + 1)


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the parts of a query stand that the AST keeps as plain values; empty for a built query.

    Attributes
    ----------
    parts
        By the span of a pattern or a window's bound, the part (``"type"``, ``"variable"``, ``"count"``, …) and its
        number.
    partition
        The names of PARTITION BY.
    clauses
        What the other clauses say, by the name of the query's field: ``"strategy"``, ``"limit"``, ``"returns"``, …
    """

    parts: Mapping[tuple[Span, str, int], Span] = field(default_factory=dict)
    partition: tuple[Span, ...] = ()
    clauses: Mapping[str, Span] = field(default_factory=dict)

    def of(self, node: Node, part: str, number: int = 0) -> Span | None:
        """Give the place of a part of ``node``; of the whole of it if the part's own is not known."""
        return None if node.span is None else self.parts.get((node.span, part, number), node.span)


def suggest(name: str, known: Iterable[str], what: str = "known are") -> str:
    """End a message on an unknown name: the closest known one, or all of them if they are few.

    >>> suggest("bikeid", ["bike", "start"])
    "; did you mean 'bike'?"
    """
    names = list(dict.fromkeys(known))
    by_lower = {known_name.lower(): known_name for known_name in reversed(names)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if close:
        return f"; did you mean '{by_lower[close[0]]}'?"
    if not names:
        return ""
    return f"; {what} {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
