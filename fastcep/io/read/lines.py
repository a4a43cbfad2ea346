"""Line numbers of the rows of a CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Lines", "line_ends"]

Ints = npt.NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13


class _QuoteFinder(Protocol):
    def quotes(self, data: bytes) -> Ints:
        """Return the positions where quotes open, close, open, …."""
        ...


def line_ends(data: bytes) -> Ints:
    """Return the positions of line ends: line feeds, and carriage returns that no line feed follows."""
    text = np.frombuffer(data, np.uint8)
    if b"\r" not in data:
        return np.flatnonzero(text == _NEWLINE)
    return np.flatnonzero((text == _NEWLINE) | ((text == _RETURN) & (np.append(text[1:], 0) != _NEWLINE)))


@dataclass(frozen=True, slots=True)
class Lines:
    """Line numbers of the rows in a block of CSV, computed on demand.

    Attributes
    ----------
    data
        Text of the block, which consists of complete rows.
    first
        Number of its first line in the file.
    cutter
        Finds quotes. A line end inside quotes does not end a row.
    """

    data: bytes
    first: int
    cutter: _QuoteFinder

    def of_rows(self, rows: Ints) -> Ints:
        """Return the lines on which rows begin, given their numbers in the block. Empty lines are not rows."""
        ends = line_ends(self.data)
        outside = ends[np.searchsorted(self.cutter.quotes(self.data), ends) % 2 == 0]
        starts = np.append(0, outside + 1)
        text = self.data + b"\n"
        starts = starts[[text[start] not in (_NEWLINE, _RETURN) for start in starts.tolist()]]
        return self.first + np.searchsorted(ends, starts[np.minimum(rows, len(starts) - 1)])
