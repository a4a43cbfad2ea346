"""On which lines of a file the rows of CSV stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Lines", "line_ends"]

Ints = npt.NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13


class _Quotes(Protocol):
    def quotes(self, data: bytes) -> Ints:
        """Return where quotes open, close, open, …."""
        ...


def line_ends(data: bytes) -> Ints:
    """Return where lines end: at a line feed, or at a carriage return without one."""
    text = np.frombuffer(data, np.uint8)
    if b"\r" not in data:
        return np.flatnonzero(text == _NEWLINE)
    return np.flatnonzero((text == _NEWLINE) | ((text == _RETURN) & (np.append(text[1:], 0) != _NEWLINE)))


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a block of CSV; looked through when somebody asks.

    Attributes
    ----------
    data
        Whole rows.
    first
        The number of its first line.
    cutter
        Knows where quotes are, inside of which line ends are no ends of rows.
    """

    data: bytes
    first: int
    cutter: _Quotes

    def of(self, rows: Ints) -> Ints:
        """Return the lines on which rows begin, given their numbers in the block; an empty line is no row."""
        ends = line_ends(self.data)
        outside = ends[np.searchsorted(self.cutter.quotes(self.data), ends) % 2 == 0]
        starts = np.append(0, outside + 1)
        text = self.data + b"\n"
        starts = starts[[text[start] not in (_NEWLINE, _RETURN) for start in starts.tolist()]]
        return self.first + np.searchsorted(ends, starts[np.minimum(rows, len(starts) - 1)])
