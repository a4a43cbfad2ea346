"""Readable messages for the parser's errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from fastcep.errors import ParseError, shortened
from fastcep.query.ast import CONSUMPTIONS, SELECTIONS, STRATEGIES, Span
from fastcep.query.parsing.foreign_words import foreign_hint
from fastcep.query.parsing.slips import character_slip, token_slip
from fastcep.query.parsing.tree import span_of
from fastcep.query.source import Source, suggest

__all__ = ["explain"]

_WORDS = {
    "NAME": "a name", "QUOTED": None, "INT": "a whole number", "FLOAT": "a number", "STRING": "a text in single quotes",
    "DURATION": "a duration such as 5min", "COMPARISON": "a comparison", "EQUAL": "=", "PLUS": "+", "MINUS": "-",
    "STAR": "*", "DIVISION": "/", "POWER": "^", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{",
    "RBRACE": "}", "COMMA": ",", "DOT": ".", "RANGE": "..", "VBAR": "|", "QMARK": "?", "$END": "the end",
}  # fmt: skip
# Tokens that can begin a value or follow one; a message names them by one phrase.
_VALUE = {"NAME", "INT", "FLOAT", "STRING", "_TRUE", "LPAR"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "DIVISION", "POWER"}
_CLAUSES = {
    "_WHERE", "_WITHIN", "_WINDOW", "_PARTITION", "_STRATEGY", "_SELECT", "_CONSUME", "_LIMIT", "_AFTER", "_WEIGHT",
    "_RETURN",
}  # fmt: skip

_KEYWORDS = {key.lstrip("_") for key in _CLAUSES} | {"AND", "OR", "CLOSE"}
_PATTERNS = ("SEQ", "AND", "OR", "ANY", "APERIODIC", "PERIODIC")
# Names that other languages use for the operators.
_SYNONYMS = {
    "SEQUENCE": "SEQ", "FOLLOWS": "SEQ", "ALL": "AND", "BOTH": "AND", "EITHER": "OR", "ONE": "OR", "SOME": "ANY",
    "NOT": "NEG", "NO": "NEG", "NEGATION": "NEG", "NEGATE": "NEG", "WITHOUT": "NEG", "EXCEPT": "NEG",
}  # fmt: skip
# Words that other languages use for overlapping or consecutive windows.
_WINDOW_WORDS = {
    "SLIDE", "SLIDING", "TUMBLE", "TUMBLING", "HOP", "HOPPING", "ADVANCE", "STEP", "SESSION", "EVERY", "OPEN", "CLOSE",
}  # fmt: skip
_CHOICES = {*STRATEGIES, *SELECTIONS, *CONSUMPTIONS}
_SKIP_WORDS = {"_MATCH", "_NO", "_SKIP", "_TO", "_NEXT", "_PAST", "_FIRST", "_LAST"}
_WINDOW_FORMS = "WINDOW EVERY 1min CLOSE AFTER 5min, or WINDOW OPEN ON A o CLOSE ON B c"
_WORD_FORMS = {
    "STRATEGY": f"the strategies are {', '.join(STRATEGIES)}",
    "SELECT": f"SELECT is {', '.join(SELECTIONS)}; for output columns write RETURN a.v",
    "CONSUME": f"CONSUME is {' or '.join(CONSUMPTIONS)}",
}
_CLOSE_FORMS = "CLOSE AFTER 5min, CLOSE AFTER 100 EVENTS or CLOSE ON B c"
_THREE_PARTS = {"APERIODIC": "APERIODIC(A a, B b, C c)", "PERIODIC": "PERIODIC(A a, 5min, C c)"}
_QUANTIFIERS = {"PLUS", "STAR", "QMARK", "LBRACE"}
_BOUNDS = "; a quantifier is {3}, {2,4}, {2,} or {,4}"


def explain(error: UnexpectedInput, source: Source, accepted: Iterable[str] = ()) -> ParseError:
    """Convert lark's error into a ParseError with the position, the token found and the tokens expected.

    Parameters
    ----------
    error, source
        The error, and the text that was parsed.
    accepted
        For a character that begins no token: the types of tokens that could follow the text before it.
    """
    if isinstance(error, UnexpectedToken):
        token = error.token
        expected = set(error.accepts or error.expected)
        if token.type == "$END":
            hint = _clause_hint(token, expected, source.text) or token_slip(_end(source), expected, source.text)
            return source.error(f"the text ends too early{_expected(expected)}{hint}", source.end())
        hint = _hint(token, expected, source) or token_slip(token, expected, source.text)
        return source.error(f"unexpected {_token_text(token)}{_expected(expected)}{hint}", span_of(token))
    assert isinstance(error, UnexpectedCharacters)
    offset = error.pos_in_stream or 0
    span = Span(offset, offset + 1, error.line, error.column)
    character = source.text[offset : offset + 1]
    if character in "'\"":
        return source.error(f"a text that starts with {character} is not closed; add the closing {character}", span)
    allowed = set(accepted or error.allowed or ())
    before, after = source.text[:offset], source.text[offset + 1 :]
    hint = foreign_hint(before, character + after)
    hint = hint or (_BOUNDS if _in_bounds(before) else character_slip(character, allowed, before, after))
    return source.error(f"unexpected {character!r}{_expected(allowed)}{hint}", span)


def _end(source: Source) -> Token:
    end = source.end()
    return Token("$END", "", end.start, end.line, end.column, end_pos=end.end)


def _token_text(token: Token) -> str:
    return f"keyword {str(token).upper()}" if token.type.startswith("_") else repr(shortened(str(token)))


def _expected(names: set[str]) -> str:
    phrases: list[str] = []
    remaining = set(names)
    if remaining >= _VALUE:
        phrases.append("a value or condition")
        remaining -= _VALUE | {"QUOTED", "DURATION", "TIMESTAMP", "_FALSE", "_NULL", "_CASE", "MINUS", "LSQB", "_NOT"}
    if remaining >= _OPERATORS:
        if "EQUAL" in remaining:
            phrases.append("a comparison")
            remaining -= {"EQUAL", "COMPARISON", "_IN", "_NOT", "_BETWEEN", "_IS", "_LIKE"}
        phrases.append("an operator")
        remaining -= _OPERATORS
    if remaining >= {"_AND", "_OR"} and "_SEQ" not in remaining:
        phrases.append("AND or OR")
        remaining -= {"_AND", "_OR"}
    clauses = remaining >= _CLAUSES
    if clauses:
        remaining -= _CLAUSES
    if "NAME" in remaining:
        phrases.append("a name")
    if "FLOAT" in remaining:
        remaining.discard("INT")
    punctuation = sorted(word for key in remaining - {"NAME"} if (word := _WORDS.get(key)))
    phrases += [word if word[0].isalpha() else f"'{word}'" for word in punctuation]
    phrases += sorted(key.lstrip("_") for key in remaining if key.startswith("_"))
    if clauses:
        phrases.append("the next clause (WHERE, WITHIN, PARTITION BY, RETURN, …)")
    if not phrases:
        return ""
    return f"; expected {phrases[0] if len(phrases) == 1 else ', '.join(phrases[:-1]) + ' or ' + phrases[-1]}"


def _hint(token: Token, expected: set[str], source: Source) -> str:
    hint = foreign_hint(source.text[: token.start_pos], source.text[token.start_pos :])
    if hint:
        return hint
    hint = _pattern_hint(token, expected, source)
    if hint:
        return hint
    if token.type in ("EQUAL", "COMPARISON") and not expected & {"EQUAL", "COMPARISON"} and "_AND" in expected:
        return "; comparisons do not chain: write a < b AND b < c"
    hint = _clause_hint(token, expected, source.text[: token.start_pos])
    if hint:
        return hint
    before = re.findall(r"\w+", source.text[: token.start_pos])[-1:]
    if before and expected == {"LPAR"}:
        name = before[0]
        prefix = f"write {name.upper()}(…), or as" if name.upper() in _PATTERNS else "as"
        return f'; {prefix} a name, write "{name}" in double quotes'
    if before and before[0].upper() in _KEYWORDS and "DOT" in expected:
        # Where a value is expected every word is a name, so a missing value shows only after the next keyword.
        if (percent := token_slip(token, expected, source.text)) and "%" in percent:
            return percent
        return f"; add a value or condition before {before[0].upper()}"
    if token.type == "NAME":
        words = sorted(key.lstrip("_") for key in expected if key.startswith("_"))
        close = suggest(str(token), words)
        return close if "did you mean" in close else ""
    return ""


def _clause_hint(token: Token, expected: set[str], before: str) -> str:
    """Return a hint on the clauses from WITHIN to RETURN; empty if there is none."""
    word, expected = str(token).upper(), expected - {"QUOTED"}
    if not expected:
        return ""
    if expected == {"_EVENTS"} and token.type != "DOT":
        return "; a time needs a unit: ns, us, ms, s, min, h or d, as in 5min"
    is_sql = word in ("ROW", "ROWS", "EVENT") and re.search(r"\b(NEXT|LAST)\s*$", before, re.IGNORECASE)
    if is_sql or expected <= _SKIP_WORDS or (word == "SKIP" and expected >= _CLAUSES):
        return "; write AFTER MATCH SKIP TO NEXT, SKIP PAST LAST, SKIP TO FIRST x, SKIP TO LAST x or NO SKIP"
    if expected in ({"_PER"}, {"_WINDOW"}):
        return "; write LIMIT 3 PER WINDOW"
    if expected <= {"_OPEN", "_EVERY", "_ON"}:
        return f"; as in {_WINDOW_FORMS}"
    if expected <= {"_AFTER", "_ON"}:
        return f"; as in {_CLOSE_FORMS}"
    # Where a name is expected every word is one, so a missing name shows only after the next keyword.
    next_keyword = "" if expected == {"NAME"} else rf"\s+({'|'.join(sorted(_KEYWORDS - {'AND', 'OR'}))})"
    if re.search(rf"\b(OPEN|CLOSE)\s+ON\s+(\w+|\([^()]*\)){next_keyword}\s*$", before, re.IGNORECASE):
        union = token.type == "VBAR"
        return f"; write {'several types as OPEN ON (A|B) o' if union else 'one event, as in OPEN ON A o'}"
    if "_CLOSE" in expected:
        return _close_hint(token, before)
    choices = re.findall(r"\b(STRATEGY|SELECT|CONSUME)\b\s*(\w*)\s*$", before, re.IGNORECASE)
    clause, chosen = choices[0] if choices else ("", "")
    if clause and expected == {"NAME"}:
        return f"; {_WORD_FORMS[clause.upper()]}"
    if not expected >= _CLAUSES:
        return ""
    if clause.upper() == "SELECT" and token.type == "INT":
        return "; to limit the matches of a window write LIMIT 3 PER WINDOW"
    if clause and (token.type in ("DOT", "COMMA", "LPAR") or chosen.lower() not in _CHOICES):
        return f"; {_WORD_FORMS[clause.upper()]}"
    if word in _WINDOW_WORDS:
        return f"; did you mean {_WINDOW_FORMS}?"
    return "; did you mean PARTITION BY?" if word == "GROUP" else ""


def _close_hint(token: Token, before: str) -> str:
    """Return a hint for a place where CLOSE is expected."""
    if re.search(r"\bCLOSE\s*$", before, re.IGNORECASE):
        return "; add a value or condition before CLOSE"
    if token.type in {*_CLAUSES, "$END"}:
        return f"; a window also needs an end, as in {_CLOSE_FORMS}"
    if token.type in ("LSQB", *_QUANTIFIERS):
        return "; write one event, as in OPEN ON A o"
    return "; write its conditions after WHERE" if token.type == "_AND" else ""


def _pattern_hint(token: Token, expected: set[str], source: Source) -> str:
    """Return a hint for a token that does not fit into a pattern; empty if there is none."""
    before = source.text[: token.start_pos]
    if _in_bounds(before):
        return _BOUNDS
    operator, inside = _open_operator(before)
    kind, expected = token.type, expected - {"QUOTED"}
    opens = source.text[token.end_pos :].startswith("(")
    words = re.findall(r"\w+", before)[-2:]
    negates = bool(words) and (words[0].upper() == "NEG" or words[-1].upper() == "NEG")
    if "_SEQ" in expected and "NAME" not in expected:
        if kind == "LPAR":
            return "; a group is a part of a pattern, as in SEQ((SEQ(A a, B b))+ g[])"
        operator_name = _operator_for(str(token))
        if operator_name == "NEG":
            return "; NEG is a part of SEQ, as in SEQ(A a, NEG N n)"
        if operator_name and opens:
            return f"; did you mean {operator_name}?"
        infix = re.match(r"\s+\w+\s+(AND|OR)\b", source.text[token.end_pos :], re.IGNORECASE)
        return f"; write {infix[1].upper()}(A a, B b)" if infix else "; one event is written SEQ(A a)"
    if operator == "ANY" and (kind == "_DISTINCT" or re.search(r"\bDISTINCT\b", inside, re.IGNORECASE)):
        return "; write DISTINCT and one attribute after the variable, as in ANY(3, T x[] DISTINCT a)"
    if operator == "ANY" and expected == {"INT"}:
        return "; write the number of events, as in ANY(2, A a, B b, C c)"
    if operator in _THREE_PARTS and (kind, expected) in (("RPAR", {"COMMA"}), ("COMMA", {"RPAR"})):
        return f"; it needs three parts, as in {_THREE_PARTS[operator]}"
    if expected == {"RPAR", "VBAR"} and kind == "COMMA":
        return "; several types are written (A|B)"
    if expected == {"RPAR", "VBAR"} and kind == "NAME":
        if re.search(r"\bNEG\s*\([\w\s|]*$", before, re.IGNORECASE):
            return "; write NEG N n, or NEG (M|N) n for several types"
        return "; a group is written (SEQ(A a, B b))+ g[]"
    if expected == {"NAME"} and re.search(r"\)\s*([+*?]|\{[\d\s,]*\})\s*$", before):
        return "; a group needs a name, as in (SEQ(A a, B b))+ g[]"
    if expected == {"NAME"} and negates and kind in ("COMMA", "RPAR"):
        return f"; NEG needs a type and a variable, as in NEG {words[-1]} n"
    if expected == {"NAME"} and negates and kind in {"LPAR", *_QUANTIFIERS}:
        return "; NEG takes one event, as in NEG N n; write conditions on n in WHERE, or several NEG in a row"
    if expected == _QUANTIFIERS:
        return "; a group needs a quantifier, as in (SEQ(A a, B b))+ g[]"
    if expected == {"NAME", *_QUANTIFIERS}:
        return _variable_hint(kind, words[-1:], operator)
    if expected <= {"RPAR", "COMMA"} and kind in _QUANTIFIERS and before.rstrip().endswith(")"):
        return "; a repeating pattern is written (SEQ(A a, B b))+ g[]"
    if operator in _PATTERNS and "RPAR" in expected and kind in _CLAUSES:
        return f"; the bracket of {operator}( is not closed: add ) before {str(token).upper()}"
    if ("_CONSECUTIVE" in expected or expected <= {"RPAR", "COMMA"}) and kind in ("_AND", "_OR"):
        return f"; in a pattern write {kind[1:]}(A a, B b)"
    if words and words[-1].upper() == "CONSECUTIVE" and (kind == "NAME" or kind in _QUANTIFIERS):
        return "; write CONSECUTIVE after the variable, as in B+ b[] CONSECUTIVE"
    if "_CONSECUTIVE" in expected and kind == "_NEXT" and re.match(r"\s*[,)]", source.text[token.end_pos :]):
        return f"; write NEXT before the part, as in NEXT {' '.join(words)}"
    if "_CONSECUTIVE" in expected and kind == "_NEXT":
        return "; is a comma missing?"
    if operator == "ANY" and kind == "_CONSECUTIVE":
        return "; ANY binds its events in any order; for consecutive events write SEQ(A{3} a[] CONSECUTIVE)"
    if "_CONSECUTIVE" in expected and kind == "MINUS":
        return "; a sequence is written SEQ(A a, B b)"
    if "_CONSECUTIVE" in expected and kind == "NAME":
        negation = len(words) == 2 and _operator_for(words[0]) == "NEG"
        return f"; did you mean NEG {words[1]} {token}?" if negation else "; is a comma missing?"
    return ""


def _in_bounds(before: str) -> bool:
    """Return whether the text ends inside a quantifier, rather than in the set of an IN."""
    return re.search(r"(?<!\bin)(?<!\s)\s*\{[\d\s,]*$", before, re.IGNORECASE) is not None


def _variable_hint(kind: str, words: list[str], operator: str) -> str:
    """Return a hint for a token after the type of a variable."""
    word = words[0] if words else "A"
    if kind in ("COMMA", "RPAR"):
        return f"; a variable needs a type and a name, as in {word} x"
    if kind == "VBAR":
        return "; write several types in parentheses, as in (A|B) x"
    if kind != "LPAR":
        return ""
    if operator == "ANY":
        return "; ANY lists types and variables, as in ANY(2, A a, B b, C c)"
    operator_name = _operator_for(word)
    if operator_name:
        return f"; did you mean {operator_name}?"
    return f"; the operators are {', '.join((*_PATTERNS[:4], 'NEG'))}, …"


def _open_operator(before: str) -> tuple[str, str]:
    """Return the word before the innermost open bracket, in capitals, and the text after the bracket."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[index], 0)
        if depth < 0:
            return (re.findall(r"(\w*)\s*$", before[:index]) or [""])[0].upper(), before[index + 1 :]
    return "", ""


def _operator_for(word: str) -> str:
    """Return the operator that a word probably means; empty if no operator is similar."""
    synonym = _SYNONYMS.get(word.upper())
    return synonym or next(iter(difflib.get_close_matches(word.upper(), [*_PATTERNS, "NEG"], 1)), "")
