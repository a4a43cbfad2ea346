"""Tables for the terminal (rich)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

__all__ = ["format_value", "matches_table", "paths_table"]

_LONGEST_LIST = 8


def format_value(value: Any) -> str:
    """Write one value of a match for people: null as ``-``, times in ISO form, long lists shortened."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list):
        shown = [format_value(entry) for entry in value[:_LONGEST_LIST]]
        if len(value) > _LONGEST_LIST:
            shown.append(f"… {len(value) - _LONGEST_LIST} more")
        return "[" + ", ".join(shown) + "]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return str(nanoseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{rest:09d}".rstrip("0") if rest else "")


def matches_table(matches: pa.Table, title: str | None = None) -> Table:
    """Make a table of matches.

    Parameters
    ----------
    matches
        What ``Matches.to_arrow()`` gives, cut to the rows to show. Columns that are null throughout are left out.
    title
        Text above the table, or None.
    """
    table = Table(title=title, title_justify="left")
    columns: list[list[str]] = []
    for name, column in zip(matches.column_names, matches.columns, strict=True):
        if column.null_count == len(column):
            continue
        if name == "detected_at":
            texts = ["-" if value is None else _time(value) for value in column.cast(pa.int64()).to_pylist()]
        else:
            texts = [format_value(value) for value in column.to_pylist()]
        table.add_column(name, overflow="fold")
        columns.append(texts)
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(cell) for cell in row))  # Text: brackets in data are no markup
    return table


def paths_table(paths: Iterable[tuple[int, Sequence[str]]], title: str) -> Table:
    """Make a table of ``(number of matches, names of the stations in order)``."""
    table = Table(title=title, title_justify="left")
    table.add_column("matches", justify="right")
    table.add_column("path", overflow="fold")
    for count, stations in paths:
        table.add_row(f"{count:,}", Text(" → ".join(stations)))
    return table
