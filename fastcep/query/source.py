"""Positions in a query text, and errors that point to them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fastcep.errors import ParseError
from fastcep.query.ast import MAX_NESTING, Node, Span

__all__ = ["NESTED", "Problem", "Source", "Spans", "suggest"]


#: Similarity from which a known name alone is suggested; below, the other names are listed too.
_CLOSE = 0.7
#: Message for an expression or a pattern that is nested too deeply.
NESTED = (
    f"the {{}} is nested deeper than {MAX_NESTING} levels; write it flatter, for example with IN or as several "
    "conditions joined by AND"
)


class Problem(Exception):
    """A fault of a query, independent of whether the query came from a text or from the builder.

    Parameters
    ----------
    message
        The fault, what was expected and a suggestion.
    where
        Node or range of text at fault; None if unknown.
    """

    def __init__(self, message: str, where: Node | Span | None = None) -> None:
        self.message = message
        self.span: Span | None = where.span if isinstance(where, Node) else where
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Source:
    """A text to parse, with the name of its file (None for a text passed in a call)."""

    text: str
    filename: str | None = None

    def error(self, message: str, span: Span | None) -> ParseError:
        """Return an error that points to ``span``, or to the start of the text if ``span`` is None."""
        span = span or Span(0, 0, 1, 1)
        return ParseError(message, self.text, span.line, span.column, span.end - span.start, self.filename)

    def end(self) -> Span:
        """Return the position just after the last non-whitespace character."""
        stripped = self.text.rstrip()
        line = stripped.count("\n")
        return Span(len(stripped), len(stripped), line + 1, len(stripped) - (stripped.rfind("\n") + 1) + 1)


@dataclass(frozen=True, slots=True)
class Spans:
    """Positions of those parts of a query that the AST stores without spans; empty for a query from the builder.

    Attributes
    ----------
    parts
        Positions by the span of the pattern or window bound, the part (``"type"``, ``"variable"``, ``"count"``, …) and
        the index of the part.
    partition
        Positions of the names in PARTITION BY.
    clauses
        Positions of the other clauses by the field of the query: ``"strategy"``, ``"limit"``, ``"returns"``, …
    """

    parts: Mapping[tuple[Span, str, int], Span] = field(default_factory=dict)
    partition: tuple[Span, ...] = ()
    clauses: Mapping[str, Span] = field(default_factory=dict)

    def of(self, node: Node, part: str, number: int = 0) -> Span | None:
        """Return the position of a part of ``node``, or of the whole node if that of the part is unknown."""
        return None if node.span is None else self.parts.get((node.span, part, number), node.span)


def suggest(name: str, known: Iterable[str], heading: str = "known names:") -> str:
    """Return the end of a message on an unknown name: the closest known name, or the first of the known names.

    >>> suggest("bikeid", ["bike", "start"])
    "; did you mean 'bike'?"
    """
    names = list(dict.fromkeys(known))
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if close and difflib.SequenceMatcher(None, name.lower(), close[0]).ratio() >= _CLOSE:
        return f"; did you mean '{by_lower[close[0]]}'?"
    if not names:
        return ""
    name_list = f"{', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
    if close:
        return f"; did you mean '{by_lower[close[0]]}'? {heading[0].upper()}{heading[1:]} {name_list}"
    return f"; {heading} {name_list}; {'write it' if len(names) == 1 else 'choose one of them'}"
