"""Where a row of an input stands, for messages."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TextFile", "at_row"]


class TextFile(str):
    """The name of a text file whose rows are told with their lines, too.

    Attributes
    ----------
    line_of
        Gives the line on which a row begins, counted from 1 as editors do.
    """

    __slots__ = ("line_of",)

    line_of: Callable[[int], int]


def at_row(origin: str, row: int) -> str:
    """Return how messages begin that are about a row: ``trips.csv, line 19, row 17``."""
    line = f"line {origin.line_of(row)}, " if isinstance(origin, TextFile) else ""
    return f"{origin}, {line}row {row}"
