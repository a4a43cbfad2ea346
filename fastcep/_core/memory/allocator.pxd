# The memory budget of one matcher. Every allocation that grows with the stream is counted here.
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc, realloc


cdef struct Budget:
    int64_t used             # bytes allocated
    int64_t limit            # bytes
    bint refused             # the last failed request exceeded the limit; False if the system had no memory


cdef inline void unlimited(Budget* budget) noexcept nogil:
    """Initialise a budget without a limit."""
    budget.used = 0
    budget.limit = INT64_MAX
    budget.refused = False


cdef inline bint claim(Budget* budget, int64_t bytes) noexcept nogil:
    """Add ``bytes`` to the bytes in use; False if that would exceed the limit."""
    if bytes > budget.limit - budget.used:
        budget.refused = True
        return False
    budget.used += bytes
    return True


cdef inline void* obtain(Budget* budget, int64_t bytes) noexcept nogil:
    """Allocate a block; NULL without memory."""
    cdef void* block = NULL
    if claim(budget, bytes):
        block = malloc(bytes)
        if block == NULL:
            budget.used -= bytes
    return block


cdef inline void give_back(Budget* budget, void* block, int64_t bytes) noexcept nogil:
    """Free a block of ``bytes``; NULL is allowed."""
    if block != NULL:
        free(block)
        budget.used -= bytes


cdef inline void* shrink(Budget* budget, void* block, int64_t old_bytes, int64_t bytes) noexcept nogil:
    """Shorten a block from ``old_bytes`` to ``bytes``. Claims no memory, so it also works at or above the limit."""
    cdef void* shorter = realloc(block, bytes)
    budget.used -= old_bytes - bytes
    return block if shorter == NULL else shorter  # after a failure the block is longer than counted, which is harmless


cdef inline bint regrow(Budget* budget, void** block, int64_t old_capacity, int64_t capacity, int width) noexcept nogil:
    """Resize an array to ``capacity`` items of ``width`` bytes; False without memory, the array is then unchanged."""
    cdef void* grown
    if not claim(budget, (capacity - old_capacity) * width):
        return False
    grown = realloc(block[0], capacity * width)
    if grown == NULL:
        budget.used -= (capacity - old_capacity) * width
        return False
    block[0] = grown
    return True
