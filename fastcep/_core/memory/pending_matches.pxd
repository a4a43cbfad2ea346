# Matches that wait for the end of their window: a heap by (time, birth) over rows. See pending_matches.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.allocator cimport Budget


cdef enum:
    HEAD = 3                # words of a row before its bindings; see decide.pyx


cdef struct Due:            # an entry of the heap
    int64_t time
    int64_t birth
    int64_t row


cdef struct Pending:
    Budget* budget
    Due* heap
    int64_t size
    int64_t capacity
    int64_t width            # words per row
    int64_t* rows
    int64_t n_rows           # allocated rows, including free ones
    int64_t row_capacity
    int64_t free_row         # head of the free list, whose links are in word 0 of the rows; -1: empty


cdef void pending_init(Pending* pending, Budget* budget, int64_t width) noexcept nogil
cdef void pending_clear(Pending* pending) noexcept nogil
cdef int64_t new_row(Pending* pending) noexcept nogil
cdef void free_row(Pending* pending, int64_t row) noexcept nogil
cdef int wait(Pending* pending, int64_t time, int64_t birth, int64_t row) noexcept nogil
cdef void remove_marked(Pending* pending) noexcept nogil
cdef Due next_due(Pending* pending) noexcept nogil


cdef inline int64_t* row_at(const Pending* pending, int64_t row) noexcept nogil:
    """Return the words of a row."""
    return pending.rows + row * pending.width


cdef inline int64_t pending_bytes(const Pending* pending) noexcept nogil:
    """Return the bytes of the heap and of the rows."""
    return pending.capacity * sizeof(Due) + pending.row_capacity * pending.width * 8


cdef inline const int64_t* outputs_of(const Pending* pending, int n_slots, int64_t row) noexcept nogil:
    """Return the outputs of a waiting match, each followed by its null flag; outputs that its state lacks are 0."""
    return row_at(pending, row) + HEAD + n_slots
