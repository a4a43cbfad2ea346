"""Tables of the offsets of time zones, for programs (`zone_offset` in text_entry.pxd)."""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.plan.calendar import Zone

__all__ = ["zone_table"]

#: Distance of the samples between which one change is searched: in the time zone database, every two changes of a zone
#: are further apart.
_STEP = timedelta(days=3)
_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=64)
def zone_table(zone: Zone) -> npt.NDArray[np.int64]:
    """Return the number of intervals of constant offset, their starts and their offsets, as int64[1 + 2 n] in ns.

    The starts are UTC times, or local times if the zone is read by local time. A local time that the clocks show twice
    has the offset of the first; a local time that they skip has the offset before the change.
    """
    info: Any = zoneinfo.ZoneInfo(zone.name)  # typed as tzinfo, fromutc may return a datetime of any kind
    epoch = datetime(1970, 1, 1, tzinfo=info)  # its fields are UTC for fromutc

    def offset(utc: datetime) -> Any:
        return info.fromutc(utc).utcoffset()

    moment = epoch + (INT64_MIN // 10**9 + 86400) * _SECOND
    last = epoch + INT64_MAX // 10**9 * _SECOND
    starts, offsets = [INT64_MIN], [offset(moment)]
    while moment < last:
        end = min(moment + _STEP, last)
        if (changed := offset(end)) != offsets[-1]:
            low, high = moment, end  # the offset changes after low, and not after high
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
            shift = max(offsets[-1], changed) if zone.by_local_time else timedelta()
            starts.append((high - epoch + shift) // _SECOND * 10**9)
            offsets.append(changed)
        moment = end
    return np.array([len(starts), *starts, *(shift // _SECOND * 10**9 for shift in offsets)], np.int64)
