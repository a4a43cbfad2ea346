# Growing int64 arrays whose memory NumPy and Arrow take over without a copy. See vectors.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.allocator cimport Budget


cdef struct Vec:
    int64_t* data
    int64_t size
    int64_t capacity
    int64_t hint             # items that the next use will probably need
    Budget* budget


cdef int reserve(Vec* vec, int64_t needed) noexcept nogil
cdef void vec_free(Vec* vec) noexcept nogil
cdef object take(Vec* vec)
cdef object adopt_array(int64_t* data, int64_t size)


cdef inline int push(Vec* vec, int64_t value) noexcept nogil:
    """Append a value; -1 without memory."""
    if vec.size == vec.capacity and reserve(vec, vec.size + 1) < 0:
        return -1
    vec.data[vec.size] = value
    vec.size += 1
    return 0


cdef inline bint contains(const Vec* vec, int64_t value) noexcept nogil:
    """Return True if an ascending vector holds a value."""
    cdef int64_t low = 0, high = vec.size, middle
    while low < high:
        middle = low + (high - low) // 2
        if vec.data[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < vec.size and vec.data[low] == value


cdef inline void gather(int64_t* to, const int64_t* values, int64_t step, const int32_t* rows, int64_t n) noexcept nogil:
    """Copy ``values[rows[i] * step]`` to ``to[i]`` for ``n`` rows; ``rows`` NULL: the first ``n`` rows."""
    cdef int64_t i
    if rows == NULL:
        for i in range(n):
            to[i] = values[i * step]
    else:
        for i in range(n):
            to[i] = values[rows[i] * step]


cdef enum:
    FILL_SLACK = 7           # words that ``fill_blocks`` may write too many


cdef inline void fill_blocks(int64_t* to, int64_t value, int64_t n) noexcept nogil:
    """Write ``value`` to ``n`` items, in blocks of eight: for a few items without a branch on their number."""
    cdef int64_t i = 0
    cdef int j
    while i < n:
        for j in range(8):
            to[i + j] = value
        i += 8


cdef inline void fill(int64_t* to, int64_t value, int64_t n) noexcept nogil:
    """Write ``value`` to ``n`` items."""
    cdef int64_t i
    for i in range(n):
        to[i] = value
