"""HDR histogram of latencies, with vectorised insertion."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import SnapshotError

__all__ = ["BITS", "LONGEST", "Histogram"]

#: Longest latency that is distinguished from longer ones, in picoseconds: an hour.
LONGEST = 3_600 * 10**12

_DIGITS = 3
BITS = 10  # 2**10 buckets between two powers of two give 3 digits
_PLACES = (LONGEST.bit_length() - BITS + 1) << BITS

Ints = npt.NDArray[np.int64]


class Histogram:
    """Histogram of latencies from 0 to an hour, to three digits, in a constant 0.35 MB.

    A value longer than an hour counts as an hour. The buckets are those of an HDR histogram. This class fills them
    itself, because the library takes a microsecond per value, and passes them to the library for queries.

    Attributes
    ----------
    counts
        Number of values in each bucket: int64[places].
    """

    def __init__(self) -> None:
        self.counts = np.zeros(_PLACES, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of values counted."""
        return int(self.counts.sum())

    def add(self, picoseconds: Ints) -> None:
        """Count values, int64[n], each at least 0."""
        values = np.minimum(picoseconds, LONGEST)
        bits = np.frexp(values.astype(np.float64))[1]  # exact, as an hour is below 2**53
        shift = np.maximum(bits - (BITS + 1), 0)
        np.add.at(self.counts, (shift << BITS) + (values >> shift), 1)

    def add_same(self, picoseconds: int, times: int) -> None:
        """Count one value ``times`` times."""
        value = min(picoseconds, LONGEST)
        shift = max(value.bit_length() - (BITS + 1), 0)
        self.counts[(shift << BITS) + (value >> shift)] += times

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """Return percentiles in picoseconds, to three digits; 0 before the first value."""
        library = self._library()
        if not library.get_total_count():
            return [0.0] * len(percents)
        values = library.get_percentile_to_value_dict(list(percents))
        return [float(values[percent]) for percent in percents]

    def encoded(self) -> str:
        """Return all counts as text, in the base64 format that HDR histograms share."""
        return str(self._library().encode().decode("ascii"))

    @classmethod
    def decoded(cls, text: str) -> Histogram:
        """Read a text that `encoded` returned.

        Raises
        ------
        SnapshotError
            If the text is invalid.
        """
        from hdrh.codec import HdrCookieException, HdrLengthException

        library, histogram = _empty(), cls()
        try:
            library.decode_and_add(text.encode("ascii"))
        except (HdrCookieException, HdrLengthException, IndexError, ValueError, binascii.Error, zlib.error) as error:
            raise SnapshotError(f"the state of a latency monitor has a damaged histogram ({error})") from None
        histogram.counts[:] = library.counts[:_PLACES]
        return histogram

    def _library(self) -> Any:
        """Return the library's histogram with these counts."""
        library = _empty()
        places = np.flatnonzero(self.counts)
        shift = np.maximum((places >> BITS) - 1, 0)
        values = (places - (shift << BITS)) << shift
        for value, count in zip(values.tolist(), self.counts[places].tolist(), strict=True):
            library.record_value(value, count)
        return library


def _empty() -> Any:
    from hdrh.histogram import HdrHistogram  # imported here, as it takes 5 ms

    return HdrHistogram(1, LONGEST, _DIGITS)
