"""Read names, numbers and positions from lark's trees."""

from __future__ import annotations

from typing import Any, TypeAlias

from lark import Token, Tree

from fastcep.errors import ValidationError
from fastcep.events.units import INT64_MAX, parse_duration, parse_time
from fastcep.query.ast import Span
from fastcep.query.source import Source

__all__ = ["Branch", "duration", "integer", "leaves", "name_of", "span_of", "string_of", "text_of", "timestamp"]

Branch: TypeAlias = "Tree[Token]"


def span_of(item: Any) -> Span:
    """Return the position of a token, or of all the text that a tree was parsed from."""
    position: Any = item if isinstance(item, Token) else item.meta
    return Span(position.start_pos, position.end_pos, position.line, position.column)


def text_of(token: Any) -> str:
    """Return a token as it was written."""
    return str(token)


def leaves(tree: Branch) -> list[Token]:
    """Return the direct children that are tokens."""
    return [child for child in tree.children if isinstance(child, Token)]


def name_of(token: Any) -> str:
    """Return the name that a NAME or QUOTED token denotes."""
    text = str(token)
    return text[1:-1].replace('""', '"') if token.type == "QUOTED" else text


def string_of(token: Any) -> str:
    """Return the text of a string token, without its single quotes."""
    return str(token)[1:-1].replace("''", "'")


def integer(
    token: Token, source: Source, sign: int = 1, remedy: str = "write it with a decimal point for a float64"
) -> int:
    """Return the value of an INT token; raise ParseError, which ends in ``remedy``, if it does not fit int64."""
    digits = str(token).lstrip("0") or "0"
    # The length is tested first, because int() rejects very long texts.
    value = int(digits) if len(digits) <= 19 else INT64_MAX + 2
    if value > (INT64_MAX if sign > 0 else INT64_MAX + 1):
        raise source.error(
            f"{'-' if sign < 0 else ''}{digits} does not fit int64 (at most {INT64_MAX}); {remedy}",
            span_of(token),
        )
    return sign * value


def duration(token: Token, source: Source) -> int:
    """Return a DURATION token in nanoseconds; raise ParseError if they do not fit int64 or are not a whole number."""
    try:
        return parse_duration(str(token).lower())
    except ValidationError as error:
        raise source.error(str(error), span_of(token)) from None


def timestamp(token: Token, source: Source) -> int:
    """Return a TIMESTAMP token in nanoseconds since the epoch; raise ParseError if its text is not a time."""
    try:
        return parse_time(str(token)[str(token).index("'") + 1 : -1])
    except ValidationError as error:
        raise source.error(str(error), span_of(token)) from None
