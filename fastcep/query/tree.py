"""Reading lark's trees: names, numbers and places."""

from __future__ import annotations

from typing import Any, TypeAlias

from lark import Token, Tree

from fastcep.errors import ValidationError
from fastcep.events.units import INT64_MAX, parse_duration
from fastcep.query.ast import Span
from fastcep.query.source import Source

__all__ = ["Branch", "duration", "integer", "leaves", "name_of", "span_of", "string_of", "text_of"]

Branch: TypeAlias = "Tree[Token]"


def span_of(item: Any) -> Span:
    """Where a token, or a tree with everything that it was parsed from, stands."""
    at: Any = item if isinstance(item, Token) else item.meta
    return Span(at.start_pos, at.end_pos, at.line, at.column)


def text_of(token: Any) -> str:
    """The token as it was written."""
    return str(token)


def leaves(tree: Branch) -> list[Token]:
    """The direct children that are tokens."""
    return [child for child in tree.children if isinstance(child, Token)]


def name_of(token: Any) -> str:
    """The name that a NAME or a name in double quotes stands for."""
    text = str(token)
    return text[1:-1].replace('""', '"') if token.type == "QUOTED" else text


def string_of(token: Any) -> str:
    """The text in single quotes."""
    return str(token)[1:-1].replace("''", "'")


def integer(
    token: Token, source: Source, sign: int = 1, mend: str = "write it with a decimal point for a float64"
) -> int:
    """The value of an INT token; ParseError, with ``mend`` as the remedy, if it does not fit int64."""
    digits = str(token).lstrip("0") or "0"
    # The length is tested first, because int() refuses very long texts.
    value = int(digits) if len(digits) <= 19 else INT64_MAX + 2
    if value > (INT64_MAX if sign > 0 else INT64_MAX + 1):
        raise source.error(
            f"{'-' if sign < 0 else ''}{digits} does not fit int64 (at most {INT64_MAX}); {mend}",
            span_of(token),
        )
    return sign * value


def duration(token: Token, source: Source) -> int:
    """Nanoseconds of a DURATION token; ParseError if they do not fit int64 or are no whole number of the unit."""
    try:
        return parse_duration(str(token).lower())
    except ValidationError as error:
        raise source.error(str(error), span_of(token)) from None
