"""Words that several formats share, and text made safe to show, clipped and wrapped."""

from __future__ import annotations

import unicodedata
from typing import Any

from fastcep.query.printer import name_text

__all__ = ["clip", "columns", "edge_lines", "for_all_text", "place", "shown", "state_lines", "type_text", "wrap"]

_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def shown(text: str) -> str:
    r"""The text on one line; what does not print, or would turn the direction, is shown as ``\n``, ``\x1b`` …

    No name can then break out of its line, steer a terminal or be illegal in XML.
    """
    if text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _escape(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many columns of a fixed-width font the text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clip(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis, in at most ``most`` columns."""
    if columns(text) <= most:
        return text
    kept = ""
    for character in text:
        if columns(kept + character) >= most:
            break
        kept += character
    return kept + "…"


def wrap(line: str, most: int) -> list[str]:
    """A line as several of at most ``most`` columns, the later ones indented more; broken at spaces where it can be."""
    out: list[str] = []
    indent = " " * min(len(line) - len(line.lstrip(" ")) + 4, most // 2)
    while columns(line) > most:
        cut = at = 0
        for at, character in enumerate(line):
            if columns(line[: at + 1]) > most:
                break
            if character == " " and line[:at].strip():
                cut = at
        cut = cut or max(at, 1)
        out.append(line[:cut])
        line = indent + line[cut:].lstrip(" ")
    return [*out, line]


def type_text(variable: dict[str, Any]) -> str:
    """Types and quantifier of a variable: ``A|B ?``, ``B {2,4}``."""
    low, high = variable["minimum"], variable["maximum"]
    text = "|".join(map(name_text, variable["types"]))
    if not variable["repeated"]:
        return text if low else f"{text} ?"
    if high is None:
        return f"{text} " + {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return f"{text} {{{low},{high}}}"


def place(facts: dict[str, Any], state: int | None) -> str:
    """The name of a state: its variable's, or ``start``."""
    return "start" if state is None else name_text(facts["variables"][state]["name"])


def for_all_text(entry: dict[str, Any]) -> str:
    """A for-all condition."""
    guard = "" if entry["guard"] is None else f" if {entry['guard']}"
    return f"for all elements{guard}: {entry['condition']}"


def edge_lines(edge: dict[str, Any]) -> list[str]:
    """What an edge asks for, one condition a line."""
    return [
        *(f"{key['row']} = {key['event']}" for key in edge["keys"]),
        *edge["predicates"],
        *map(for_all_text, edge["for_all"]),
    ]


def state_lines(facts: dict[str, Any], state: dict[str, Any]) -> list[tuple[str, str]]:
    """What a state has, as pairs of a heading and a text."""
    lines = []
    conditions = facts["variables"][state["number"]]["conditions"]
    if conditions:
        lines.append(("event", " AND ".join(conditions)))
    if state["registers"]:
        lines.append(("registers", ", ".join(state["registers"])))
    for number in state["indexes"]:
        index = facts["indexes"][number]
        parts = [f"hash on ({', '.join(index['keys'])})" if index["keys"] else "one bucket"]
        if index["guard"] is not None:
            parts.append(f"rows with {index['guard']}")
        parts += map(for_all_text, index["for_all"])
        lines.append((f"index {number}", "; ".join(parts)))
    if state["birth"]["numbered"]:
        lines.append(("births", "numbered: " + "; ".join(state["birth"]["why"])))
    accept = [] if state["accept_guard"] is None else [f"if {state['accept_guard']}"]
    accept += map(for_all_text, state["accept_for_all"])
    if accept:
        lines.append(("accepts", "; ".join(accept)))
    return lines
