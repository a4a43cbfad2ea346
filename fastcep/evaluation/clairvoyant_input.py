"""Build the input of `Clairvoyant` from the lineage of a query: sorted lists and the positions in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.overload.costs import CostTable
from fastcep.shedding.lineage import Lineage

__all__ = ["clairvoyant_of", "first_after"]

Ints = npt.NDArray[np.int64]


def clairvoyant_of(record: Lineage, events: int, table: CostTable) -> Clairvoyant:
    """Return the clairvoyant model of a query.

    Parameters
    ----------
    record
        Lineage of the partial matches of the query.
    events
        Number of events that were observed.
    table
        Cost table of the operations.
    """
    records = len(record.parents)
    order = np.lexsort((record.probed, record.probes))
    names, probed = record.probes[order], record.probed[order]
    by_record = np.argsort(record.placed, kind="stable")
    placed, places = record.placed[by_record], record.places[by_record]
    begin, until = np.searchsorted(names, places, "left"), np.searchsorted(names, places, "right")
    matched = np.zeros(records, np.uint8)
    matched[record.matches] = 1
    by_event = np.argsort(probed, kind="stable")
    return Clairvoyant(
        record.parents,
        record.events,
        matched,
        np.searchsorted(placed, np.arange(records + 1)),
        first_after(probed, begin, until, record.events[placed]),
        until,
        probed,
        np.searchsorted(probed[by_event], np.arange(events + 1)),
        by_event,
        table.picoseconds()[:6],
    )


def first_after(ascending: Ints, begin: Ints, until: Ints, values: Ints) -> Ints:
    """Return in each range the first position with a value greater than `values`, or the end of the range.

    This is a binary search in all ranges at once.

    Parameters
    ----------
    ascending
        int64[k], ascending within each range.
    begin, until
        int64[n] each: bounds of the ranges.
    values
        int64[n]: values to compare with.
    """
    low, high = begin.copy(), until.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        go_right = open_ & (ascending[np.minimum(middle, len(ascending) - 1)] <= values)
        low = np.where(go_right, middle + 1, low)
        high = np.where(open_ & ~go_right, middle, high)
    return low
