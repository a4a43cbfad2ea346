# cython: language_level=3
"""Shared windows: the matches of an event, once for each open window that holds them all.

A match lies in the windows that were open when its first event came and still are. All that the event completes lie in the
oldest open window, so what stands in the output is the block of that window; those of the others follow it.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.open_windows cimport Windows, window_at
from fastcep._core.memory.vectors cimport Vec, reserve
from fastcep._core.state.core cimport Core


cdef void expand(Core* core) noexcept nogil:
    """Repeat the event's matches per window, in the order of windows; ``out_windows`` becomes the windows' ids."""
    cdef Windows* windows = &core.windows
    cdef Vec* latest = &core.out_windows
    cdef int64_t n = core.emitted, first = latest.size - n, number, i, total = 0
    for number in range(windows.first, windows.next):
        if not window_at(windows, number).closed:
            for i in range(n):
                total += latest.data[first + i] >= number
    if _room(latest, total) < 0:
        core.failed = True
        return
    if total > n and _repeat(core, n, first) < 0:
        core.failed = True
        return
    for number in range(windows.first + 1, windows.next):
        if not window_at(windows, number).closed:
            for i in range(n):
                if latest.data[first + i] >= number:
                    latest.data[latest.size] = window_at(windows, number).id
                    latest.size += 1
    for i in range(n):
        latest.data[first + i] = window_at(windows, windows.first).id
    core.emitted = total


cdef inline int _room(Vec* vec, int64_t n) noexcept nogil:
    return reserve(vec, vec.size + n) if vec.size + n > vec.capacity else 0


cdef int _repeat(Core* core, int64_t n, int64_t first) noexcept nogil:
    """Repeat the bindings of the last ``n`` matches for every window but the oldest."""
    cdef Windows* windows = &core.windows
    cdef int64_t* latest = core.out_windows.data + first
    cdef int64_t number, i, j, values, lengths, count
    cdef Vec* to
    cdef Vec* sizes
    cdef int m
    for m in range(core.n_members):
        if core.leaves[m].negated:
            continue
        to = core.out_values + m
        sizes = core.out_lengths + m
        lengths = sizes.size - n
        values = to.size - n
        if core.leaves[m].repeated:
            values = to.size
            for i in range(lengths, sizes.size):
                values -= sizes.data[i]
        for number in range(windows.first + 1, windows.next):
            if window_at(windows, number).closed:
                continue
            j = values
            for i in range(n):
                count = sizes.data[lengths + i] if core.leaves[m].repeated else 1
                if latest[i] >= number:
                    if _room(to, count) < 0 or (core.leaves[m].repeated and _room(sizes, 1) < 0):
                        return -1
                    _copy(to, j, count)
                    if core.leaves[m].repeated:
                        sizes.data[sizes.size] = count
                        sizes.size += 1
                j += count
    return 0


cdef inline void _copy(Vec* vec, int64_t start, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        vec.data[vec.size + i] = vec.data[start + i]
    vec.size += count
