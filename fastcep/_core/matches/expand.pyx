# cython: language_level=3
"""Shared windows: repeat the matches of an event for each open window that contains them.

A match is in the windows that were open at its first event and still are. All matches that an event completes are in
the oldest open window, so the matches in the output are the block of that window. The blocks of the other windows are
appended.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.open_windows cimport Windows, window_at
from fastcep._core.memory.vectors cimport Vec, reserve
from fastcep._core.state.core cimport Core


cdef void expand(Core* core) noexcept nogil:
    """Repeat the matches of the event for each window, in their order, and write the window ids to ``out_windows``."""
    cdef Windows* windows = &core.windows
    cdef Vec* latest = &core.out_windows
    cdef int64_t n = core.emitted, first = latest.size - n, number, i, total = 0
    for number in range(windows.first, windows.next):
        if not window_at(windows, number).closed:
            for i in range(n):
                total += latest.data[first + i] >= number
    if _reserve(latest, total) < 0:
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


cdef inline int _reserve(Vec* vec, int64_t n) noexcept nogil:
    """Reserve memory for ``n`` more values; returns -1 if memory ran out."""
    return reserve(vec, vec.size + n) if vec.size + n > vec.capacity else 0


cdef int _repeat(Core* core, int64_t n, int64_t first) noexcept nogil:
    """Repeat the bindings of the last ``n`` matches for all windows except the oldest; returns -1 if memory ran out."""
    cdef Windows* windows = &core.windows
    cdef int64_t* latest = core.out_windows.data + first
    cdef int64_t number, i, j, values, lengths, count
    cdef Vec* to
    cdef Vec* sizes
    cdef int m
    for m in range(core.n_variables):
        if core.variables[m].negated:
            continue
        to = core.out_values + m
        sizes = core.out_lengths + m
        lengths = sizes.size - n
        values = to.size - n
        if core.variables[m].repeated:
            values = to.size
            for i in range(lengths, sizes.size):
                values -= sizes.data[i]
        for number in range(windows.first + 1, windows.next):
            if window_at(windows, number).closed:
                continue
            j = values
            for i in range(n):
                count = sizes.data[lengths + i] if core.variables[m].repeated else 1
                if latest[i] >= number:
                    if _reserve(to, count) < 0 or (core.variables[m].repeated and _reserve(sizes, 1) < 0):
                        return -1
                    _copy(to, j, count)
                    if core.variables[m].repeated:
                        sizes.data[sizes.size] = count
                        sizes.size += 1
                j += count
    return 0


cdef inline void _copy(Vec* vec, int64_t start, int64_t count) noexcept nogil:
    """Append a copy of ``count`` values of a vector to its end."""
    cdef int64_t i
    for i in range(count):
        vec.data[vec.size + i] = vec.data[start + i]
    vec.size += count
