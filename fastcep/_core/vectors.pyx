# cython: language_level=3
"""Growing arrays: doubled with ``realloc`` inside ``nogil`` code, handed to NumPy whole when a call is over."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

import numpy as np

cdef extern from "check.h":
    void fc_huge(void*, size_t) noexcept nogil

cdef enum:
    HUGE = 1 << 22           # bytes from which huge pages are asked for: fewer page faults while output grows


cdef int reserve(Vec* vec, int64_t needed) noexcept nogil:
    cdef int64_t capacity = max(64, vec.capacity if vec.capacity else vec.hint)
    cdef void* grown
    while capacity < needed:
        capacity *= 2
    grown = realloc(vec.data, capacity * sizeof(int64_t))
    if grown == NULL:
        return -1
    vec.data = <int64_t*>grown
    vec.capacity = capacity
    if capacity * <int64_t>sizeof(int64_t) >= HUGE:
        fc_huge(grown, capacity * sizeof(int64_t))
    return 0


cdef class Buffer:
    """Owner of a malloc'd int64 array, exported through the buffer protocol (so Arrow takes it without a copy)."""
    cdef int64_t* data
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        view.buf = <void*>self.data
        view.obj = self
        view.len = self.shape[0] * sizeof(int64_t)
        view.readonly = 0
        view.itemsize = sizeof(int64_t)
        view.format = b"q"
        view.ndim = 1
        self.strides[0] = sizeof(int64_t)
        view.shape = self.shape
        view.strides = self.strides
        view.suboffsets = NULL
        view.internal = NULL

    def __releasebuffer__(self, Py_buffer* view):
        pass


cdef object take(Vec* vec):
    """Hand a vector's memory to NumPy and leave the vector empty."""
    cdef Buffer owner
    cdef void* trimmed
    vec.hint = max(vec.size + vec.size // 8, vec.hint // 2)
    if vec.size == 0:
        return np.empty(0, np.int64)
    owner = Buffer.__new__(Buffer)
    trimmed = realloc(vec.data, vec.size * sizeof(int64_t))
    owner.data = <int64_t*>(trimmed if trimmed != NULL else vec.data)
    owner.shape[0] = vec.size
    vec.data = NULL
    vec.size = 0
    vec.capacity = 0
    return np.asarray(owner)


cdef bint regrow(void** data, int64_t capacity, int width) noexcept nogil:
    """Reallocate an array; False without memory (the old one stays)."""
    cdef void* grown = realloc(data[0], capacity * width)
    if grown == NULL:
        return False
    data[0] = grown
    return True
