"""Tables of the offsets of time zones, for programs (`zone_offset` in text_entry.pxd)."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.events.units import INT64_MAX, INT64_MIN

__all__ = ["zone_table"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Distance of the samples between which one change is searched: no zone has changed its clocks twice in a week.
_STEP = 7 * 86400


@lru_cache(maxsize=64)
def zone_table(name: str) -> npt.NDArray[np.int64]:
    """Return the number of intervals of constant offset, their starts and their offsets, as int64[1 + 2 n] in ns."""
    zone: Any = zoneinfo.ZoneInfo(name)

    def offset(second: int) -> int:
        shift: Any = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
        seconds: int = round(shift / timedelta(seconds=1))
        return seconds

    first, last = INT64_MIN // 10**9 + 86400, INT64_MAX // 10**9
    starts, offsets = [INT64_MIN], [offset(first)]
    for sample in range(first, last, _STEP):
        end = min(sample + _STEP, last)
        if offset(end) == offsets[-1]:
            continue
        low, high = sample, end  # the offset changes after low, and not after high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
        starts.append(high * 10**9)
        offsets.append(offset(end))
    return np.array([len(starts), *starts, *(seconds * 10**9 for seconds in offsets)], np.int64)
