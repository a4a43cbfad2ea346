# cython: language_level=3
"""Contribution and consumption of partial matches by slice of their window, from the lineage record.

The *contribution* of a partial match is the number of complete matches that are later derived from it. Its
*consumption* is the work for it and for all that is derived from it (hybrid, section IV-A). The record (see
lineage.pyx) has every probe of a bucket; a row is visited by every later probe of its bucket until its window ends.
Rows are in the order of their events, so a cursor per bucket finds the first such probe. Children come after their
parents, so one pass from the end adds up the contributions and consumptions of all descendants.

Invariant: without ``AFTER MATCH``, which discards rows earlier, the visits of all rows are as many as the live rows of
all probes. The contributions of the records without a parent add up to the number of matches that have more than one event.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np


cdef inline int64_t _first_after(const int64_t* ascending, int64_t low, int64_t high, int64_t value) noexcept nogil:
    """Return the first index in ``low:high`` with more than ``value``, or ``high``, by galloping search."""
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
    """Count the visits of each row in each slice of its window.

    Parameters
    ----------
    first
        int64[buckets + 1]: per bucket, the index of its first probe.
    positions
        int64[probes]: position of the event of each probe; probes are grouped by bucket and ascend in each bucket.
    kinds
        int32[probes]: kind of the event of each probe.
    placed
        int64[rows]: record of each row.
    buckets
        int32[rows]: bucket of each row; -1: no event probes it.
    events, starts
        int64[records]: positions of the last event and of the first event of each record.
    limits
        int64[slices, events]: position of the last event in each slice of the window that begins with an event.
    groups
        int32[records]: group of each record.
    counts
        float64[groups, slices, kinds]: the visits are added to it. None: visits are not counted.
    spent
        float32[records, slices]: the price of each visit is added to it. None: prices are not added.
    price
        Price of a visit.
    """
    cdef int64_t j, r, at, end, to, i
    cdef int64_t slices = limits.shape[0], s
    cdef const int64_t* probes = NULL
    cdef int64_t[::1] cursor = np.array(first[:-1])
    cdef bint counting = counts is not None, spending = spent is not None
    if positions.shape[0] == 0:
        return
    probes = &positions[0]
    with nogil:
        for j in range(placed.shape[0]):
            if buckets[j] < 0:
                continue
            r = placed[j]
            end = first[buckets[j] + 1]
            at = cursor[buckets[j]]
            while at < end and probes[at] <= events[r]:
                at += 1
            cursor[buckets[j]] = at
            for s in range(slices):
                if limits[s, starts[r]] <= events[r]:
                    continue
                to = _first_after(probes, at, end, limits[s, starts[r]])
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
    """Add up contribution and consumption over all descendants of each record, in place.

    Parameters
    ----------
    parents
        int64[records]: record that each record extends, or -1.
    born
        int32[records]: slice of its window in which each record is made.
    matched
        uint8[records]: 1 if the record is a match.
    contribution
        float32[records, slices]: zeros; on return, the number of matches derived from each record.
    consumption
        float32[records, slices]: work for each record; on return, including the work for all its descendants.
    price
        Price of a match.
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
