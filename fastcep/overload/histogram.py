"""HDR histogram of latencies, with vectorised insertion."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcep.errors import SnapshotError

__all__ = ["BITS", "LONGEST", "Histogram"]

#: Longest latency that is distinguished from longer ones, in picoseconds: an hour.
LONGEST = 3_600 * 10**12

BITS = 10  # 2**10 buckets between two powers of two give 3 digits
_PLACES = (LONGEST.bit_length() - BITS + 1) << BITS

Ints = npt.NDArray[np.int64]


class Histogram:
    """Histogram of latencies from 0 to an hour, to three digits, in a constant 0.35 MB.

    A value longer than an hour counts as an hour. The buckets and percentiles are those of an HDR histogram
    (hdrhistogram.org), without the library, which takes a microsecond per value and installs build tools.

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
        """Return percentiles in picoseconds: the largest value of their bucket, to three digits; 0 without values."""
        cumulative = np.cumsum(self.counts)
        total = int(cumulative[-1])
        if not total:
            return [0.0] * len(percents)
        ranks = np.clip((np.asarray(percents) * total / 100 + 0.5).astype(np.int64), 1, total)
        places = np.searchsorted(cumulative, ranks)
        shift = np.maximum((places >> BITS) - 1, 0)
        largest = ((places - (shift << BITS) + 1) << shift) - 1
        return [float(value) for value in largest]

    def encoded(self) -> str:
        """Return all counts as text: base64 of zlib of the places of buckets that are not empty, and their counts."""
        places = np.flatnonzero(self.counts)
        data = np.stack([places, self.counts[places]]).astype("<i8").tobytes()
        return base64.b64encode(zlib.compress(data)).decode("ascii")

    @classmethod
    def decoded(cls, text: str) -> Histogram:
        """Read a text that `encoded` returned.

        Raises
        ------
        SnapshotError
            If the text is invalid.
        """
        histogram = cls()
        try:
            decoder = zlib.decompressobj()
            unpacked = decoder.decompress(base64.b64decode(text, validate=True), 16 * _PLACES)
            if not decoder.eof:
                raise ValueError("it is incomplete, or has too many buckets")
            places, counts = np.frombuffer(unpacked, dtype="<i8").reshape(2, -1)
            if (np.diff(places) <= 0).any() or (len(places) and not 0 <= places[0] <= places[-1] < _PLACES):
                raise ValueError("its buckets are not in order")
            if (counts <= 0).any():
                raise ValueError("it has a bucket without values")
        except (ValueError, zlib.error) as error:
            raise SnapshotError(f"the state of a latency monitor has a damaged histogram ({error})") from None
        histogram.counts[places] = counts
        return histogram
