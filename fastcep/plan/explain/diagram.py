"""Write plans in two diagram languages: Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastcep.plan.explain.text_helpers import binding, edge_lines, notes, shown, state_lines, title
from fastcep.query.printer import name_text

__all__ = ["dot", "mermaid"]

# Mermaid ends a string at a quote, and interprets tags, Markdown, entities and directives even inside strings.
_MERMAID = {ord(c): f"#{ord(c)};" for c in '"<>&#;`%{}\\'}


def mermaid(queries: Sequence[dict[str, Any]]) -> str:
    """Return a Mermaid flowchart with one subgraph per query."""
    lines = ["flowchart LR"]
    for number, facts in enumerate(queries):
        lines += [f'  subgraph q{number}["{_mermaid(_title(facts))}"]', "    direction LR"]
        for node, labels, accepts in _nodes(facts, number):
            opening, closing = ("[[", "]]") if accepts else ("[", "]")
            lines.append(f'    {node}{opening}"{"<br/>".join(map(_mermaid, labels))}"{closing}')
        if notes(facts):
            lines.append(f'    q{number}notes["{"<br/>".join(map(_mermaid, _notes(facts)))}"]')
        for source, target, labels in _edges(facts, number):
            label = f'|"{"<br/>".join(map(_mermaid, labels))}"|' if labels else ""
            lines.append(f"    {source} -->{label} {target}")
        lines.append("  end")
    return "\n".join(lines)


def dot(queries: Sequence[dict[str, Any]]) -> str:
    """Return a Graphviz graph with one cluster per query."""
    lines = ["digraph fastcep {", "  rankdir=LR;", '  node [shape=box, fontname="monospace"];']
    lines.append('  edge [fontname="monospace"];')
    for number, facts in enumerate(queries):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot([_title(facts)])};"]
        for node, labels, accepts in _nodes(facts, number):
            lines.append(f"    {node} [label={_dot(labels)}{', peripheries=2' if accepts else ''}];")
        if notes(facts):
            lines.append(f"    q{number}notes [shape=note, label={_dot(_notes(facts))}];")
        for source, target, labels in _edges(facts, number):
            lines.append(f"    {source} -> {target}{f' [label={_dot(labels)}]' if labels else ''};")
        lines.append("  }")
    return "\n".join([*lines, "}"])


def _title(facts: dict[str, Any]) -> str:
    return f"query {name_text(facts['name'], anywhere=True)}, {facts['window']['text']}"


def _nodes(facts: dict[str, Any], number: int) -> Iterator[tuple[str, list[str], bool]]:
    yield f"q{number}start", ["start"], False
    for state in facts["states"]:
        labels = [": ".join(filter(None, title(facts, state)))]
        labels += [f"{heading}: {line}" for heading, line in state_lines(facts, state)]
        yield f"q{number}s{state['number']}", labels, state["accepts"]


def _notes(facts: dict[str, Any]) -> list[str]:
    return [f"{heading} {line}" for heading, line in notes(facts)]


def _edges(facts: dict[str, Any], number: int) -> Iterator[tuple[str, str, list[str]]]:
    for edge in facts["edges"]:
        source = "start" if edge["source"] is None else f"s{edge['source']}"
        labels = edge_lines(facts, edge)
        if edge["index"] is not None:
            labels.insert(0, f"probe index {edge['index']}")
        if binding(facts, edge):
            labels.insert(0, binding(facts, edge))
        yield f"q{number}{source}", f"q{number}s{edge['target']}", labels


def _mermaid(line: str) -> str:
    text = shown(line).translate(_MERMAID)
    # Mermaid does not decode entities after these words and a colon.
    return text.replace("style", "#115;tyle").replace("classDef", "#99;lassDef")


def _dot(lines: Sequence[str]) -> str:
    """Return a quoted string with entities and backslashes escaped for Graphviz."""
    escaped = (shown(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
