# What one matcher may hold, and what it holds. Every allocation that grows with the stream goes through here.
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc, realloc


cdef struct Budget:
    int64_t used             # bytes
    int64_t limit
    bint refused             # the last failure was the limit, not the machine


cdef inline void unlimited(Budget* budget) noexcept nogil:
    budget.used = 0
    budget.limit = INT64_MAX
    budget.refused = False


cdef inline bint claim(Budget* budget, int64_t bytes) noexcept nogil:
    """Count ``bytes`` more, if the limit allows."""
    if bytes > budget.limit - budget.used:
        budget.refused = True
        return False
    budget.used += bytes
    return True


cdef inline void* obtain(Budget* budget, int64_t bytes) noexcept nogil:
    """A new block, or NULL."""
    cdef void* block = NULL
    if claim(budget, bytes):
        block = malloc(bytes)
        if block == NULL:
            budget.used -= bytes
    return block


cdef inline void give_back(Budget* budget, void* block, int64_t bytes) noexcept nogil:
    if block != NULL:
        free(block)
        budget.used -= bytes


cdef inline void* cut(Budget* budget, void* block, int64_t old, int64_t bytes) noexcept nogil:
    """Shorten a block of ``old`` bytes. Needs no room, so that it works near the limit and beyond."""
    cdef void* shorter = realloc(block, bytes)
    budget.used -= old - bytes
    return block if shorter == NULL else shorter  # longer than counted if the machine can't, which does no harm


cdef inline bint regrow(Budget* budget, void** block, int64_t old, int64_t capacity, int width) noexcept nogil:
    """Change an array from ``old`` to ``capacity`` items of ``width`` bytes; False if it can't be (the old one stays)."""
    cdef void* grown
    if not claim(budget, (capacity - old) * width):
        return False
    grown = realloc(block[0], capacity * width)
    if grown == NULL:
        budget.used -= (capacity - old) * width
        return False
    block[0] = grown
    return True
