# cython: language_level=3
"""Times that events have waited, added to a series of latencies in one pass. See `_Series` in overload/latency.py."""
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    int __builtin_clzll(uint64_t) nogil


def add_waits(
    const int64_t[:] arrivals, int64_t now, double bound, double[::1] ring, int64_t place, int64_t[::1] histogram,
    int bits, int64_t longest,
):
    """Add the time from each arrival to ``now`` to a ring and a histogram; an arrival after ``now`` counts as 0.

    Parameters
    ----------
    arrivals
        int64[n] in ns.
    now
        Time in ns.
    bound
        Times above it are counted, in ns.
    ring
        Ring of the most recent times in ns, from ``place`` on: float64[size].
    place
        Place of the first time in the ring.
    histogram
        Counts of the times in picoseconds, as in `Histogram`, which has 2^``bits`` places between two powers of two.
    bits, longest
        See ``histogram``; longer times count as ``longest``.

    Returns
    -------
    tuple
        Sum of the times, the longest time, and the number of times above the bound.
    """
    cdef int64_t i, n = arrivals.shape[0], size = ring.shape[0], wait, value, low = 0, high = 0, most = 0, over = 0
    cdef int shift
    cdef int last_shift = max(63 - bits - __builtin_clzll(<uint64_t>longest | 1), 0)
    assert 0 <= place < size and 0 < longest and 0 < bits < 32
    assert (<int64_t>last_shift << bits) + (longest >> last_shift) < histogram.shape[0]
    with nogil:
        for i in range(n):
            wait = max(now - arrivals[i], <int64_t>0)
            low += wait & 0x7FFFFFFF
            high += wait >> 31
            most = max(most, wait)
            over += wait > bound
            ring[place] = <double>wait
            place += 1
            if place == size:
                place = 0
            value = longest if wait >= longest // 1000 else wait * 1000
            shift = max(63 - bits - __builtin_clzll(<uint64_t>value | 1), 0)
            histogram[(<int64_t>shift << bits) + (value >> shift)] += 1
    return (int(high) << 31) + low, most, over
