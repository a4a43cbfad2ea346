"""Position of a row in an input, for messages."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TextFile", "at_row"]


class TextFile(str):
    """Name of a text file, for messages that name the line of a row too.

    Attributes
    ----------
    line_of
        Returns the line on which a row begins, counted from 1 as in an editor.
    """

    __slots__ = ("line_of",)

    line_of: Callable[[int], int]


def at_row(origin: str, row: int) -> str:
    """Return the beginning of a message about a row: ``trips.csv, line 19, row 17``."""
    line = f"line {origin.line_of(row)}, " if isinstance(origin, TextFile) else ""
    return f"{origin}, {line}row {row}"
