"""An HDR histogram of latencies, to which whole blocks of values are added."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import SnapshotError

__all__ = ["LONGEST", "Histogram"]

#: The longest latency that is told from longer ones, in picoseconds: an hour.
LONGEST = 3_600 * 10**12

_DIGITS = 3
_BITS = 10  # a value between two powers of two falls into one of 2**10 buckets, so that it is known to 3 digits
_PLACES = (LONGEST.bit_length() - _BITS + 1) << _BITS

Ints = npt.NDArray[np.int64]


class Histogram:
    """How often each latency came, to three digits, from 0 to an hour, in 0.35 MB whatever comes.

    A value longer than an hour is counted as one of an hour. The buckets are those of an HDR histogram; they are filled
    here, as the library takes a microsecond per value, and given to the library when something is asked.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_PLACES, dtype=np.int64)

    @property
    def count(self) -> int:
        """How many values were counted."""
        return int(self._counts.sum())

    def add(self, picoseconds: Ints) -> None:
        """Count values, int64[n], none negative."""
        values = np.minimum(picoseconds, LONGEST)
        bits = np.frexp(values.astype(np.float64))[1]  # exact, as an hour is below 2**53
        shift = np.maximum(bits - (_BITS + 1), 0)
        np.add.at(self._counts, (shift << _BITS) + (values >> shift), 1)

    def add_same(self, picoseconds: int, times: int) -> None:
        """Count one value so many times."""
        value = min(picoseconds, LONGEST)
        shift = max(value.bit_length() - (_BITS + 1), 0)
        self._counts[(shift << _BITS) + (value >> shift)] += times

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """The value in picoseconds that so many percent of all do not exceed, to three digits; 0 before the first."""
        library = self._library()
        if not library.get_total_count():
            return [0.0] * len(percents)
        found = library.get_percentile_to_value_dict(list(percents))
        return [float(found[percent]) for percent in percents]

    def encoded(self) -> str:
        """All counts as text: base64 of the format that HDR histograms share."""
        return str(self._library().encode().decode("ascii"))

    @classmethod
    def decoded(cls, text: str) -> Histogram:
        """Read what `encoded` gave.

        Raises
        ------
        SnapshotError
            If it is something else.
        """
        from hdrh.codec import HdrCookieException, HdrLengthException

        library, found = _empty(), cls()
        try:
            library.decode_and_add(text.encode("ascii"))
        except (HdrCookieException, HdrLengthException, IndexError, ValueError, binascii.Error, zlib.error) as error:
            raise SnapshotError(f"the state of a latency monitor has a damaged histogram ({error})") from None
        found._counts[:] = library.counts[:_PLACES]
        return found

    def _library(self) -> Any:
        """The library's histogram with these counts."""
        library = _empty()
        places = np.flatnonzero(self._counts)
        shift = np.maximum((places >> _BITS) - 1, 0)
        values = (places - (shift << _BITS)) << shift
        for value, count in zip(values.tolist(), self._counts[places].tolist(), strict=True):
            library.record_value(value, count)
        return library


def _empty() -> Any:
    from hdrh.histogram import HdrHistogram  # here, as it takes 5 ms to import

    return HdrHistogram(1, LONGEST, _DIGITS)
