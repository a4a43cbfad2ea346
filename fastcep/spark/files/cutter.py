"""Cut Parquet files into slices that begin where row groups begin.

Row groups are *separate* if all times of one are before those of the next. If positions of events count, slices begin
at separate row groups of files in order, so the position of their first event is the number of rows before it.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.plan.slicing import Context
from fastcep.spark.files.row_groups import OrderedFiles, RowGroup
from fastcep.spark.slicing.slices import Slice

__all__ = ["FileSlice", "cut_by_time", "cut_files", "packed"]

#: Share of the stream that may be read twice.
_MAX_REREAD = 0.25


@dataclass(frozen=True)
class FileSlice:
    """Slice of a stream in files.

    Attributes
    ----------
    groups
        Row groups to read, in order.
    bounds
        Matches that the slice owns, and the position of the first event of `groups`.
    begin, end
        Events before the time ``begin`` in ns are not needed, nor those from ``end`` on; None: all are.
    """

    groups: tuple[RowGroup, ...]
    bounds: Slice
    begin: int | None = None
    end: int | None = None


def packed(slices: Sequence[FileSlice]) -> pa.Table:
    """Return a table with the number of each slice and the slice, pickled, so that a task receives only its own."""
    numbers: Any = pa.array(range(len(slices)), pa.int32())
    return pa.table({"number": numbers, "slice": pa.array([pickle.dumps(piece) for piece in slices], pa.binary())})


def cut_files(
    files: OrderedFiles, slice_count: int, least: int, context: Context, most_reread: float = _MAX_REREAD
) -> list[FileSlice] | None:
    """Cut files into slices of about equal size.

    Parameters
    ----------
    files
        Row groups in order.
    slice_count
        Number of slices to aim at.
    least
        Minimum number of slices, if there are enough events.
    context
        Context of a slice before its start.
    most_reread
        Maximum share of the stream that is read twice.

    Returns
    -------
    list of FileSlice or None
        None if there are fewer than `least` slices, or if they would read too much twice.
    """
    groups = files.groups
    places = [0]
    for group in groups:
        places.append(places[-1] + group.rows)
    rows = places.pop()
    separate = [at for at in range(len(groups)) if not at or groups[at - 1].last < groups[at].first]
    starts = _starts(places, separate, rows, slice_count)
    if len(starts) < least:
        return None
    slices, read = [], 0
    for at, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
        begin = groups[at].first - context.nanoseconds if at else None
        from_time = at if begin is None else bisect_left(groups, begin, hi=at, key=_last)
        from_events = bisect_right(places, max(places[at] - context.events, 0)) - 1
        first = separate[bisect_right(separate, min(from_time, from_events)) - 1]
        bounds = Slice(groups[at].first if at else None, groups[stop].first if stop < len(groups) else None,
                       position=places[first])  # fmt: skip
        read += (places[stop] if stop < len(groups) else rows) - places[first]
        slices.append(FileSlice(groups[first:stop], bounds, None if context.events else begin))
    return slices if read <= (1 + most_reread) * rows or len(slices) == 1 else None


def cut_by_time(
    files: OrderedFiles, slice_count: int, least: int, context: Context, most_reread: float = _MAX_REREAD
) -> list[FileSlice] | None:
    """Cut files whose row groups may overlap; parameters and result as for `cut_files`.

    A slice reads the row groups that have times in its range. The context must not be a number of events, and events
    must have sequence numbers.
    """
    groups, rows = files.groups, files.rows
    counts = np.cumsum([group.rows for group in groups])
    latest = np.maximum.accumulate([group.last for group in groups])
    places = np.searchsorted(counts, [rows * part // slice_count for part in range(1, slice_count)], side="right")
    starts = sorted({groups[place].first for place in places.tolist()} - {groups[0].first})
    if len(starts) + 1 < least:
        return None
    slices, read = [], 0
    for start, stop in zip([None, *starts], [*starts, None], strict=True):
        begin = None if start is None else start - context.nanoseconds
        low = 0 if begin is None else int(np.searchsorted(latest, begin))
        high = len(groups) if stop is None else bisect_left(groups, stop, key=_first)
        needed = tuple(group for group in groups[low:high] if begin is None or group.last >= begin)
        read += sum(group.rows for group in needed)
        slices.append(FileSlice(needed, Slice(start, stop), begin, stop))
    return slices if read <= (1 + most_reread) * rows or len(slices) == 1 else None


def _first(group: RowGroup) -> int:
    return group.first


def _last(group: RowGroup) -> int:
    return group.last


def _starts(places: Sequence[int], separate: Sequence[int], rows: int, slice_count: int) -> list[int]:
    """Return the row groups at which slices begin: for each part of equal size the last one that is separate."""
    starts = {0}
    for part in range(1, slice_count):
        at = bisect_right(places, rows * part // slice_count) - 1
        starts.add(separate[bisect_right(separate, at) - 1])
    return sorted(starts)
