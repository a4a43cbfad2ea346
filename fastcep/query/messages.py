"""The parser's errors in plain words."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from fastcep.errors import ParseError
from fastcep.query.ast import Span
from fastcep.query.source import Source, suggest
from fastcep.query.tree import span_of

__all__ = ["explain"]

_WORDS = {
    "NAME": "a name", "QUOTED": None, "INT": "a whole number", "FLOAT": "a number", "STRING": "a text in single quotes",
    "DURATION": "a duration such as 5min", "COMPARISON": "a comparison", "EQUAL": "=", "PLUS": "+", "MINUS": "-",
    "STAR": "*", "DIVISION": "/", "POWER": "^", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{",
    "RBRACE": "}", "COMMA": ",", "DOT": ".", "VBAR": "|", "QMARK": "?", "$END": "the end",
}  # fmt: skip
# What can begin a value, and what can follow one: many tokens that read better as one phrase.
_VALUE = {"NAME", "INT", "FLOAT", "STRING", "_TRUE", "LPAR"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "DIVISION", "POWER"}
_CLAUSES = {
    "_WHERE", "_WITHIN", "_WINDOW", "_PARTITION", "_STRATEGY", "_SELECT", "_CONSUME", "_LIMIT", "_AFTER", "_WEIGHT",
    "_RETURN",
}  # fmt: skip

_KEYWORDS = {key.lstrip("_") for key in _CLAUSES} | {"AND", "OR"}


def explain(error: UnexpectedInput, source: Source) -> ParseError:
    """Turn lark's error into one with a place, what was found and what was expected."""
    if isinstance(error, UnexpectedToken):
        token = error.token
        expected = set(error.accepts or error.expected)
        if token.type == "$END":
            return source.error(f"the text ends too early{_expected(expected)}", source.end())
        return source.error(
            f"unexpected {_found(token)}{_expected(expected)}{_hint(token, expected, source)}", span_of(token)
        )
    assert isinstance(error, UnexpectedCharacters)
    at = error.pos_in_stream or 0
    span = Span(at, at + 1, error.line, error.column)
    character = source.text[at : at + 1]
    if character in "'\"":
        return source.error(f"a text that opens with {character} is not closed; add the closing {character}", span)
    return source.error(f"unexpected {character!r}{_expected(set(error.allowed or ()))}{_slip(character)}", span)


def _found(token: Token) -> str:
    return f"keyword {str(token).upper()}" if token.type.startswith("_") else repr(str(token))


def _expected(names: set[str]) -> str:
    phrases: list[str] = []
    rest = set(names)
    if rest >= _VALUE:
        phrases.append("a value or condition")
        rest -= _VALUE | {"QUOTED", "DURATION", "_FALSE", "_NULL", "MINUS", "LSQB", "_NOT"}
    if rest >= _OPERATORS:
        if "EQUAL" in rest:
            phrases.append("a comparison")
            rest -= {"EQUAL", "COMPARISON", "_IN", "_NOT", "_BETWEEN"}
        phrases.append("an operator")
        rest -= _OPERATORS
    if rest >= {"_AND", "_OR"} and "_SEQ" not in rest:
        phrases.append("AND or OR")
        rest -= {"_AND", "_OR"}
    clauses = rest >= _CLAUSES
    if clauses:
        rest -= _CLAUSES
    if "NAME" in rest:
        phrases.append("a name")
    punctuation = sorted(word for key in rest - {"NAME"} if (word := _WORDS.get(key)))
    phrases += [word if word[0].isalpha() else f"'{word}'" for word in punctuation]
    phrases += sorted(key.lstrip("_") for key in rest if key.startswith("_"))
    if clauses:
        phrases.append("the next clause (WHERE, WITHIN, PARTITION BY, RETURN, …)")
    if not phrases:
        return ""
    return f"; expected {phrases[0] if len(phrases) == 1 else ', '.join(phrases[:-1]) + ' or ' + phrases[-1]}"


def _hint(token: Token, expected: set[str], source: Source) -> str:
    if "_SEQ" in expected and token.type == "NAME" and "NAME" not in expected:
        return "; a pattern of one event is SEQ(A a)"
    if token.type in ("EQUAL", "COMPARISON") and not expected & {"EQUAL", "COMPARISON"} and "_AND" in expected:
        return "; comparisons do not chain: write a < b AND b < c"
    before = re.findall(r"\w+", source.text[: token.start_pos])[-1:]
    if before and expected == {"LPAR"}:
        return f'; as a name, write "{before[0]}" in double quotes'
    if before and before[0].upper() in _KEYWORDS and "DOT" in expected:
        # Where a value is due every word is a name, so a forgotten value shows only behind the next keyword.
        return f"; is something missing before {before[0].upper()}?"
    if token.type == "NAME":
        words = sorted(key.lstrip("_") for key in expected if key.startswith("_"))
        close = suggest(str(token), words)
        return close if "did you mean" in close else ""
    return ""


def _slip(character: str) -> str:
    slips = {"!": "; write != or NOT", "&": "; write AND", ";": "; queries are not separated by ;"}
    return slips.get(character, "")
