# Explicit windows that are open. See open_windows.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.pending_matches cimport Pending
from fastcep._core.memory.row_store cimport Index
from fastcep._core.memory.starts cimport Starts


cdef enum:              # how windows close, as in fastcep.plan
    AFTER_TIME
    AFTER_EVENTS
    ON_EVENT


cdef struct Part:            # what an isolated window holds for itself
    Starts starts
    Index* indexes
    Pending pending


cdef struct Opened:
    int64_t position         # of the event that opened it,
    int64_t time
    int64_t id               # and its sequence number
    int64_t reported         # matches, where there is a limit
    uint64_t able            # isolated: members whose events may do anything in it
    bint closed
    Part* part               # NULL: shared mode, nothing in it yet, or its limit is reached


cdef struct Windows:
    Budget* budget
    uint64_t able            # in a window without rows
    Opened* ring             # of ordinals [first, next); the first is open
    int64_t mask, first, next
    int closing
    int64_t length           # ns or events
    const int64_t* opens     # of the batch, ascending: places of events that open one
    const int64_t* ids
    int64_t n_opens, next_open
    const int64_t* closes    # places of events that close one, and positions of those that opened it
    const int64_t* closed
    int64_t n_closes, next_close


cdef inline Opened* window_at(const Windows* windows, int64_t ordinal) noexcept nogil:
    return windows.ring + (ordinal & windows.mask)


cdef int add_window(Windows* windows, Starts* starts, int64_t position, int64_t time, int64_t id) noexcept nogil
cdef int64_t window_of(const Windows* windows, int64_t position) noexcept nogil
cdef int64_t windows_bytes(const Windows* windows) noexcept nogil
