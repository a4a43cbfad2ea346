# cython: language_level=3
"""Heap of the matches that wait for the time at which they are decided: by time, then by birth.

A row holds the contents of a waiting match (see decide.pyx). Rows are reused. The heap holds each row at most once.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, give_back, regrow

cdef enum:
    FIRST_ROWS = 64


cdef void pending_init(Pending* pending, Budget* budget, int64_t width) noexcept nogil:
    """Initialise an empty heap over rows of ``width`` words."""
    memset(pending, 0, sizeof(Pending))
    pending.budget = budget
    pending.width = width
    pending.free_row = -1


cdef void pending_clear(Pending* pending) noexcept nogil:
    """Drop all matches and free the memory."""
    if pending.budget == NULL:
        return
    give_back(pending.budget, pending.heap, pending.capacity * sizeof(Due))
    give_back(pending.budget, pending.rows, pending.row_capacity * pending.width * 8)
    pending_init(pending, pending.budget, pending.width)


cdef int64_t new_row(Pending* pending) noexcept nogil:
    """Allocate a row for the caller to fill; -1 without memory."""
    cdef int64_t row = pending.free_row
    cdef int64_t capacity = max(<int64_t>FIRST_ROWS, pending.row_capacity * 2)
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
    """Free a row that is not in the heap."""
    row_at(pending, row)[0] = pending.free_row
    pending.free_row = row


cdef inline bint _before(Due one, Due other) noexcept nogil:
    return one.time < other.time or (one.time == other.time and one.birth < other.birth)


cdef int wait(Pending* pending, int64_t time, int64_t birth, int64_t row) noexcept nogil:
    """Add a row to the heap; -1 without memory."""
    cdef int64_t place = pending.size, parent, capacity = max(<int64_t>FIRST_ROWS, pending.capacity * 2)
    cdef Due new
    if place == pending.capacity:
        if not regrow(pending.budget, <void**>&pending.heap, pending.capacity, capacity, sizeof(Due)):
            return -1
        pending.capacity = capacity
    new.time, new.birth, new.row = time, birth, row
    while place > 0:
        parent = (place - 1) // 2
        if not _before(new, pending.heap[parent]):
            break
        pending.heap[place] = pending.heap[parent]
        place = parent
    pending.heap[place] = new
    pending.size += 1
    return 0


cdef Due next_due(Pending* pending) noexcept nogil:
    """Remove and return the first entry; the heap must not be empty."""
    cdef Due first = pending.heap[0], last
    cdef int64_t place = 0, child
    pending.size -= 1
    last = pending.heap[pending.size]
    while True:
        child = 2 * place + 1
        if child >= pending.size:
            break
        if child + 1 < pending.size and _before(pending.heap[child + 1], pending.heap[child]):
            child += 1
        if not _before(pending.heap[child], last):
            break
        pending.heap[place] = pending.heap[child]
        place = child
    pending.heap[place] = last
    return first


cdef void remove_marked(Pending* pending) noexcept nogil:
    """Remove and free the rows whose second word is negative."""
    cdef int64_t i, n = 0, place, child
    cdef Due due
    for i in range(pending.size):
        if row_at(pending, pending.heap[i].row)[1] < 0:
            free_row(pending, pending.heap[i].row)
        else:
            pending.heap[n] = pending.heap[i]
            n += 1
    pending.size = n
    for i in range(n // 2 - 1, -1, -1):
        due, place = pending.heap[i], i
        while 2 * place + 1 < n:
            child = 2 * place + 1
            if child + 1 < n and _before(pending.heap[child + 1], pending.heap[child]):
                child += 1
            if not _before(pending.heap[child], due):
                break
            pending.heap[place] = pending.heap[child]
            place = child
        pending.heap[place] = due
