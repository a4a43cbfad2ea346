"""From the record of a query to `Clairvoyant`: the lists sorted, and their places found."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.overload.costs import CostTable
from fastcep.shedding.lineage import Lineage

__all__ = ["first_behind", "foresight_of"]

Ints = npt.NDArray[np.int64]


def foresight_of(record: Lineage, events: int, table: CostTable) -> Clairvoyant:
    """What could have been dropped of a query that was observed over so many events, by the prices of a cost table."""
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
        first_behind(probed, begin, until, record.events[placed]),
        until,
        probed,
        np.searchsorted(probed[by_event], np.arange(events + 1)),
        by_event,
        table.picoseconds()[:6],
    )


def first_behind(ascending: Ints, begin: Ints, until: Ints, values: Ints) -> Ints:
    """In each range the first place that holds more than a value, or its end; by halving, for all at once."""
    low, high = begin.copy(), until.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        more = open_ & (ascending[np.minimum(middle, len(ascending) - 1)] <= values)
        low = np.where(more, middle + 1, low)
        high = np.where(open_ & ~more, middle, high)
    return low
