"""Exact counts of events in cells of time, in bounded memory.

A cell is a range of times whose length is a power of two. If there are too many cells with events, the length doubles,
so counts stay exact at the borders of cells, and counts of several tasks add up. Cells without events cost nothing: a
few times far from the others do not make the cells longer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["TimeCounts"]

Ints = npt.NDArray[np.int64]

#: Maximum number of cells with events.
_CELLS = 1 << 14


class TimeCounts:
    """Counts of events in cells of time; times are integers in any unit.

    Attributes
    ----------
    shift
        A cell contains ``2**shift`` times; cell ``n`` begins at ``n << shift``.
    """

    def __init__(self, limit: int = _CELLS) -> None:
        self.shift = 0
        self._limit = max(limit, 2)  # negative and other times never share a cell
        self._cells: list[Ints] = []
        self._counts: list[Ints] = []
        self._pending = 0

    def add(self, times: Ints) -> None:
        """Count events; times in any order."""
        if not len(times):
            return
        cells = times >> self.shift
        if (cells[1:] >= cells[:-1]).all():  # as in most files: no need to sort
            begins = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
            self._append(cells[begins], np.diff(begins, append=len(cells)))
        else:
            cells, counts = np.unique(cells, return_counts=True)
            self._append(cells, counts.astype(np.int64))

    def merge(self, other: TimeCounts) -> None:
        """Add the counts of other events."""
        cells, counts = other.cells()
        shift = max(self.shift, other.shift)
        self._widen(shift)
        if len(cells):
            self._append(cells >> (shift - other.shift), counts)

    def cells(self) -> tuple[Ints, Ints]:
        """Return the cells with events, in ascending order, and the number of events in each."""
        self._compact()
        return (self._cells[0], self._counts[0]) if self._cells else (np.empty(0, np.int64), np.empty(0, np.int64))

    def starts(self) -> list[int]:
        """Return the first time of each cell with events, in ascending order."""
        return [cell << self.shift for cell in self.cells()[0].tolist()]

    def parts(self, number: int) -> list[int]:
        """Return at most `number` - 1 ascending times, starts of cells, that divide the events into equal parts."""
        cells, counts = self.cells()
        if not len(cells):
            return []
        until = np.cumsum(counts)
        ranks = [int(until[-1]) * part // number for part in range(1, number)]
        places = np.unique(np.searchsorted(until, ranks, side="right"))
        return [cell << self.shift for cell in cells[places].tolist()]

    def _append(self, cells: Ints, counts: Ints) -> None:
        self._cells.append(cells)
        self._counts.append(counts)
        self._pending += len(cells)
        if self._pending > 4 * self._limit:
            self._compact()

    def _compact(self) -> None:
        """Add up the counts of each cell, and lengthen the cells until there are few enough."""
        while len(self._cells) > 1 or self._pending > self._limit:
            if len(self._cells) == 1:
                self._widen(self.shift + 1)
            every, each = np.concatenate(self._cells), np.concatenate(self._counts)
            cells, places = np.unique(every, return_inverse=True)
            counts = np.zeros(len(cells), np.int64)
            np.add.at(counts, places, each)
            self._cells, self._counts, self._pending = [cells], [counts], len(cells)

    def _widen(self, shift: int) -> None:
        if shift > self.shift:
            self._cells = [cells >> (shift - self.shift) for cells in self._cells]
            self.shift = shift
            if len(self._cells) == 1:  # neighbours may have become one cell
                self._cells.append(np.empty(0, np.int64))
                self._counts.append(np.empty(0, np.int64))
