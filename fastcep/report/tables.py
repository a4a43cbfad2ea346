"""Tables for the terminal (rich)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from fastcep.events.types import TIMESTAMP

__all__ = ["format_value", "matches_table", "paths_table"]

_LONGEST_LIST = 8


def format_value(value: Any) -> str:
    """Format a value of a match: null as ``-``, times as ISO text, long lists shortened."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list):
        entries = [format_value(entry) for entry in value[:_LONGEST_LIST]]
        if len(value) > _LONGEST_LIST:
            entries.append(f"… {len(value) - _LONGEST_LIST} more")
        return "[" + ", ".join(entries) + "]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _texts(column: Any) -> list[str]:
    if column.type == TIMESTAMP:
        return [format_value(_time_text(value)) for value in column.cast(pa.int64()).to_pylist()]
    if column.type == pa.large_list(TIMESTAMP):
        lists = column.cast(pa.large_list(pa.int64())).to_pylist()
        return [format_value(times and list(map(_time_text, times))) for times in lists]
    return [format_value(value) for value in column.to_pylist()]


def _time_text(nanoseconds: int | None) -> str | None:
    if nanoseconds is None:
        return None
    seconds, fraction = divmod(nanoseconds, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return str(nanoseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{fraction:09d}".rstrip("0") if fraction else "")


def matches_table(matches: pa.Table, title: str | None = None) -> Table:
    """Return a table of matches.

    Parameters
    ----------
    matches
        Result of ``Matches.to_arrow()``, sliced to the rows to show. Columns that contain only nulls are left out.
    title
        Text above the table, or None.
    """
    table = Table(title=title, title_justify="left")
    columns: list[list[str]] = []
    for name, column in zip(matches.column_names, matches.columns, strict=True):
        if column.null_count == len(column):
            continue
        table.add_column(name, overflow="fold")
        columns.append(_texts(column.cast(TIMESTAMP) if name == "detected_at" else column))
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(cell) for cell in row))  # Text: do not interpret brackets in data as markup
    return table


def paths_table(paths: Iterable[tuple[int, Sequence[str]]], title: str) -> Table:
    """Return a table of paths, given as ``(number of matches, names of the stations in order)``."""
    table = Table(title=title, title_justify="left")
    table.add_column("matches", justify="right")
    table.add_column("path", overflow="fold")
    for count, stations in paths:
        table.add_row(f"{count:,}", Text(" → ".join(stations)))
    return table
