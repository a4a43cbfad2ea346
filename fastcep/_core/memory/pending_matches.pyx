# cython: language_level=3
"""Matches that wait for the time at which they are decided, earliest first, then in birth order.

A row holds what a match is made of (see decide.pyx) while it waits; rows are reused. The heap holds each row at most once.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, give_back, regrow

cdef enum:
    FIRST = 64


cdef void pending_init(Pending* pending, Budget* budget, int64_t width) noexcept nogil:
    """Make an empty heap of rows of ``width`` words."""
    memset(pending, 0, sizeof(Pending))
    pending.budget = budget
    pending.width = width
    pending.free_row = -1


cdef void pending_clear(Pending* pending) noexcept nogil:
    """Drop all and give the memory back."""
    if pending.budget == NULL:
        return
    give_back(pending.budget, pending.heap, pending.capacity * sizeof(Due))
    give_back(pending.budget, pending.rows, pending.row_capacity * pending.width * 8)
    pending_init(pending, pending.budget, pending.width)


cdef int64_t new_row(Pending* pending) noexcept nogil:
    """A row to fill; -1 without memory."""
    cdef int64_t row = pending.free_row
    cdef int64_t capacity = max(<int64_t>FIRST, pending.row_capacity * 2)
    if row >= 0:
        pending.free_row = row_at(pending, row)[0]
        return row
    if pending.n_rows == pending.row_capacity:
        if not regrow(pending.budget, <void**>&pending.rows, pending.row_capacity, capacity, <int>pending.width * 8):
            return -1
        pending.row_capacity = capacity
    pending.n_rows += 1
    return pending.n_rows - 1


cdef void free_row(Pending* pending, int64_t row) noexcept nogil:
    """Give a row back that is not in the heap."""
    row_at(pending, row)[0] = pending.free_row
    pending.free_row = row


cdef inline bint _before(Due one, Due other) noexcept nogil:
    return one.time < other.time or (one.time == other.time and one.birth < other.birth)


cdef int wait(Pending* pending, int64_t time, int64_t birth, int64_t row) noexcept nogil:
    """Put a row into the heap; -1 without memory."""
    cdef int64_t at = pending.size, above, capacity = max(<int64_t>FIRST, pending.capacity * 2)
    cdef Due new
    if at == pending.capacity:
        if not regrow(pending.budget, <void**>&pending.heap, pending.capacity, capacity, sizeof(Due)):
            return -1
        pending.capacity = capacity
    new.time, new.birth, new.row = time, birth, row
    while at > 0:
        above = (at - 1) // 2
        if not _before(new, pending.heap[above]):
            break
        pending.heap[at] = pending.heap[above]
        at = above
    pending.heap[at] = new
    pending.size += 1
    return 0


cdef Due next_due(Pending* pending) noexcept nogil:
    """Take the first entry out of a heap that has one."""
    cdef Due first = pending.heap[0], last
    cdef int64_t at = 0, below
    pending.size -= 1
    last = pending.heap[pending.size]
    while True:
        below = 2 * at + 1
        if below >= pending.size:
            break
        if below + 1 < pending.size and _before(pending.heap[below + 1], pending.heap[below]):
            below += 1
        if not _before(pending.heap[below], last):
            break
        pending.heap[at] = pending.heap[below]
        at = below
    pending.heap[at] = last
    return first
