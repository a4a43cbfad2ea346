# cython: language_level=3
"""What became of partial matches: contribution and consumption of each, by slices of its window, from a record of all.

The *contribution* of a partial match is the number of complete matches that are later derived from it, its *consumption*
the work that is spent on it and on all that is derived from it (hybrid, section IV-A). The record (see lineage.pyx) tells
which row was looked at by whom: a row is visited by every later probe of its bucket as long as its window stands. Rows come in
the order of their events, so that a cursor per bucket finds the first such probe; children come after their parents, so that
one pass from the end adds up what is derived.

Invariant: the visits of all rows are as many as all probes have found; the contributions of what begins a match add up to the
number of matches that have more than one event.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np


cdef inline int64_t _behind(const int64_t* ascending, int64_t low, int64_t high, int64_t value) noexcept nogil:
    """The first place in a range that holds more than a value, or its end: from the front in growing steps."""
    cdef int64_t step = 1, middle
    while low < high and ascending[low] <= value:
        if low + step < high and ascending[low + step] <= value:
            low += step
            step *= 2
        elif step > 1:
            high = min(high, low + step)
            while low < high:
                middle = low + (high - low) // 2
                if ascending[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            return low
        else:
            return low + 1
    return low


def visits(
    const int64_t[::1] first not None, const int64_t[::1] positions not None, const int32_t[::1] kinds not None,
    const int64_t[::1] placed not None, const int32_t[::1] buckets not None, const int64_t[::1] events not None,
    const int64_t[::1] starts not None, const int64_t[:, ::1] limits not None,
    const int32_t[::1] groups=None, double[:, :, ::1] counts=None, float[:, ::1] spent=None, float price=0.0,
):
    """Find how often each row is looked at in each slice of its window.

    Parameters
    ----------
    first, positions, kinds
        The looks by bucket: int64[buckets + 1], where those of each begin; the events that looked, ascending in each
        bucket, and what kind of event each was.
    placed, buckets
        Per row, in order: its record, and its bucket (-1: nobody looks).
    events, starts
        Per record the positions of its last event and of its first.
    limits
        int64[slices, events]: the last event of each slice of the window that begins with an event.
    groups, counts
        Per record its group; float64[groups, slices, kinds], to which visits are added. None: they are not counted.
    spent, price
        float32[records, slices], to which the price of each visit is added. None: it is not.
    """
    cdef int64_t j, r, at, end, to, i
    cdef int64_t slices = limits.shape[0], s
    cdef const int64_t* looked = NULL
    cdef int64_t[::1] cursor = np.array(first[:-1])
    cdef bint counting = counts is not None, spending = spent is not None
    if positions.shape[0] == 0:
        return
    looked = &positions[0]
    with nogil:
        for j in range(placed.shape[0]):
            if buckets[j] < 0:
                continue
            r = placed[j]
            end = first[buckets[j] + 1]
            at = cursor[buckets[j]]
            while at < end and looked[at] <= events[r]:
                at += 1
            cursor[buckets[j]] = at
            for s in range(slices):
                if limits[s, starts[r]] <= events[r]:
                    continue
                to = _behind(looked, at, end, limits[s, starts[r]])
                if spending:
                    spent[r, s] += price * <float>(to - at)
                if counting:
                    for i in range(at, to):
                        counts[groups[r], s, kinds[i]] += 1
                at = to


def derive(
    const int64_t[::1] parents not None, const int32_t[::1] born not None, const uint8_t[::1] matched not None,
    float[:, ::1] contribution not None, float[:, ::1] consumption not None, float price,
):
    """Add up over all that is derived from each record, in place.

    Parameters
    ----------
    parents, born, matched
        Per record: the one that it extends or -1, the slice of its window in which it is made, whether it is a match.
    contribution
        float32[records, slices]: zeros, that become the matches that come of it.
    consumption
        float32[records, slices]: what is spent on it, that becomes what is spent on all that comes of it as well.
    price
        Of a match.
    """
    cdef int64_t r, p
    cdef Py_ssize_t s, slices = contribution.shape[1]
    with nogil:
        for r in range(parents.shape[0] - 1, -1, -1):
            if matched[r]:
                consumption[r, born[r]] += price
            p = parents[r]
            if p < 0:
                continue
            for s in range(slices):
                contribution[p, s] += contribution[r, s]
                consumption[p, s] += consumption[r, s]
            contribution[p, born[r]] += matched[r]
