# cython: language_level=3
"""The explicit windows that are open: a ring by ordinal, which is the order in which they open.

In *shared* mode rows belong to all windows that were open when their first event came; which they still belong to is asked
when a match is complete. In *isolated* mode every window has a `Part`: rows, starts and waiting matches of its own.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.allocator cimport give_back, obtain
from fastcep._core.memory.starts cimport Starts

cdef enum:
    FIRST = 16               # entries of a new ring


cdef int add_window(Windows* windows, Starts* starts, int64_t position, int64_t time, int64_t id) noexcept nogil:
    """Open a window; -1 without memory. ``starts`` as in ``_drop_closed``."""
    cdef Opened* one
    if windows.ring == NULL:
        if _grow(windows) < 0:
            return -1
    elif windows.next - windows.first > windows.mask:
        if _open(windows) * 2 <= windows.mask:
            _drop_closed(windows, starts)
        elif _grow(windows) < 0:
            return -1
    one = window_at(windows, windows.next)
    one.position = position
    one.time = time
    one.id = id
    one.reported = 0
    one.able = windows.able
    one.closed = False
    one.part = NULL
    windows.next += 1
    return 0


cdef int64_t _open(const Windows* windows) noexcept nogil:
    cdef int64_t total = 0, number
    for number in range(windows.first, windows.next):
        total += not window_at(windows, number).closed
    return total


cdef void _drop_closed(Windows* windows, Starts* starts) noexcept nogil:
    """Take the closed windows out of the ring, which one that stays open keeps there.

    ``starts``: in shared mode the core's, which know windows by their ordinals; else NULL. The last ordinals stay in use, so
    that what is older than the first one still is.
    """
    cdef int64_t number = windows.next - 1, to = windows.next, start, newest
    for start in range(0 if starts == NULL else starts.next - starts.first):
        newest = (starts.next - 1 - start) & starts.mask
        while number > starts.window[newest]:
            to -= _move(windows, number, to - 1)
            number -= 1
        starts.window[newest] = to - 1  # where the next one that is open goes
    while number >= windows.first:
        to -= _move(windows, number, to - 1)
        number -= 1
    windows.first = to


cdef inline int _move(Windows* windows, int64_t number, int64_t to) noexcept nogil:
    """Move an open window up to another ordinal; returns whether it is open."""
    if window_at(windows, number).closed:
        return 0
    if number != to:
        windows.ring[to & windows.mask] = windows.ring[number & windows.mask]
    return 1


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
