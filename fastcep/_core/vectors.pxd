# Growing arrays of int64 that NumPy and Arrow take over without a copy. See vectors.pyx.
from libc.stdint cimport int64_t


cdef struct Vec:
    int64_t* data
    int64_t size
    int64_t capacity
    int64_t hint             # what the next filling will probably need


cdef int reserve(Vec* vec, int64_t needed) noexcept nogil
cdef object take(Vec* vec)
cdef bint regrow(void** data, int64_t capacity, int width) noexcept nogil


cdef inline int push(Vec* vec, int64_t value) noexcept nogil:
    if vec.size == vec.capacity and reserve(vec, vec.size + 1) < 0:
        return -1
    vec.data[vec.size] = value
    vec.size += 1
    return 0
