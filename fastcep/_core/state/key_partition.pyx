# cython: language_level=3
"""A query in parts, each with a matcher of its own that has some of the keys: where keys belong, and matches in order.

An event has one key, so all that it completes comes from one part. Each part's output is in the order of one matcher,
so merging is a walk over the *runs* of all parts, the matches of one event or decision: first the order is found, as
*segments*, matches in a row that come from one part; then every column is put together by segments.

Runs come by time, then by *place*: the position of their event, of a decision that of the event that it comes behind, or
`NO_PLACE`, behind all events of its time. What is decided there comes by the event that opened its window. Where several
parts decide at one place, matches come by the event that *made* them, the last one that they bind: births of one matcher.
"""
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from fastcep._core.memory.allocator cimport Budget, unlimited
from fastcep._core.memory.vectors cimport Vec, push, reserve, take, vec_free
from fastcep._core.state.key_partition cimport hash_of, hash_of_float

MOST_PARTS = 64          #: of one query
NO_PLACE = INT64_MAX     #: of a decision at a time

cdef struct Side:            # the output of a part: runs, and what is to be taken next
    const int64_t* detected
    const int64_t* times
    const int64_t* counts
    const int64_t* places    # per decision its place and the position of what opened its window; NULL: by time alone
    const int64_t* made      # per match; NULL: no other part decides anything
    int64_t size
    int64_t run, match, decision


def parts_of(const int64_t[::1] words, int parts, bint floats):
    """Part of each key.

    Parameters
    ----------
    words
        int64[n]: keys as the matcher has them (``floats``: the bits of float64).
    parts
        How many there are.

    Returns
    -------
    uint8[n]
    """
    cdef Py_ssize_t i
    cdef uint64_t hashed
    cdef uint8_t[::1] out = np.empty(words.shape[0], np.uint8)
    for i in range(words.shape[0]):
        hashed = hash_of_float((<const double*>&words[i])[0]) if floats else hash_of(words[i])
        out[i] = (hashed * <uint64_t>parts) >> 32
    return np.asarray(out)


def range_of(part, parts):
    """The hashes of the keys of a part: the first, and how many there are."""
    first = -(-(part << 32) // parts)
    return first, -(-((part + 1) << 32) // parts) - first


def merge_runs(sides):
    """Put the runs of parts in order.

    Parameters
    ----------
    sides
        Per part ``(detected, times, counts, places, made)``, int64 arrays: of each run its event's position (-1: a
        decision), time and number of matches; of each decision its place and its window's, or None; of each match the
        event that made it, or None if only one part decides anything.

    Returns
    -------
    detected, times, counts
        The same of all together.
    segments
        int64[n, 2]: part, and how many of its next matches follow.
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
    """Write the runs and segments; -1 without memory."""
    cdef int64_t runs = 0
    cdef int i
    for i in range(n):
        runs += side[i].size
    for i in range(3):
        if reserve(out + i, runs) < 0:
            return -1
    if n == 2 and not _decides(side) and not _decides(side + 1):
        return _order_two(side, side + 1, out)
    return _order_any(side, n, out)


cdef bint _decides(const Side* side) noexcept nogil:
    cdef int64_t run
    for run in range(side.size):
        if side.detected[run] < 0:
            return True
    return False


cdef int _order_two(Side* one, Side* other, Vec* out) noexcept nogil:
    """The same for what two parts found by events alone: their positions tell the order."""
    cdef Side* sides[2]
    cdef Side* from_
    cdef int64_t end, first, run, matches
    cdef int64_t at = 0
    cdef int now
    sides[0], sides[1] = one, other
    now = one.size == 0 or (other.size > 0 and other.detected[0] < one.detected[0])
    while True:  # all runs of one part before the next one of the other
        from_ = sides[now]
        end = sides[1 - now].detected[sides[1 - now].run] if sides[1 - now].run < sides[1 - now].size else INT64_MAX
        first = run = from_.run
        matches = 0
        while run < from_.size and from_.detected[run] < end:
            out[0].data[at] = from_.detected[run]
            out[1].data[at] = from_.times[run]
            out[2].data[at] = from_.counts[run]
            matches += from_.counts[run]
            at += 1
            run += 1
        if run > first and (push(out + 3, now) < 0 or push(out + 3, matches) < 0):
            return -1
        from_.run = run
        if end == INT64_MAX:
            break
        now = 1 - now
    for now in range(3):
        out[now].size = at
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
            if _segment(out + 3, first, total, &last) < 0:
                return -1
            _pass(best, total)
        if total < 0 or push(out + 2, total) < 0:
            return -1


cdef inline int64_t _place(const Side* side) noexcept nogil:
    if side.detected[side.run] >= 0:
        return side.detected[side.run]
    return INT64_MAX if side.places == NULL else side.places[2 * side.decision]


cdef bint _before(const Side* one, const Side* other) noexcept nogil:
    """Whether the next run of one part comes before that of another."""
    cdef int64_t a = one.times[one.run], b = other.times[other.run]
    if a != b:
        return a < b
    a, b = _place(one), _place(other)
    if a != b:
        return a < b
    if one.detected[one.run] >= 0 or other.detected[other.run] >= 0:
        return one.detected[one.run] >= 0 > other.detected[other.run]  # what an event closes, it closes behind itself
    return one.places != NULL and other.places != NULL and (
        one.places[2 * one.decision + 1] < other.places[2 * other.decision + 1])


cdef inline void _pass(Side* side, int64_t matches) noexcept nogil:
    """Go on behind a run of so many matches."""
    side.decision += side.detected[side.run] < 0
    side.match += matches
    side.run += 1


cdef inline int _segment(Vec* segments, int part, int64_t matches, int64_t* last) noexcept nogil:
    if last[0] == part:
        segments.data[segments.size - 1] += matches
        return 0
    last[0] = part
    return 0 if push(segments, part) == 0 and push(segments, matches) == 0 else -1


cdef int64_t _interleave(Side* side, int n, int first, Vec* segments, int64_t* last) noexcept nogil:
    """Merge the next runs that stand at one place, by the events that made the matches; gives how many, -1 without memory."""
    cdef bint in_it[64]
    cdef int64_t left[64]
    cdef int64_t total = 0, at
    cdef int i, best
    for i in range(n):
        in_it[i] = side[i].run < side[i].size and not _before(side + first, side + i)
        left[i] = side[i].counts[side[i].run] if in_it[i] else 0
        total += left[i]
    while True:
        best = -1
        for i in range(n):
            if left[i] > 0 and (best < 0 or side[i].made[side[i].match] < side[best].made[side[best].match]):
                best = i
        if best < 0:
            break
        if _segment(segments, best, 1, last) < 0:
            return -1
        left[best] -= 1
        side[best].match += 1
    for i in range(n):
        if in_it[i]:
            _pass(side + i, 0)
    return total


def merge_column(columns, const int64_t[:, ::1] segments, lengths=None):
    """Put the values of parts together, by segments.

    Parameters
    ----------
    columns
        int64 arrays, one per part.
    segments
        From `merge_runs`.
    lengths
        Per part how many values each match has; None: one each.

    Returns
    -------
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
    if total == 0:  # a negated variable, or lists without an entry
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
    """Copy ``n`` words; most segments are too short for a call."""
    cdef int64_t i
    if n > 32:
        memcpy(to, values, n * sizeof(int64_t))
        return
    for i in range(n):
        to[i] = values[i]
