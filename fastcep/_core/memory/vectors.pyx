# cython: language_level=3
"""Growing int64 arrays: ``nogil`` code doubles them, and their memory passes to NumPy at the end of a call.

Small arrays come from ``malloc``. From ``LARGE`` items on, they are mappings of huge pages (``pages.h``), which grow
without a copy and cause 1/512 of the page faults. Up to ``SPARES`` freed mappings, of at most ``SPARE_BYTES`` in total,
are kept for reuse: clearing pages, and finding huge pages in fragmented memory, costs more than filling them.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

import numpy as np

from fastcep._core.memory.allocator cimport Budget, claim, unlimited

cdef extern from "pages.h":
    enum:
        FC_PAGE
    void* fc_pages_grow(void*, size_t, size_t) noexcept nogil
    size_t fc_pages_trim(void*, size_t, size_t) noexcept nogil
    void fc_pages_free(void*, size_t) noexcept nogil

cdef extern from *:
    bint __sync_lock_test_and_set(int*, int) noexcept nogil
    void __sync_lock_release(int*) noexcept nogil

cdef enum:
    LARGE = 1 << 19          # items, 4 MiB
    SPARES = 8
    SPARE_BYTES = 1 << 27

cdef struct Spare:
    void* block
    int64_t bytes

cdef Spare spares[SPARES]
cdef int64_t spare_bytes = 0
cdef int spares_locked = 0   # a lock; a thread that does not get it at once works without spare blocks


cdef void* _take_spare(int64_t* bytes) noexcept nogil:
    """Take the spare block that fits ``bytes`` best, or return NULL; sets ``bytes`` to the size of the block."""
    global spare_bytes
    cdef void* block = NULL
    cdef int i, best = -1
    if __sync_lock_test_and_set(&spares_locked, 1):
        return NULL
    for i in range(SPARES):
        if spares[i].block != NULL and (best < 0 or _fits_better(spares[i].bytes, spares[best].bytes, bytes[0])):
            best = i
    if best >= 0:
        block = spares[best].block
        bytes[0] = spares[best].bytes
        spare_bytes -= spares[best].bytes
        spares[best].block = NULL
    __sync_lock_release(&spares_locked)
    return block


cdef inline bint _fits_better(int64_t one, int64_t other, int64_t needed) noexcept nogil:
    """Return True if a block of ``one`` bytes fits better than one of ``other`` bytes.

    The best fit is the smallest block that is large enough; if none is, the largest block.
    """
    if one >= needed:
        return other < needed or one < other
    return other < needed and one > other


cdef void _spare_or_free(void* block, int64_t bytes) noexcept nogil:
    """Keep a block as a spare one if the limits allow; otherwise free it."""
    global spare_bytes
    cdef int i
    if not __sync_lock_test_and_set(&spares_locked, 1):
        for i in range(SPARES if spare_bytes + bytes <= SPARE_BYTES else 0):
            if spares[i].block == NULL:
                spares[i].block = block
                spares[i].bytes = bytes
                spare_bytes += bytes
                block = NULL
                break
        __sync_lock_release(&spares_locked)
    if block != NULL:
        fc_pages_free(block, bytes)


cdef void* _map(Budget* budget, int64_t* bytes) noexcept nogil:
    """Return a block of at least ``bytes``, a multiple of huge pages; NULL without memory. Sets ``bytes`` to its size.

    A larger spare block keeps its size, so that an array that grows again finds its pages mapped. With a memory limit,
    the block is trimmed: the bytes that a matcher holds must not depend on the blocks that other matchers have freed.
    """
    cdef int64_t spare_size = bytes[0]
    cdef void* block = _take_spare(&spare_size)
    cdef void* grown
    if block == NULL:
        return fc_pages_grow(NULL, 0, bytes[0])
    if spare_size > bytes[0] and budget.limit == INT64_MAX:
        budget.used += spare_size - bytes[0]
        bytes[0] = spare_size
        return block
    if spare_size == bytes[0]:
        return block
    grown = fc_pages_grow(block, spare_size, bytes[0])
    if grown == NULL:
        fc_pages_free(block, spare_size)
    return grown


cdef int64_t _rounded(int64_t capacity) noexcept nogil:
    """Return a capacity; for a large array it is rounded up to whole huge pages."""
    cdef int64_t items = FC_PAGE // sizeof(int64_t)
    return capacity if capacity < LARGE else (capacity + items - 1) // items * items


cdef int reserve(Vec* vec, int64_t needed) noexcept nogil:
    """Make room for ``needed`` items; -1 without memory."""
    cdef int64_t capacity = max(64, vec.capacity if vec.capacity else vec.hint)
    cdef int64_t width = sizeof(int64_t), bytes
    cdef void* grown
    while capacity < needed:
        capacity *= 2
    capacity = _rounded(capacity)
    if not claim(vec.budget, (capacity - vec.capacity) * width):
        capacity = _rounded(needed + needed // 16)
        if not claim(vec.budget, (capacity - vec.capacity) * width):
            return -1
        vec.budget.refused = False
    if capacity < LARGE:
        grown = realloc(vec.data, capacity * width)
    elif vec.capacity >= LARGE:
        grown = fc_pages_grow(vec.data, vec.capacity * width, capacity * width)
    else:
        bytes = capacity * width
        grown = _map(vec.budget, &bytes)
        capacity = bytes // width
        if grown != NULL and vec.size > 0:
            memcpy(grown, vec.data, vec.size * width)
        if grown != NULL:
            free(vec.data)
    if grown == NULL:
        vec.budget.used -= (capacity - vec.capacity) * width
        return -1
    vec.data = <int64_t*>grown
    vec.capacity = capacity
    return 0


cdef void _release(int64_t* data, int64_t capacity) noexcept nogil:
    if capacity >= LARGE:
        _spare_or_free(data, capacity * sizeof(int64_t))
    else:
        free(data)


cdef void vec_free(Vec* vec) noexcept nogil:
    """Free all memory."""
    _release(vec.data, vec.capacity)
    if vec.budget != NULL:
        vec.budget.used -= vec.capacity * sizeof(int64_t)
    vec.data = NULL
    vec.size = vec.capacity = 0


cdef class Buffer:
    """Owner of an int64 array that it exports through the buffer protocol, so that NumPy and Arrow need no copy."""
    cdef int64_t* data
    cdef int64_t bytes               # bytes of the mapping; 0: the array comes from malloc
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]

    def __dealloc__(self):
        if self.bytes:
            _spare_or_free(self.data, self.bytes)
        else:
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


def repeated(const int64_t[::1] values, const int64_t[::1] counts):
    """Return ``np.repeat(values, counts)`` in memory that this module manages."""
    cdef Budget budget
    cdef Vec vec
    cdef int64_t total = 0, i
    cdef int64_t* to
    for i in range(counts.shape[0]):
        total += counts[i]
    unlimited(&budget)
    memset(&vec, 0, sizeof(Vec))
    vec.budget = &budget
    if reserve(&vec, total + FILL_SLACK) < 0:
        raise MemoryError("no memory for the matches")
    vec.size = total
    to = vec.data
    with nogil:
        for i in range(counts.shape[0]):
            fill_blocks(to, values[i], counts[i])
            to += counts[i]
    return take(&vec)


cdef object adopt_array(int64_t* data, int64_t size):
    """Return a NumPy array of ``size`` items that takes over ``data``, which comes from ``malloc``."""
    cdef Buffer owner = Buffer.__new__(Buffer)
    owner.data = data
    owner.shape[0] = size
    return np.asarray(owner)


cdef object take(Vec* vec):
    """Return a NumPy array that takes over the memory of a vector; the vector is empty afterwards."""
    cdef Buffer owner
    cdef void* trimmed
    cdef int64_t width = sizeof(int64_t)
    vec.hint = max(vec.size + vec.size // 8, vec.hint // 2)
    if vec.size == 0:
        vec_free(vec)  # an emitted output may have been withdrawn
        return np.empty(0, np.int64)
    owner = Buffer.__new__(Buffer)
    if vec.capacity >= LARGE:
        owner.data = vec.data
        owner.bytes = fc_pages_trim(vec.data, vec.capacity * width, vec.size * width)
    else:
        trimmed = realloc(vec.data, vec.size * width)
        owner.data = <int64_t*>(trimmed if trimmed != NULL else vec.data)
    owner.shape[0] = vec.size
    vec.budget.used -= vec.capacity * width
    vec.data = NULL
    vec.size = 0
    vec.capacity = 0
    return np.asarray(owner)
