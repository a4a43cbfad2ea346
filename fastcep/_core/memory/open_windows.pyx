# cython: language_level=3
"""Ring of the open explicit windows. Ordinals count windows in the order in which they open.

In *shared* mode, a row belongs to all windows that were open when its first event arrived; the matcher checks which of
these are still open when a match is complete. In *isolated* mode, every window has a `Part` with its own rows, starts
and waiting matches.
"""
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.memory.allocator cimport give_back, obtain
from fastcep._core.memory.starts cimport Starts

cdef enum:
    FIRST_ENTRIES = 16       # entries of a new ring


cdef int add_window(
        Windows* windows, Starts* starts, int64_t position, int64_t time, int64_t id, uint64_t draw) noexcept nogil:
    """Open a window; -1 without memory. ``starts``: see ``_drop_closed``. ``draw``: hash of ``position``."""
    cdef Opened* opened
    if windows.ring == NULL:
        if _grow(windows) < 0:
            return -1
    elif windows.next - windows.first > windows.mask:
        if _count_open(windows) * 2 <= windows.mask:
            _drop_closed(windows, starts)
        elif _grow(windows) < 0:
            return -1
    opened = window_at(windows, windows.next)
    opened.position = position
    opened.time = time
    opened.id = id
    opened.draw = draw
    opened.reported = 0
    opened.relevant = windows.relevant
    opened.closed = False
    opened.part = NULL
    windows.next += 1
    return 0


cdef int64_t _count_open(const Windows* windows) noexcept nogil:
    cdef int64_t total = 0, ordinal
    for ordinal in range(windows.first, windows.next):
        total += not window_at(windows, ordinal).closed
    return total


cdef void _drop_closed(Windows* windows, Starts* starts) noexcept nogil:
    """Remove the closed windows that a window which stays open holds in the ring.

    ``starts``: in shared mode the starts of the core, which refer to windows by ordinal; NULL in isolated mode. Open
    windows move to the highest ordinals, so that an ordinal below ``first`` still means that the window has ended.
    """
    cdef int64_t ordinal = windows.next - 1, to = windows.next, start, newest
    for start in range(0 if starts == NULL else starts.next - starts.first):
        newest = (starts.next - 1 - start) & starts.mask
        while ordinal > starts.window[newest]:
            to -= _move(windows, ordinal, to - 1)
            ordinal -= 1
        starts.window[newest] = to - 1  # the ordinal that the next open window gets
    while ordinal >= windows.first:
        to -= _move(windows, ordinal, to - 1)
        ordinal -= 1
    windows.first = to


cdef inline int _move(Windows* windows, int64_t ordinal, int64_t to) noexcept nogil:
    """Move a window to a higher ordinal if it is open; returns whether it is open."""
    if window_at(windows, ordinal).closed:
        return 0
    if ordinal != to:
        windows.ring[to & windows.mask] = windows.ring[ordinal & windows.mask]
    return 1


cdef int _grow(Windows* windows) noexcept nogil:
    cdef int64_t old = 0 if windows.ring == NULL else windows.mask + 1, capacity = old * 2 if old else FIRST_ENTRIES, i
    cdef Opened* grown = <Opened*>obtain(windows.budget, capacity * sizeof(Opened))
    if grown == NULL:
        return -1
    for i in range(windows.first, windows.next):
        grown[i & (capacity - 1)] = windows.ring[i & windows.mask]
    give_back(windows.budget, windows.ring, old * sizeof(Opened))
    windows.ring = grown
    windows.mask = capacity - 1
    return 0


cdef int64_t window_of(const Windows* windows, int64_t position) noexcept nogil:
    """Return the ordinal of the window that the event at this position opened, or -1 if the ring has none."""
    cdef int64_t low = windows.first, high = windows.next, middle
    while low < high:
        middle = low + (high - low) // 2
        if window_at(windows, middle).position < position:
            low = middle + 1
        else:
            high = middle
    return low if low < windows.next and window_at(windows, low).position == position else -1


cdef int64_t windows_bytes(const Windows* windows) noexcept nogil:
    """Return the bytes of the ring, without the parts of the windows."""
    return 0 if windows.ring == NULL else (windows.mask + 1) * sizeof(Opened)
