"""Hints for slips in a query text: a sign too many, a sign of another notation, a missing word."""

from __future__ import annotations

import re

from lark import Token

__all__ = ["character_slip", "token_slip"]

_VALUES = {"INT", "FLOAT", "STRING"}
_ENDINGS = {"RPAR", "COMMA"}
_START = "a query begins with PATTERN, as in PATTERN SEQ(A a, B b) WITHIN 5min"
_QUOTES = "«»‘’“”„´`"
_OTHER_SIGNS = {
    "&": "AND", "!": "!= or NOT", "≤": "<=", "≥": ">=", "≠": "!=", "×": "*", "·": "*", "−": "-", "–": "-", "∧": "AND",
    "∨": "OR",
}  # fmt: skip


def token_slip(token: Token, expected: set[str], text: str) -> str:
    """Return a hint, which begins with a semicolon, for a token that is not expected; empty if there is none.

    Parameters
    ----------
    token
        The token, or the end of the text.
    expected
        Types of the tokens that are expected.
    text
        The whole text.
    """
    before, after = text[: token.start_pos], text[token.end_pos :]
    hint = (
        _start_slip(token, expected, text)
        or _clause_slip(token, expected, before, after)
        or _bracket_slip(token, expected, before)
        or _pattern_slip(token, expected, before, after)
        or _value_slip(token, expected, before, after)
    )
    return f"; {hint}" if hint else ""


def character_slip(character: str, expected: set[str], before: str, after: str) -> str:
    """Return a hint, which begins with a semicolon, for a character that begins no token; empty if there is none."""
    if character == "!" and "_NEG" in expected:
        return "; write NEG N n for an event that must not occur"
    if character == ";":
        is_part = "_CONSECUTIVE" in expected
        return "; parts are separated by ," if is_part else "; remove it, because queries are not separated by ;"
    if character in _QUOTES:
        return "; write a text in straight quotes, as in 'text'"
    if character in _OTHER_SIGNS:
        return f"; write {_OTHER_SIGNS[character]}"
    if character in "$€£¥":
        return "; write the number without a currency sign"
    if character == ":" and re.search(r"\(\s*\w+\s*$|,\s*\w+\s*$", before) and re.match(r"\s*\w+", after):
        return f"; remove it, as in {_last_word(before)} {_first_word(after)}"
    return ""


def _start_slip(token: Token, expected: set[str], text: str) -> str:
    if not expected >= {"_PATTERN", "_QUERY"}:
        if token.type == "_PATTERN" and {"_EVENT", "_QUERY"} <= expected and "_WHERE" not in expected:
            return "write QUERY and a name before PATTERN, as in QUERY q PATTERN SEQ(A a) WITHIN 5min"
        return ""
    if token.type in ("_EVENT", "_STREAM"):
        return "this text is a document; read it with fastcep.parse_document"
    if token.type == "$END":
        return f"{'the text is empty; ' if not text.strip() else ''}{_START}"
    return _START if token.type.startswith("_") else ""


def _clause_slip(token: Token, expected: set[str], before: str, after: str) -> str:
    if token.type == "_PATTERN" and "_WHERE" in expected:
        return "a text for parse has one query; write several as a document, each with QUERY and a name"
    if expected == {"_BY"}:
        return "write PARTITION BY" + (f" {token}" if token.type == "NAME" else " and an attribute")
    if (
        token.type == "DOT"
        and (name := re.match(r"\w+", after))
        and re.search(r"\bBY\s+\w+\s*$", before, re.IGNORECASE)
    ):
        return f"write the attribute without a variable, as in PARTITION BY {name[0]}"
    if token.type == "MINUS" and expected <= {"INT", "FLOAT"}:
        return "write a number above 0, as in WEIGHT 2"
    if token.type == "MINUS" and "_UNBOUNDED" in expected:
        return "a window cannot be negative; remove the -"
    if re.search(r"\bRETURN\s*$", before, re.IGNORECASE):
        return "write the output columns, as in RETURN x.attribute AS name"
    if token.type in ("NAME", "INT") and {"STRING", "INT"} >= expected >= {"STRING"}:
        return f"write it in single quotes: '{token}'"
    if token.type == "DOT" and expected == {"_EVENTS"}:
        return (
            "write a whole number of events, as in 3 EVENTS" if re.match(r"\d+\s+EVENTS", after, re.IGNORECASE) else ""
        )
    return ""


def _bracket_slip(token: Token, expected: set[str], before: str) -> str:
    if token.type == "RPAR" and "RPAR" not in expected and before.count(")") >= before.count("("):
        return "remove it, because it closes no bracket"
    if token.type == "RPAR" and before.rstrip().endswith(","):
        return "remove the comma before it"
    if token.type == "RPAR" and re.search(r"\b(SEQ|AND|OR)\s*\(\s*$", before, re.IGNORECASE):
        return "name the events, as in SEQ(A a, B b)"
    if "RPAR" in expected and (token.type == "$END" or token.type.startswith("_")):
        place = "at the end" if token.type == "$END" else f"before {str(token).upper()}"
        return f"a bracket ( is not closed: add ) {place}"
    return ""


def _pattern_slip(token: Token, expected: set[str], before: str, after: str) -> str:
    if token.type in ("INT", "FLOAT", "DURATION") and "NAME" in expected and not expected & _VALUES:
        return "a name begins with a letter; write a number after it, as in x1"
    if token.type in ("PLUS", "STAR", "QMARK", "LBRACE") and "_CONSECUTIVE" in expected and before[-1:].isalnum():
        kind = re.search(r"(\w+)\s+\w+\s*$", before)
        example = f"{kind[1] if kind else 'A'}+ {_last_word(before)}[]"
        return f"write the quantifier after the type, as in {example}"
    if expected == {"DURATION"} and re.search(r"\bPERIODIC\s*\(", before, re.IGNORECASE):
        return "the second part is the time between two ticks, as in PERIODIC(A a, 5min, C c)"
    return ""


def _value_slip(token: Token, expected: set[str], before: str, after: str) -> str:
    kind, following = token.type, after[:1]
    if kind == "COMMA" and re.search(r"\d$", before) and following.isdigit():
        whole, decimals = re.findall(r"\d+$", before)[0], re.findall(r"^\d+", after)[0]
        return f"write a decimal point: {whole}.{decimals}"
    if kind == "COMMA" and "_AND" in expected and re.search(r"\bBETWEEN\b[^,]*$", before, re.IGNORECASE):
        return "write AND between the bounds, as in BETWEEN 1 AND 9"
    if kind == "COMMA" and "_WHERE" in expected and re.search(r"\bWHERE\b", before, re.IGNORECASE):
        return "write AND between conditions"
    if kind == "NAME" and str(token).startswith("_") and before[-1:].isdigit():
        digits = re.findall(r"\d+$", before)[0] + str(token).replace("_", "")
        return f"write the number without separators: {digits}"
    if kind == "NAME" and before.endswith("'"):
        return "write an apostrophe inside a text twice, as in 'it''s'"
    if kind == "VBAR" and "_OR" in expected:
        return "write OR"
    if kind == "COMPARISON" and re.search(r"=$", before):
        return f"write {token}="
    if kind == "STAR" and before.endswith("*"):
        return "write ^ for a power"
    if kind == "DOT" and before.endswith("."):
        return "remove one of the dots"
    if expected == {"LBRACE"}:
        return "write the values in braces, as in IN {1, 2}"
    if kind == "RBRACE" and before.rstrip().endswith("{"):
        return "write at least one value, as in IN {1, 2}"
    if re.search(r"\d\s*%\s*(AND|OR|[A-Z]+)\s*$", before):
        return "% is the remainder of a division; write 10% as 0.1"
    if expected >= _VALUES and (kind == "$END" or kind in _ENDINGS):
        return "add a value or condition"
    return ""


def _first_word(text: str) -> str:
    words: list[str] = re.findall(r"\w+", text)
    return words[0] if words else "x"


def _last_word(text: str) -> str:
    words: list[str] = re.findall(r"\w+", text)
    return words[-1] if words else "x"
