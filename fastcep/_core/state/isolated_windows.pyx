# cython: language_level=3
"""The state of isolated windows.

Each isolated window has a *part*: its own starts, indexes and waiting matches. To work on a window, the matcher
*enters* it: the part replaces the starts, indexes and waiting matches of the core. All other code is independent of
windows.
"""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport give_back, obtain
from fastcep._core.memory.open_windows cimport Opened, Part, Windows, window_at, windows_bytes
from fastcep._core.memory.pending_matches cimport pending_clear, pending_init
from fastcep._core.memory.row_store cimport Index, index_clear, index_init
from fastcep._core.memory.starts cimport starts_clear, starts_init
from fastcep._core.state.core cimport Core, stores_of
from fastcep._core.state.remove_rows cimport drop_rowless


cdef bint enter(Core* core, Opened* window) noexcept nogil:
    """Replace the starts, indexes and waiting matches of the core by those of a window; False without memory."""
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
    core.live_in_windows -= core.starts.live
    return True


cdef void leave(Core* core, Opened* window) noexcept nogil:
    """Move the state back from the core to the window; end the window if it has reached its limit of matches."""
    cdef Part* part = window.part
    cdef int64_t last = (core.starts.next - 1) & core.starts.mask
    if core.removes and not core.failed:
        drop_rowless(core)
    elif core.starts.first < core.starts.next and core.starts.rows[last] == 0 and core.starts.node[last] < 0:
        core.starts.next -= 1  # the event began no partial match
    if core.next_birth != core.window_birth or core.n_negations > 0:
        set_relevant(core, window)
    part.starts = core.starts
    part.indexes = core.indexes
    part.pending = core.pending
    if not core.failed:  # after a failure, the matches counted last are withdrawn
        window.reported = core.reported
    core.live_in_windows += core.starts.live
    core.peak = max(core.peak, core.live_in_windows)
    core.starts = core.outside.starts
    core.indexes = core.outside.indexes
    core.pending = core.outside.pending
    if core.limit > 0 and core.n_counts == 0 and window.reported >= core.limit:
        end_window(core, window)


cdef void set_relevant(Core* core, Opened* window) noexcept nogil:
    """Update the variables whose events can have an effect in the window that is entered."""
    window.relevant = _relevant_variables(core)


cdef uint64_t _relevant_variables(const Core* core) noexcept nogil:
    """Return the variables whose events can have an effect in the window that is entered, as a bit set."""
    cdef uint64_t relevant = core.relevance.begins
    cdef int i
    for i in range(core.n_negations):
        if core.relevance.settles[i] and core.indexes[core.n_indexes + i].n_buckets > 0:
            relevant &= ~core.relevance.settles[i]
    for i in range(core.n_indexes):
        if core.indexes[i].n_buckets > 0:
            relevant |= core.relevance.extends[i]
    if core.starts.first < core.starts.next:
        relevant |= core.relevance.watches
    return relevant


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
    if starts_init(&part.starts, &core.budget, core.window_kind, core.window, core.longest) < 0:
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
    """Return the bytes of a part and of its ``Index`` structs, which follow it, without their contents."""
    return sizeof(Part) + stores_of(core) * sizeof(Index)


cdef Index* counts_of(const Core* core, const Part* part) noexcept nogil:
    """Return the index that counts the matches that a window has reported, by partition."""
    return part.indexes + stores_of(core) - 1


cdef void drop_part(Core* core, Opened* window) noexcept nogil:
    """Drop the contents of a window. An open window stays open and keeps its number of reported matches."""
    cdef Index counts
    cdef bint keeps_counts = False
    window.relevant = 0 if window.closed else core.windows.relevant
    if window.part == NULL:
        return
    if core.n_counts > 0 and not window.closed and counts_of(core, window.part).n_buckets > 0:
        counts = counts_of(core, window.part)[0]
        memset(counts_of(core, window.part), 0, sizeof(Index))
        keeps_counts = True
    core.live_in_windows -= window.part.starts.live
    _free_part(core, window.part)
    window.part = _new_part(core) if keeps_counts else NULL
    if keeps_counts and window.part != NULL:
        index_clear(counts_of(core, window.part))
        counts_of(core, window.part)[0] = counts
    elif keeps_counts:
        index_clear(&counts)


cdef void end_window(Core* core, Opened* window) noexcept nogil:
    """Close a window and drop its contents; the ring drops the window once all older windows are closed."""
    cdef Windows* windows = &core.windows
    window.closed = True
    drop_part(core, window)
    while windows.first < windows.next and window_at(windows, windows.first).closed:
        windows.first += 1


cdef void end_parts(Core* core) noexcept nogil:
    """Free all memory of the windows."""
    cdef int64_t ordinal
    for ordinal in range(core.windows.first, core.windows.next):
        drop_part(core, window_at(&core.windows, ordinal))
    give_back(&core.budget, core.windows.ring, windows_bytes(&core.windows))
    core.windows.ring = NULL
    core.windows.first = core.windows.next
