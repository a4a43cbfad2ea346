"""Matches as an HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Protocol

__all__ = ["matches_table"]

_ROWS = 10
_LONGEST = 80  #: characters of a cell


class _Matches(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: slice) -> list[Any]: ...
    def counts(self) -> dict[str, int]: ...


def matches_table(matches: _Matches) -> str:
    """Return a table of the first matches, with a line that has the numbers of matches."""
    rows: list[Mapping[str, Any]] = matches[:_ROWS]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if all(row["window_id"] is None for row in rows) and rows:
        names.remove("window_id")
    counts = ", ".join(f"{escape(name)}: {count:,}" for name, count in matches.counts().items()) or "no queries"
    shown = f"; the first {len(rows)}" if len(rows) < len(matches) else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in names)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div><p>{len(matches):,} matches ({counts}){shown}</p>{table}</div>"


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 2] + " …"
    return f"<td>{escape(text)}</td>"
