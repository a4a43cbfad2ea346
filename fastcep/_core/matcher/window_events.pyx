# cython: language_level=3
"""Open and close explicit windows before an event is matched, and enter the isolated windows in which it is matched.

The engine finds the events of a batch that open windows, and those that close windows by a condition
(fastcep.engine.windows). This module closes windows by time and by number of events.
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
from fastcep._core.program.plan_tables cimport Edge, Variable
from fastcep._core.shed.drop cimport is_whole_dropped, kept_out, screen_event
from fastcep._core.state.core cimport Core, read_key
from fastcep._core.state.draws cimport mixed
from fastcep._core.state.isolated_windows cimport counts_of, end_window, enter, leave

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil


cdef void advance_windows(
        Core* core, const int64_t* time, int64_t position, int64_t batch_index, int64_t n) noexcept nogil:
    """Open and close windows up to event ``batch_index`` of the batch, which is matched next; ``n``: up to the end.

    The event itself may open a window. A window that it closes is closed after it.
    """
    cdef Windows* windows = &core.windows
    cdef int64_t opens, closes, number
    while not core.failed:
        opens = windows.opens[windows.next_open] if windows.next_open < windows.n_opens else INT64_MAX
        closes = windows.closes[windows.next_close] if windows.next_close < windows.n_closes else INT64_MAX
        if opens <= closes:
            if opens > batch_index or opens == INT64_MAX:
                break
            _close_passed(core, time, position, opens, n)
            if add_window(windows, &core.starts if core.is_shared else NULL, position + opens, time[opens],
                          windows.ids[windows.next_open], mixed(<uint64_t>(position + opens))) < 0:
                core.failed = True
            core.starts.newest = windows.next - 1
            windows.next_open += 1
        else:
            if closes >= batch_index:
                break
            if windows.closed[windows.next_close] < 0:
                _close_all(core, position + closes, time[closes])
            else:
                number = window_of(windows, windows.closed[windows.next_close])
                if number >= 0:
                    _close(core, number, time[closes], position + closes)
            windows.next_close += 1
    _close_passed(core, time, position, batch_index, n)


cdef void _close_passed(
        Core* core, const int64_t* time, int64_t position, int64_t batch_index, int64_t n) noexcept nogil:
    """Close the windows whose time or number of events has passed at event ``batch_index``."""
    cdef Windows* windows = &core.windows
    cdef int64_t opened
    if windows.closing == AFTER_TIME:
        close_passed_time(core, time[min(batch_index, n - 1)])
    elif windows.closing == AFTER_EVENTS:
        while windows.first < windows.next and not core.failed:
            opened = window_at(windows, windows.first).position
            if position + batch_index - opened < windows.length:
                break
            _close(core, windows.first, time[opened + windows.length - 1 - position], opened + windows.length - 1)


cdef void _close_all(Core* core, int64_t position, int64_t time) noexcept nogil:
    """Close the windows that opened before the event at ``position``."""
    cdef Windows* windows = &core.windows
    cdef int64_t number
    for number in range(windows.first, windows.next):
        if window_at(windows, number).position < position and not core.failed:
            _close(core, number, time, position)


cdef void close_passed_time(Core* core, int64_t time) noexcept nogil:
    """Close the windows whose end by time is before ``time``."""
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
    """Return the time at which a window ends."""
    cdef int64_t time = window_at(windows, number).time
    return time + windows.length if time <= INT64_MAX - windows.length else INT64_MAX


cdef void _close(Core* core, int64_t number, int64_t time, int64_t closing_position) noexcept nogil:
    """Decide the matches that wait for the end of a window, which is at ``time``, and drop its partial matches.

    ``closing_position`` is the position of the event after which the window ends, INT64_MAX if it ends by time.
    """
    cdef Windows* windows = &core.windows
    cdef Opened* window = window_at(windows, number)
    cdef int64_t now = core.now
    if window.part != NULL:
        if (window.part.pending.size > 0 or core.reports_timeouts) and enter(core, window):
            core.place, core.opened = closing_position, window.position
            decide(core, time, True)
            if core.reports_timeouts:
                core.now = time
                collect(core, core.starts.first, core.starts.next)
                core.now = now
            leave(core, window)
    end_window(core, window)
    if core.is_shared:
        while core.starts.first < core.starts.next and (
                core.starts.window[core.starts.first & core.starts.mask] < windows.first):
            drop_first(&core.starts)


cdef int64_t enter_first_window(Core* core, uint64_t* variables, int k) noexcept nogil:
    """Enter the first isolated window in which event ``k`` of the chunk may extend or begin a partial match.

    ``variables``: in, the variables to which the event may be bound; out, those for which this window needs it. Returns
    the number of the window, -1 if there is none; 0 without entering if open windows share their rows.
    """
    if core.failed or core.windows.first == core.windows.next:
        return -1
    if not core.is_isolated:
        return 0
    core.bindable = variables[0]
    screen_event(core)
    return _enter_from(core, core.windows.first, variables, k)


cdef int64_t enter_next_window(Core* core, int64_t number, uint64_t* variables, int k) noexcept nogil:
    """Leave an isolated window and enter the next one, as ``enter_first_window``; -1 also if memory ran out."""
    leave(core, window_at(&core.windows, number))
    return -1 if core.failed else _enter_from(core, number + 1, variables, k)


cdef int64_t _enter_from(Core* core, int64_t number, uint64_t* variables, int k) noexcept nogil:
    """Enter the first window from ``number`` on, as ``enter_first_window``."""
    cdef Opened* window
    cdef uint64_t usable
    while number < core.windows.next:
        window = window_at(&core.windows, number)
        usable = core.bindable & window.relevant
        if usable and is_whole_dropped(core, window.position):
            end_window(core, window)
            usable = 0
        if usable and kept_out(core, window):
            usable = 0
        if usable and core.n_counts > 0 and window.part != NULL and partition_of(core, usable, k) and limit_is_reached(
                core, counts_of(core, window.part)):
            usable = 0
        if core.visits_all and window.part != NULL and window.part.pending.size > 0:
            variables[0] = usable
            return number if enter(core, window) else -1
        if usable and (usable & ~core.relevance.keyed or _extends(core, window.part, usable, k)):
            variables[0] = usable
            return number if enter(core, window) else -1
        number += 1
    return -1


cdef bint _extends(Core* core, const Part* part, uint64_t variables, int k) noexcept nogil:
    """Return whether a bucket exists whose rows event ``k`` may extend as one of ``variables``, which are all keyed."""
    cdef Variable* variable
    cdef Edge* edge
    cdef int e
    while variables:
        variable = core.variables + __builtin_ctzll(variables)
        variables &= variables - 1
        for e in range(variable.first_edge, variable.end_edge):
            edge = core.edges + e
            if (read_key(edge.probe, edge.n_probe, k, core.key)
                    and find(part.indexes + edge.index, core.key) >= 0):
                return True
    return False
