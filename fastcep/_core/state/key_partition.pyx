# cython: language_level=3
"""Partition the keys of a query among several matchers, its *parts*, and merge their matches in order.

An event has one key, so all matches that it completes come from one part. The output of each part is in the order of a
single matcher. It consists of *runs*: the matches of one event or decision. The merge first finds the order of the runs
of all parts, as *segments* (consecutive matches from one part), and then assembles every column segment by segment.

Runs are ordered by time, then by *place*. The place of an event is its position. The place of a decision is the
position of the event that it follows, or `NO_PLACE` if it follows all events of its time; decisions at the same place
are ordered by the event that opened their window. If several parts decide at the same place and for the same window,
their matches are ordered by the event that *made* them, the last event that they bind, as they would be in a single
matcher.
"""
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from fastcep._core.memory.allocator cimport Budget, unlimited
from fastcep._core.memory.vectors cimport Vec, push, reserve, take, vec_free
from fastcep._core.state.key_partition cimport hash_of, hash_of_float

MOST_PARTS = 64          #: Number of parts of a query, at most.
NO_PLACE = INT64_MAX     #: Place of a decision that follows all events of its time.

cdef struct Side:            # the output of a part, with cursors for the merge
    const int64_t* detected
    const int64_t* times
    const int64_t* counts
    const int64_t* places    # per decision: its place, position of the event that opened its window; NULL: no places
    const int64_t* made      # per match: the event that made it; NULL: no other part has decisions
    int64_t size             # number of runs
    int64_t run, match, decision  # cursors


def parts_of(const int64_t[::1] words, int parts, bint floats):
    """Return the part of each key.

    Parameters
    ----------
    words
        int64[n]: keys as the matcher stores them.
    parts
        Number of parts.
    floats
        True if the keys are the bits of float64.

    Returns
    -------
    numpy.ndarray
        uint8[n]: number of the part.
    """
    cdef Py_ssize_t i
    cdef uint64_t hashed
    cdef uint8_t[::1] out = np.empty(words.shape[0], np.uint8)
    for i in range(words.shape[0]):
        hashed = hash_of_float((<const double*>&words[i])[0]) if floats else hash_of(words[i])
        out[i] = (hashed * <uint64_t>parts) >> 32
    return np.asarray(out)


def range_of(part, parts):
    """Return the range of hashes of the keys of a part: the first hash and the number of hashes."""
    first = -(-(part << 32) // parts)
    return first, -(-((part + 1) << 32) // parts) - first


def merge_runs(sides):
    """Merge the runs of parts in order.

    Parameters
    ----------
    sides
        Per part ``(detected, times, counts, places, made)``, int64 arrays. Per run: position of its event (-1: a
        decision), time and number of matches. ``places``, per decision: its place and the position of the event that
        opened its window, or None. ``made``, per match: the event that made it, or None if only one part has decisions.

    Returns
    -------
    detected, times, counts
        The merged runs.
    segments
        int64[n, 2]: number of a part, and number of its next matches to take.
    """
    cdef Side side[64]
    cdef Budget budget
    cdef Vec out[4]
    cdef const int64_t[::1] view
    cdef int n = len(sides), i
    keep = []
    memset(side, 0, sizeof(side))
    for i, arrays in enumerate(sides):
        side[i].size = len(arrays[0])
        for place, array in enumerate(arrays):
            if array is None or len(array) == 0:
                continue
            view = array
            keep.append(view)
            (<const int64_t**>&side[i])[place] = &view[0]
    unlimited(&budget)
    memset(out, 0, sizeof(out))
    for i in range(4):
        out[i].budget = &budget
    with nogil:
        i = _order(side, n, out)
    if i < 0:
        for i in range(4):
            vec_free(out + i)
        raise MemoryError("no memory for the matches")
    return take(out), take(out + 1), take(out + 2), take(out + 3).reshape(-1, 2)


cdef int _order(Side* side, int n, Vec* out) noexcept nogil:
    """Write the merged runs and the segments; -1 without memory."""
    cdef int64_t runs = 0
    cdef int i
    for i in range(n):
        runs += side[i].size
    for i in range(3):
        if reserve(out + i, runs) < 0:
            return -1
    if n == 2 and not _has_decisions(side) and not _has_decisions(side + 1):
        return _order_two(side, side + 1, out)
    return _order_any(side, n, out)


cdef bint _has_decisions(const Side* side) noexcept nogil:
    cdef int64_t run
    for run in range(side.size):
        if side.detected[run] < 0:
            return True
    return False


cdef int _order_two(Side* one, Side* other, Vec* out) noexcept nogil:
    """``_order`` for two parts without decisions: the positions of the events give the order."""
    cdef Side* sides[2]
    cdef Side* current
    cdef int64_t end, first, run, matches
    cdef int64_t at = 0
    cdef int turn
    sides[0], sides[1] = one, other
    turn = one.size == 0 or (other.size > 0 and other.detected[0] < one.detected[0])
    while True:  # all runs of one part before the next one of the other
        current = sides[turn]
        end = sides[1 - turn].detected[sides[1 - turn].run] if sides[1 - turn].run < sides[1 - turn].size else INT64_MAX
        first = run = current.run
        matches = 0
        while run < current.size and current.detected[run] < end:
            out[0].data[at] = current.detected[run]
            out[1].data[at] = current.times[run]
            out[2].data[at] = current.counts[run]
            matches += current.counts[run]
            at += 1
            run += 1
        if run > first and (push(out + 3, turn) < 0 or push(out + 3, matches) < 0):
            return -1
        current.run = run
        if end == INT64_MAX:
            break
        turn = 1 - turn
    for turn in range(3):
        out[turn].size = at
    return 0


cdef int _order_any(Side* side, int n, Vec* out) noexcept nogil:
    cdef Side* best
    cdef int64_t total, last = -1
    cdef int i, first, tied
    while True:
        first, tied = -1, 0
        for i in range(n):
            if side[i].run == side[i].size:
                continue
            if first >= 0 and not _before(side + i, side + first):
                tied += not _before(side + first, side + i)
                continue
            first, tied = i, 0
        if first < 0:
            return 0
        best = side + first
        if push(out, best.detected[best.run]) < 0 or push(out + 1, best.times[best.run]) < 0:
            return -1
        if tied:
            total = _interleave(side, n, first, out + 3, &last)
        else:
            total = best.counts[best.run]
            if _add_segment(out + 3, first, total, &last) < 0:
                return -1
            _advance(best, total)
        if total < 0 or push(out + 2, total) < 0:
            return -1


cdef inline int64_t _place(const Side* side) noexcept nogil:
    if side.detected[side.run] >= 0:
        return side.detected[side.run]
    return INT64_MAX if side.places == NULL else side.places[2 * side.decision]


cdef bint _before(const Side* one, const Side* other) noexcept nogil:
    """Return True if the next run of ``one`` comes before that of ``other``."""
    cdef int64_t a = one.times[one.run], b = other.times[other.run]
    if a != b:
        return a < b
    a, b = _place(one), _place(other)
    if a != b:
        return a < b
    if one.detected[one.run] >= 0 or other.detected[other.run] >= 0:
        # a window that an event closes is decided after the event
        return one.detected[one.run] >= 0 > other.detected[other.run]
    return one.places != NULL and other.places != NULL and (
        one.places[2 * one.decision + 1] < other.places[2 * other.decision + 1])


cdef inline void _advance(Side* side, int64_t matches) noexcept nogil:
    """Move the cursors past a run of ``matches`` matches."""
    side.decision += side.detected[side.run] < 0
    side.match += matches
    side.run += 1


cdef inline int _add_segment(Vec* segments, int part, int64_t matches, int64_t* last) noexcept nogil:
    if last[0] == part:
        segments.data[segments.size - 1] += matches
        return 0
    last[0] = part
    return 0 if push(segments, part) == 0 and push(segments, matches) == 0 else -1


cdef int64_t _interleave(Side* side, int n, int first, Vec* segments, int64_t* last) noexcept nogil:
    """Merge the next runs that are at the same place by the events that made their matches.

    Returns the number of matches, or -1 without memory.
    """
    cdef bint is_tied[64]
    cdef int64_t remaining[64]
    cdef int64_t total = 0, at
    cdef int i, best
    for i in range(n):
        is_tied[i] = side[i].run < side[i].size and not _before(side + first, side + i)
        remaining[i] = side[i].counts[side[i].run] if is_tied[i] else 0
        total += remaining[i]
    while True:
        best = -1
        for i in range(n):
            if remaining[i] > 0 and (best < 0 or side[i].made[side[i].match] < side[best].made[side[best].match]):
                best = i
        if best < 0:
            break
        if _add_segment(segments, best, 1, last) < 0:
            return -1
        remaining[best] -= 1
        side[best].match += 1
    for i in range(n):
        if is_tied[i]:
            _advance(side + i, 0)
    return total


def merge_column(columns, const int64_t[:, ::1] segments, lengths=None):
    """Assemble a column of the merged matches from those of the parts.

    Parameters
    ----------
    columns
        int64 arrays, one per part.
    segments
        From `merge_runs`.
    lengths
        Per part: number of values of each match; None: one value each.

    Returns
    -------
    numpy.ndarray
        int64[n]
    """
    cdef const int64_t* data[64]
    cdef const int64_t* sizes[64]
    cdef int64_t match[64]
    cdef const int64_t[::1] view
    cdef Budget budget
    cdef Vec out
    cdef int64_t s, i, count, values, total = 0
    cdef int part
    cdef bint listed = lengths is not None
    keep = []
    memset(match, 0, sizeof(match))
    for i, column in enumerate(columns):
        total += len(column)
        for place, array in enumerate((column, lengths[i]) if listed else (column,)):
            view = array
            keep.append(view)
            if len(array):
                if place:
                    sizes[i] = &view[0]
                else:
                    data[i] = &view[0]
    if total == 0:  # a negated variable, or only empty lists
        return np.empty(0, np.int64)
    unlimited(&budget)
    memset(&out, 0, sizeof(Vec))
    out.budget = &budget
    if reserve(&out, total) < 0:
        raise MemoryError("no memory for the matches")
    with nogil:
        for s in range(segments.shape[0]):
            part = <int>segments[s, 0]
            count = segments[s, 1]
            if listed:
                values = 0
                for i in range(match[part], match[part] + count):
                    values += sizes[part][i]
                match[part] += count
                count = values
            _copy(out.data + out.size, data[part], count)
            data[part] += count
            out.size += count
    return take(&out)


cdef inline void _copy(int64_t* to, const int64_t* values, int64_t n) noexcept nogil:
    """Copy ``n`` words; most segments are too short to call memcpy."""
    cdef int64_t i
    if n > 32:
        memcpy(to, values, n * sizeof(int64_t))
        return
    for i in range(n):
        to[i] = values[i]
