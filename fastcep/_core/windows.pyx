# cython: language_level=3
"""The explicit windows that are open: a ring by ordinal, which is the order in which they open.

In *shared* mode rows belong to all windows that were open when their first event came; which they still belong to is asked
when a match is complete. In *isolated* mode every window has a `Part`: rows, starts and waiting matches of its own.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory cimport give_back, obtain

cdef enum:
    FIRST = 16               # entries of a new ring


cdef int add_window(Windows* windows, int64_t position, int64_t time, int64_t id) noexcept nogil:
    """Open a window; -1 without memory."""
    cdef Opened* one
    if windows.ring == NULL or windows.next - windows.first > windows.mask:
        if _grow(windows) < 0:
            return -1
    one = window_at(windows, windows.next)
    one.position = position
    one.time = time
    one.id = id
    one.reported = 0
    one.closed = False
    one.part = NULL
    windows.next += 1
    return 0


cdef int _grow(Windows* windows) noexcept nogil:
    cdef int64_t old = 0 if windows.ring == NULL else windows.mask + 1, capacity = old * 2 if old else FIRST, i
    cdef Opened* fresh = <Opened*>obtain(windows.budget, capacity * sizeof(Opened))
    if fresh == NULL:
        return -1
    for i in range(windows.first, windows.next):
        fresh[i & (capacity - 1)] = windows.ring[i & windows.mask]
    give_back(windows.budget, windows.ring, old * sizeof(Opened))
    windows.ring = fresh
    windows.mask = capacity - 1
    return 0


cdef int64_t window_of(const Windows* windows, int64_t position) noexcept nogil:
    """Ordinal of the window that the event at this position opened; -1 if there is none (any more)."""
    cdef int64_t low = windows.first, high = windows.next, middle
    while low < high:
        middle = low + (high - low) // 2
        if window_at(windows, middle).position < position:
            low = middle + 1
        else:
            high = middle
    return low if low < windows.next and window_at(windows, low).position == position else -1


cdef int64_t windows_bytes(const Windows* windows) noexcept nogil:
    """Bytes of the ring, without the parts."""
    return 0 if windows.ring == NULL else (windows.mask + 1) * sizeof(Opened)
