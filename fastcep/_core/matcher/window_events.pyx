# cython: language_level=3
"""What opens and closes windows before an event is matched, and the isolated ones in which it is.

The engine finds out which events of a batch open windows, and which close them by a condition (fastcep.engine.windows);
time and counts are watched here.
"""
from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from fastcep._core.matches.decide cimport decide
from fastcep._core.matches.policy cimport limit_is_reached, partition_of
from fastcep._core.matches.timeout cimport collect
from fastcep._core.memory.open_windows cimport (
    AFTER_EVENTS, AFTER_TIME, Opened, Part, Windows, add_window, window_at, window_of,
)
from fastcep._core.memory.row_store cimport find
from fastcep._core.memory.starts cimport drop_first
from fastcep._core.program.plan_tables cimport Edge, Leaf
from fastcep._core.shed.drop cimport kept_out
from fastcep._core.state.core cimport Core, read_key
from fastcep._core.state.isolated_windows cimport counts_of, end_window, enter, leave

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil


cdef void move_windows(Core* core, const int64_t* time, int64_t position, int64_t place, int64_t n) noexcept nogil:
    """Open and close windows up to event ``place`` of the batch, which is matched next; ``place`` = ``n``: to its end.

    The event itself may open one; what it closes is closed behind it.
    """
    cdef Windows* windows = &core.windows
    cdef int64_t opens, closes, number
    while not core.failed:
        opens = windows.opens[windows.next_open] if windows.next_open < windows.n_opens else INT64_MAX
        closes = windows.closes[windows.next_close] if windows.next_close < windows.n_closes else INT64_MAX
        if opens <= closes:
            if opens > place or opens == INT64_MAX:
                break
            _close_passed(core, time, position, opens, n)
            if add_window(windows, &core.starts if core.is_shared else NULL, position + opens, time[opens],
                          windows.ids[windows.next_open]) < 0:
                core.failed = True
            core.starts.newest = windows.next - 1
            windows.next_open += 1
        else:
            if closes >= place:
                break
            if windows.closed[windows.next_close] < 0:
                _close_all(core, position + closes, time[closes])
            else:
                number = window_of(windows, windows.closed[windows.next_close])
                if number >= 0:
                    _close(core, number, time[closes], position + closes)
            windows.next_close += 1
    _close_passed(core, time, position, place, n)


cdef void _close_passed(Core* core, const int64_t* time, int64_t position, int64_t place, int64_t n) noexcept nogil:
    """Close the windows whose time or count is over at event ``place``."""
    cdef Windows* windows = &core.windows
    cdef int64_t opened
    if windows.closing == AFTER_TIME:
        pass_time(core, time[min(place, n - 1)])
    elif windows.closing == AFTER_EVENTS:
        while windows.first < windows.next and not core.failed:
            opened = window_at(windows, windows.first).position
            if position + place - opened < windows.length:
                break
            _close(core, windows.first, time[opened + windows.length - 1 - position], opened + windows.length - 1)


cdef void _close_all(Core* core, int64_t position, int64_t time) noexcept nogil:
    """Close the windows that opened before the event at ``position``."""
    cdef Windows* windows = &core.windows
    cdef int64_t number
    for number in range(windows.first, windows.next):
        if window_at(windows, number).position < position and not core.failed:
            _close(core, number, time, position)


cdef void pass_time(Core* core, int64_t time) noexcept nogil:
    """Close the windows that end before ``time``."""
    cdef Windows* windows = &core.windows
    if windows.closing != AFTER_TIME:
        return
    while windows.first < windows.next and not core.failed:
        if _end_of(windows, windows.first) >= time:
            break
        _close(core, windows.first, _end_of(windows, windows.first), INT64_MAX)


cdef void end_windows(Core* core) noexcept nogil:
    """Close all windows at the end of the stream."""
    cdef Windows* windows = &core.windows
    while windows.first < windows.next and not core.failed:
        _close(core, windows.first, _end_of(windows, windows.first) if windows.closing == AFTER_TIME else core.now,
               INT64_MAX)


cdef inline int64_t _end_of(const Windows* windows, int64_t number) noexcept nogil:
    cdef int64_t time = window_at(windows, number).time
    return time + windows.length if time <= INT64_MAX - windows.length else INT64_MAX


cdef void _close(Core* core, int64_t number, int64_t time, int64_t place) noexcept nogil:
    """Decide what waits for the window's end, at ``time``, and forget what was in it.

    ``place`` is the position of the event behind which it ends, INT64_MAX if it ends by time.
    """
    cdef Windows* windows = &core.windows
    cdef Opened* window = window_at(windows, number)
    cdef int64_t now = core.now
    if window.part != NULL:
        if (window.part.pending.size > 0 or core.tells) and enter(core, window):
            core.place, core.opened = place, window.position
            decide(core, time, True)
            if core.tells:
                core.now = time
                collect(core, core.starts.first, core.starts.next)
                core.now = now
            leave(core, window)
    end_window(core, window)
    if core.is_shared:
        while core.starts.first < core.starts.next and (
                core.starts.window[core.starts.first & core.starts.mask] < windows.first):
            drop_first(&core.starts)


cdef int64_t first_part(Core* core, uint64_t* members, int k) noexcept nogil:
    """Enter the first window in which event ``k`` of the chunk can do anything, if they are isolated; -1 if there is none.

    ``members``, to which it may be bound, become those with which it can.
    """
    if core.failed or core.windows.first == core.windows.next:
        return -1
    if not core.is_isolated:
        return 0
    core.asked = members[0]
    return _enter_from(core, core.windows.first, members, k)


cdef int64_t next_part(Core* core, int64_t number, uint64_t* members, int k) noexcept nogil:
    """Leave an isolated window and enter the next one, as ``first_part``; -1 also if memory is out."""
    leave(core, window_at(&core.windows, number))
    return -1 if core.failed else _enter_from(core, number + 1, members, k)


cdef int64_t _enter_from(Core* core, int64_t number, uint64_t* members, int k) noexcept nogil:
    cdef Opened* window
    cdef uint64_t able
    while number < core.windows.next:
        window = window_at(&core.windows, number)
        able = core.asked & window.able
        if able and core.shed.in_windows != NULL and kept_out(core, window.position):
            able = 0
        if able and core.n_counts > 0 and window.part != NULL and partition_of(core, able, k) and limit_is_reached(
                core, counts_of(core, window.part)):
            able = 0
        if able and (able & ~core.able.keyed or _extends(core, window.part, able, k)):
            members[0] = able
            return number if enter(core, window) else -1
        number += 1
    return -1


cdef bint _extends(Core* core, const Part* part, uint64_t members, int k) noexcept nogil:
    """Whether there is a bucket in which event ``k`` may extend rows as one of ``members``, which look by keys."""
    cdef Leaf* leaf
    cdef Edge* edge
    cdef int e
    while members:
        leaf = core.leaves + __builtin_ctzll(members)
        members &= members - 1
        for e in range(leaf.first_edge, leaf.end_edge):
            edge = core.edges + e
            if (read_key(edge.probe, edge.n_probe, k, core.key)
                    and find(part.indexes + edge.index, core.key) >= 0):
                return True
    return False
