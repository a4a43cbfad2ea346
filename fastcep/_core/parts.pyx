# cython: language_level=3
"""Windows come and go: what opens and closes them before an event is matched, and the parts of isolated ones.

The engine finds out which events of a batch open windows, and which close them by a condition (fastcep.engine.windows);
time and counts are watched here. To work on an isolated window its part is *entered*: its rows take the place of the
core's, so that everything else needs to know nothing of windows.
"""
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memset

from fastcep._core.core cimport Core, read_key, stores_of
from fastcep._core.decide cimport decide
from fastcep._core.memory cimport give_back, obtain
from fastcep._core.pending cimport pending_clear, pending_init
from fastcep._core.policy cimport limit_is_reached, partition_of
from fastcep._core.remove cimport drop_rowless
from fastcep._core.shed cimport kept_out
from fastcep._core.starts cimport drop_first, starts_clear, starts_init
from fastcep._core.store cimport Index, find, index_clear, index_init
from fastcep._core.tables cimport Edge, Leaf
from fastcep._core.timeout cimport collect
from fastcep._core.windows cimport (
    AFTER_EVENTS, AFTER_TIME, Opened, Part, Windows, add_window, window_at, window_of, windows_bytes,
)

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
    _end(core, window)
    if core.is_shared:
        while core.starts.first < core.starts.next and (
                core.starts.window[core.starts.first & core.starts.mask] < windows.first):
            drop_first(&core.starts)


cdef void _end(Core* core, Opened* window) noexcept nogil:
    """Forget what is in a window, and the window itself as soon as it is the first one."""
    cdef Windows* windows = &core.windows
    window.closed = True
    drop_part(core, window)
    while windows.first < windows.next and window_at(windows, windows.first).closed:
        windows.first += 1


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


cdef void set_able(Core* core, Opened* window) noexcept nogil:
    """Note what events may do in the window that is entered."""
    window.able = _able(core)


cdef uint64_t _able(const Core* core) noexcept nogil:
    """Members whose events may do anything in the window that is entered."""
    cdef uint64_t able = core.able.begins
    cdef int i
    for i in range(core.n_negations):
        if core.able.settles[i] and core.indexes[core.n_indexes + i].n_buckets > 0:
            able &= ~core.able.settles[i]
    for i in range(core.n_indexes):
        if core.indexes[i].n_buckets > 0:
            able |= core.able.extends[i]
    if core.starts.first < core.starts.next:
        able |= core.able.watches
    return able


cdef bint enter(Core* core, Opened* window) noexcept nogil:
    """Let the window's part take the place of the core's own; False without memory for it."""
    cdef Part* part = window.part
    if part == NULL:
        part = _new_part(core)
        if part == NULL:
            core.failed = True
            return False
        window.part = part
    core.starts = part.starts
    core.indexes = part.indexes
    core.pending = part.pending
    core.reported = window.reported
    core.opened = window.position
    core.window_id = window.id
    core.window_time = window.time
    core.window_birth = core.next_birth
    core.elsewhere -= core.starts.live
    return True


cdef void leave(Core* core, Opened* window) noexcept nogil:
    """Put the part back; give it up when the window has reported all that it may."""
    cdef Part* part = window.part
    cdef int64_t last = (core.starts.next - 1) & core.starts.mask
    if core.removes and not core.failed:
        drop_rowless(core)
    elif core.starts.first < core.starts.next and core.starts.rows[last] == 0 and core.starts.node[last] < 0:
        core.starts.next -= 1  # the event began nothing
    if core.next_birth != core.window_birth or core.n_negations > 0:
        set_able(core, window)
    part.starts = core.starts
    part.indexes = core.indexes
    part.pending = core.pending
    if not core.failed:  # else what it counted last is withdrawn
        window.reported = core.reported
    core.elsewhere += core.starts.live
    core.peak = max(core.peak, core.elsewhere)
    core.starts = core.outside.starts
    core.indexes = core.outside.indexes
    core.pending = core.outside.pending
    if core.limit > 0 and core.n_counts == 0 and window.reported >= core.limit:
        _end(core, window)


cdef Part* _new_part(Core* core) noexcept nogil:
    cdef int64_t bytes = part_bytes(core)
    cdef Part* part = <Part*>obtain(&core.budget, bytes)
    cdef Index* index
    cdef int i, n = stores_of(core)
    if part == NULL:
        return NULL
    memset(part, 0, bytes)
    part.indexes = <Index*>(part + 1)
    pending_init(&part.pending, &core.budget, core.outside.pending.width)
    if starts_init(&part.starts, &core.budget, core.window_kind, core.window) < 0:
        _free_part(core, part)
        return NULL
    for i in range(n):
        index = core.outside.indexes + i
        if index_init(part.indexes + i, &core.budget, index.words, index.fixed, index.columns) < 0:
            _free_part(core, part)
            return NULL
    return part


cdef void _free_part(Core* core, Part* part) noexcept nogil:
    cdef int i
    for i in range(stores_of(core)):
        index_clear(part.indexes + i)
    starts_clear(&part.starts)
    pending_clear(&part.pending)
    give_back(&core.budget, part, part_bytes(core))


cdef int64_t part_bytes(const Core* core) noexcept nogil:
    """Bytes of a part, with its indexes' heads behind it, without what they hold."""
    return sizeof(Part) + stores_of(core) * sizeof(Index)


cdef Index* counts_of(const Core* core, const Part* part) noexcept nogil:
    """Where the matches of each partition are counted that a window has reported."""
    return part.indexes + stores_of(core) - 1


cdef void drop_part(Core* core, Opened* window) noexcept nogil:
    """Forget what is in a window, which stays open if it is; how many matches it has reported is not forgotten."""
    cdef Index counts
    cdef bint counted = False
    window.able = 0 if window.closed else core.windows.able
    if window.part == NULL:
        return
    if core.n_counts > 0 and not window.closed and counts_of(core, window.part).n_buckets > 0:
        counts = counts_of(core, window.part)[0]
        memset(counts_of(core, window.part), 0, sizeof(Index))
        counted = True
    core.elsewhere -= window.part.starts.live
    _free_part(core, window.part)
    window.part = _new_part(core) if counted else NULL
    if counted and window.part != NULL:
        index_clear(counts_of(core, window.part))
        counts_of(core, window.part)[0] = counts
    elif counted:
        index_clear(&counts)


cdef void end_parts(Core* core) noexcept nogil:
    """Give all memory of the windows back."""
    cdef int64_t number
    for number in range(core.windows.first, core.windows.next):
        drop_part(core, window_at(&core.windows, number))
    give_back(&core.budget, core.windows.ring, windows_bytes(&core.windows))
    core.windows.ring = NULL
    core.windows.first = core.windows.next
