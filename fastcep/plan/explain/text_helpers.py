"""Texts that several formats share, and functions that escape, clip and wrap text."""

from __future__ import annotations

import unicodedata
from typing import Any

from fastcep.query.ast import AFTER_MATCH, CONSUMPTIONS, SELECTIONS, STRATEGIES
from fastcep.query.printer import bounds_text, name_text

__all__ = [
    "binding", "clip", "columns", "edge_lines", "notes", "operator_notes", "place", "shown", "state_lines",
    "strategy_text", "title", "type_text", "wrap",
]  # fmt: skip

_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def shown(text: str) -> str:
    r"""Return the text on one line, with characters that do not print or change direction as ``\n``, ``\x1b`` …

    A name can then not end its line, control a terminal or be invalid in XML.
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
    """Return the width of a text in columns of a fixed-width font."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, most: int, start: int = 0) -> int:
    """Return the end of the longest part of the text from ``start`` that is at most ``most`` columns wide."""
    for end in range(start, len(text)):
        most -= _width(text[end])
        if most < 0:
            return end
    return len(text)


def clip(text: str, most: int) -> str:
    """Return the text, or its beginning with an ellipsis, in at most ``most`` columns."""
    return text if _fitting(text, most) == len(text) else text[: _fitting(text, most - 1)] + "…"


def wrap(line: str, most: int) -> list[str]:
    """Split a line into lines of at most ``most`` columns, at spaces if possible; later lines are indented further."""
    out: list[str] = []
    indent, start = "", 0
    continuation = " " * min(len(line) - len(line.lstrip(" ")) + 4, most // 2)
    while (end := _fitting(line, most - len(indent), start)) < len(line):
        first = start
        while not indent and line[first : first + 1] == " ":  # leading spaces of the line
            first += 1
        end = max(end, start + 1)
        space = line.rfind(" ", first, end)
        cut = space if space > first else end
        out.append(indent + line[start:cut])
        indent, start = continuation, cut
        while line[start : start + 1] == " ":
            start += 1
    return [*out, indent + line[start:]]


def type_text(variable: dict[str, Any]) -> str:
    """Return types and quantifier of a variable: ``A|B ?``, ``B {2,4}``."""
    text = "|".join(map(name_text, variable["types"]))
    if not variable["repeated"]:
        return text if variable["minimum"] else f"{text} ?"
    return f"{text} {bounds_text(variable['minimum'], variable['maximum'])}"


def place(facts: dict[str, Any], state: int | None) -> str:
    """Return the name of a state, or ``start``."""
    if state is None:
        return "start"
    entry: dict[str, Any] = facts["states"][state]
    return entry["name"] if "name" in entry else name_text(entry["variable"])


def title(facts: dict[str, Any], state: dict[str, Any]) -> tuple[str, str]:
    """Return the name of a state, and types and quantifier if it is named after a variable."""
    name, last = place(facts, state["number"]), _last_variables(facts, state)
    return name, type_text(last[0]) if name == _name(facts, last[0]["name"]) else ""


def binding(facts: dict[str, Any], edge: dict[str, Any]) -> str:
    """Return the variable that an edge binds; empty if every state is named after its variable."""
    if "variable" not in edge:
        return ""
    text = f"binds {_name(facts, edge['variable'])}: {type_text(_variable(facts, edge['variable']))}"
    if edge["again"]:
        text += ", again"
    text = text if edge["round"] is None else f"{text}, {edge['round']} round"
    return f"{text}, a copy stays" if edge.get("keeps") else text


def _variable(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(variable for variable in facts["variables"] if variable["name"] == name)


def _name(facts: dict[str, Any], name: str) -> str:
    group = _variable(facts, name).get("group")
    if group is None:
        return name_text(name)
    return f"{name_text(group)}.{name_text(name[len(group) + 1 :], anywhere=True)}"


def _names(facts: dict[str, Any], names: list[str]) -> str:
    return ", ".join(_name(facts, name) for name in names)


def _last_variables(facts: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variables that can be bound last in a state."""
    into = [edge for edge in facts["edges"] if edge["target"] == state["number"]]
    names = dict.fromkeys(edge.get("variable", state["variable"]) for edge in into)
    return [_variable(facts, name) for name in names]


def for_all_text(entry: dict[str, Any]) -> str:
    """Return the text of a for-all condition."""
    guard = "" if entry["guard"] is None else f" if {entry['guard']}"
    elements = {"all": "all elements", "earlier": "all earlier elements"}
    return f"for {elements[entry.get('reach', 'all')]}{guard}: {entry['condition']}"


def absence_text(facts: dict[str, Any], entry: dict[str, Any]) -> str:
    """Return the text of a check that no event of a negated variable occurred."""
    after, before = _names(facts, entry["after"]), _names(facts, entry["before"])
    text = f"no {_name(facts, entry['variable'])}"
    if entry["until"]:
        text += f" since {after or f'the first element of {before}'} and before the newest element of {before}"
    elif after and before:
        text += f" between {after} and {before}"
    else:
        text += f" before {before}" if before else f" after {after}"
    if entry["rounds"] is not None:
        text += {"all": " in any round", "latest": " in the latest round"}[entry["rounds"]]
    if entry["guard"] is not None:
        text += f" if {entry['guard']}"
    conditions = [] if entry["condition"] is None else [entry["condition"]]
    for walk in entry["for_all"]:
        guard = "" if walk["guard"] is None else f"({walk['guard']}) IMPLIES "
        round_condition = guard + walk["condition"]  # in a group i is the round
        conditions.append(for_all_text(walk) if entry["rounds"] is None else round_condition)
    return f"{text} where {' AND '.join(conditions)}" if conditions else text


def edge_lines(facts: dict[str, Any], edge: dict[str, Any]) -> list[str]:
    """Return the conditions of an edge, one per line."""
    return [
        *(f"{key['row']} = {key['event']}" for key in edge["keys"]),
        *edge["predicates"],
        *map(for_all_text, edge["for_all"]),
        *(absence_text(facts, entry) for entry in edge.get("absences", [])),
    ]


def state_lines(facts: dict[str, Any], state: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a state, as pairs of a heading and a text."""
    lines = []
    last = _last_variables(facts, state)
    for variable in last:
        if variable["conditions"]:
            heading = "event" if len(last) == 1 else f"event {_name(facts, variable['name'])}"
            lines.append((heading, " AND ".join(variable["conditions"])))
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
    accept += [absence_text(facts, entry) for entry in state.get("accept_absences", [])]
    if accept:
        lines.append(("accepts", "; ".join(accept)))
    if state.get("waits"):
        until = "the end of the window"
        if facts["period"] is not None:
            until = f"the ticks every {facts['period']['text']} up to {until}"
        until = state.get("waits_until", until)
        absences = "; ".join(absence_text(facts, entry) for entry in state["end_absences"])
        is_longest = facts["strategy"]["select"] == "longest"
        lines.append(("waits", "until no longer match can come" if is_longest else f"for {until}: {absences}"))
    return lines


def strategy_text(facts: dict[str, Any]) -> str:
    """Return strategy, selection and consumption, and the other policies that differ from the default."""
    entry = facts["strategy"]
    parts = [entry["strategy"], f"select {entry['select']}", f"consume {entry['consume']}"]
    if entry["limit"] is not None:
        parts.append(f"limit {entry['limit']} per window")
    if entry["after_match"] != AFTER_MATCH[0]:
        target = "" if entry["skip_to"] is None else f" {entry['skip_to']}"
        parts.append(f"after match {entry['after_match']}{target}")
    if entry["weight"] != 1:
        parts.append(f"weight {entry['weight']:g}")
    return ", ".join(parts)


_DEFAULT = f"{STRATEGIES[0]}, select {SELECTIONS[0]}, consume {CONSUMPTIONS[0]}"


def notes(facts: dict[str, Any], *, full: bool = False) -> list[tuple[str, str]]:
    """Return the notes beside a picture: windows and strategy if they are not the default, and operators."""
    lines, windows = [], facts["windows"]
    if "opens" in windows:
        lines.append(("windows", f"{windows['mode']}: {windows['why']}"))
    if strategy_text(facts) != _DEFAULT:
        lines.append(("strategy", strategy_text(facts)))
    return lines + operator_notes(facts, full=full)


def operator_notes(facts: dict[str, Any], *, full: bool = False) -> list[tuple[str, str]]:
    """Return notes on explicit windows and on the operators of a pattern, as pairs of a heading and a text.

    Set ``full`` if states and edges do not show the checks of negated variables.
    """
    lines, windows = [], facts["windows"]
    if "opens" in windows:
        lines += [("opens", _opens_text(windows["opens"])), ("closes", _closes_text(windows["closes"]))]
    for group in facts.get("groups", []):
        name = name_text(group["name"]) + ("[]" if group["repeated"] else "")
        quantifier = bounds_text(group["minimum"], group["maximum"]) if group["repeated"] else "?"
        rounds = "rounds of " if group["repeated"] else ""
        lines.append(("group", f"{name} {quantifier}: {rounds}{_names(facts, group['variables'])}"))
    for negation in facts.get("negations", []):
        checks = _absences(facts, negation["variable"]) if full else []
        lines.append(("negated", "; ".join([_negation_text(facts, negation), *checks])))
    for names in facts.get("sets", []):
        rule = "of several matches of the same events only the first in birth order counts"
        lines.append(("any", f"{_names(facts, names)}: {rule}"))
    if facts.get("period") is not None:
        lines.append(("periodic", f"a match every {facts['period']['text']} after the last event"))
    if "contiguity" in facts:
        lines.append(("contiguity", _contiguity_text(facts["contiguity"])))
    return lines


def _opens_text(entry: dict[str, Any]) -> str:
    if entry["kind"] == "event":
        return f"a window at each {_event_text(entry)}"
    if entry["kind"] == "events":
        return f"a window every {entry['text']}"
    return f"a window at the first event of every {entry['text']}"


def _closes_text(entry: dict[str, Any]) -> str:
    if entry["kind"] == "time":
        return f"{entry['text']} after the event that opened it"
    if entry["kind"] == "events":
        return f"with the last of {entry['text']}, counted from the event that opened it"
    if not entry["keys"] and not entry["predicates"]:
        return f"all windows, at each {_event_text(entry)}"
    parts = [f"at the first later {_event_text(entry)}"]
    if entry["keys"]:
        parts.append("looked up by " + ", ".join(f"{key['row']} = {key['event']}" for key in entry["keys"]))
    if entry["predicates"]:
        parts.append(f"where {' AND '.join(entry['predicates'])}")
    return "; ".join(parts)


def _event_text(entry: dict[str, Any]) -> str:
    text = f"{'|'.join(map(name_text, entry['types']))} {name_text(entry['variable'])}"
    return f"{text} with {' AND '.join(entry['conditions'])}" if entry["conditions"] else text


def _contiguity_text(entry: dict[str, Any]) -> str:
    where = "the stream" if entry["in"] == "stream" else f"its partition by {', '.join(map(name_text, entry['by']))}"
    outside = f"; in no partition: {', '.join(map(name_text, entry['outside']))}" if entry["outside"] else ""
    return f"previous(x) is the event right before x in {where}{outside}"


def _absences(facts: dict[str, Any], variable: str) -> list[str]:
    """Return the texts of the checks of a negated variable, without duplicates."""
    return list(dict.fromkeys(absence_text(facts, entry) for entry in _absence_entries(facts, variable)))


def _absence_entries(facts: dict[str, Any], variable: str) -> list[dict[str, Any]]:
    parts = [edge["absences"] for edge in facts["edges"]]
    parts += [state[key] for state in facts["states"] for key in ("accept_absences", "end_absences")]
    return [entry for entries in parts for entry in entries if entry["variable"] == variable]


def _negation_text(facts: dict[str, Any], negation: dict[str, Any]) -> str:
    name = negation["variable"]
    variable = _variable(facts, name)
    parts = [f"{_name(facts, name)}: {type_text(variable)}"]
    if variable["conditions"]:
        parts.append(f"event {' AND '.join(variable['conditions'])}")
    parts.append(f"hash on ({', '.join(negation['keys'])})" if negation["keys"] else "one bucket")
    if negation["registers"]:
        parts.append(f"registers {', '.join(negation['registers'])}")
    kept = {"window": "for the window's length", "first event": "as long as there is an older first event"}
    parts.append(f"kept {kept[negation['kept']]}")
    places: dict[str, list[str]] = {}
    for check in negation["checks"]:
        if check["at"] == "edge":
            where = f"{place(facts, check['source'])} -> {place(facts, check['target'])}"
            places.setdefault("checked on", []).append(where)
        else:
            headings = {"accept": "where a match ends", "end": "at the window's end", "silence": "after the silence"}
            heading = f"checked {headings[check['at']]} in"
            places.setdefault(heading, []).append(place(facts, check["state"]))
    parts += [f"{heading} {', '.join(dict.fromkeys(where))}" for heading, where in places.items()]
    parts += [f"does not end the loop {loop}, as UNTIL would" for loop in _loops_beside(facts, name)]
    return "; ".join(parts)


def _loops_beside(facts: dict[str, Any], variable: str) -> list[str]:
    """Return the loops right before or after a negated variable that it does not end."""
    groups = {group["name"] for group in facts.get("groups", []) if group["repeated"]}
    loops: dict[str, None] = {}
    for entry in _absence_entries(facts, variable):
        for name in (*entry["after"][-1:], *entry["before"][:1]):
            neighbour = _variable(facts, name)
            if entry["until"]:
                continue
            if neighbour["repeated"]:
                loops[_name(facts, name)] = None
            elif neighbour.get("group") in groups and entry["rounds"] is None:
                loops[name_text(neighbour["group"])] = None
    return list(loops)
