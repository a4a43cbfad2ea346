# The open explicit windows. See open_windows.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.pending_matches cimport Pending
from fastcep._core.memory.row_store cimport Index
from fastcep._core.memory.starts cimport Starts


cdef enum:              # how windows close, as in fastcep.plan
    AFTER_TIME
    AFTER_EVENTS
    ON_EVENT


cdef struct Part:            # the state of an isolated window
    Starts starts
    Index* indexes
    Pending pending


cdef struct Opened:
    int64_t position         # position of the event that opened it
    int64_t time             # time of that event
    int64_t id               # sequence number of that event
    uint64_t draw            # hash of the position, for the draws of load shedding in the window
    int64_t reported         # matches reported so far, counted if the query has a limit
    uint64_t relevant        # isolated mode: bit set of the variables whose events can have an effect in the window
    bint closed
    Part* part               # NULL: shared mode, an empty window, or a window that has reached its limit


cdef struct Windows:
    Budget* budget
    uint64_t relevant        # ``Opened.relevant`` of a window without rows
    Opened* ring             # windows by ordinal, [first, next); the first one is open
    int64_t mask, first, next
    int closing              # AFTER_TIME, AFTER_EVENTS or ON_EVENT
    int64_t length           # ns or events
    const int64_t* opens     # rows of the batch whose events open a window, ascending
    const int64_t* ids       # per opening event: its sequence number
    int64_t n_opens, next_open
    const int64_t* closes    # rows of the batch whose events close a window
    const int64_t* closed    # per closing event: position of the event that opened the window
    int64_t n_closes, next_close


cdef inline Opened* window_at(const Windows* windows, int64_t ordinal) noexcept nogil:
    """Return the window with this ordinal."""
    return windows.ring + (ordinal & windows.mask)


cdef int add_window(
    Windows* windows, Starts* starts, int64_t position, int64_t time, int64_t id, uint64_t draw) noexcept nogil
cdef int64_t window_of(const Windows* windows, int64_t position) noexcept nogil
cdef int64_t windows_bytes(const Windows* windows) noexcept nogil
