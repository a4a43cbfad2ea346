"""Write a plan as readable text."""

from __future__ import annotations

from typing import Any

from fastcep.plan.explain.text_helpers import (
    binding,
    edge_lines,
    operator_notes,
    place,
    shown,
    state_lines,
    strategy_text,
    title,
)
from fastcep.plan.slicing import slicing_text
from fastcep.query.printer import name_text

__all__ = ["text"]

_STORES = {
    "rows": "rows, one contiguous bucket per key",
    "factorised": "factorised, events are kept and matches are enumerated when the last event arrives",
}
_INDEXES = {"full": "", "key": "; keys of plain attributes only", "off": "; no keys but those of contiguity"}


def text(facts: dict[str, Any]) -> str:
    """Return the query, then facts on windows, rows and events, then each state with the edges that lead to it."""
    lines = [f"query {name_text(facts['name'], anywhere=True)}"]
    lines += ["  " + line for line in facts["text"].rstrip("\n").split("\n")]
    lines += [f"{heading:<12}{line}" for heading, line in _general(facts)]
    for state in facts["states"]:
        name, types = title(facts, state)
        ends = " accepts" if state["accepts"] else ""
        lines.append(f"state {name}{f' ({types})' if types else ''}{ends}")
        lines += [f"  {heading:<9} {line}" for heading, line in state_lines(facts, state)]
        lines += [_edge(facts, edge) for edge in facts["edges"] if edge["target"] == state["number"]]
    return "\n".join(map(shown, lines))


def _general(facts: dict[str, Any]) -> list[tuple[str, str]]:
    window, windows, store = facts["window"], facts["windows"], facts["store"]
    predicates = facts["predicates"]
    out = [
        ("window", f"{window['text']}, expiry {window['expiry']}"),
        ("windows", f"{windows['mode']}: {windows['why']}"),
        ("strategy", strategy_text(facts)),
        ("key", _key_text(facts["key"])),
        ("slices", slicing_text(facts["slices"])),
        *([("threads", _threads_text(facts))] if "threads" in facts else []),
        ("store", f"{_STORES[store['kind']]} ({store['why']}){_INDEXES[store.get('index', 'full')]}"),
        ("predicates", f"{_tier_text(predicates)}; {_tier_text(predicates['until_compiled'])} until they are compiled"),
    ]
    out += [("event ring", f"{entry['column']}: {'; '.join(entry['why'])}") for entry in facts["ring"]]
    out += [("per event", entry["expression"]) for entry in facts["per_event"]]
    return out + operator_notes(facts)


def _key_text(key: dict[str, Any]) -> str:
    if key["attributes"] is None:
        return f"none: {key['why']}"
    return f"{' = '.join(map(name_text, key['attributes']))} in all variables: the state can be split into key groups"


def _threads_text(facts: dict[str, Any]) -> str:
    total, parts = facts["threads"]["given"], facts["threads"]["parts"]
    if parts == 1:
        return f"one of {total} matches the whole query: {facts['key']['why']}"
    return f"{parts}, each with some of the keys"


def _edge(facts: dict[str, Any], edge: dict[str, Any]) -> str:
    parts = [f"  from {place(facts, edge['source'])}"]
    keys = len(edge["keys"])
    conditions = edge_lines(facts, edge)
    if binding(facts, edge):
        parts.append(binding(facts, edge))
    if edge["index"] is not None:
        parts.append(f"probe index {edge['index']}" + (f": {', '.join(conditions[:keys])}" if keys else ", every row"))
    predicates = len(edge["predicates"])
    if predicates:
        parts.append(f"where {' AND '.join(conditions[keys : keys + predicates])}")
    return "; ".join([*parts, *conditions[keys + predicates :]])


def _tier_text(evaluator: dict[str, Any]) -> str:
    return f"{evaluator['kind']} (tier {evaluator['tier']})"
