# cython: language_level=3
"""Gauges: rows, keys and bytes of indexes, and the string codes that they hold."""
from libc.stdint cimport int64_t, uint8_t

from fastcep._core.core cimport Core
from fastcep._core.decide cimport outputs_of
from fastcep._core.store cimport Bucket, Index, bucket_at, column_of, index_bytes, key_of


cdef int64_t rows_in(const Index* indexes, int n) noexcept nogil:
    """Rows, dead ones not yet removed included."""
    cdef int64_t total = 0, j
    cdef Bucket* bucket
    cdef int i
    for i in range(n):
        for j in range(indexes[i].n_buckets):
            bucket = bucket_at(indexes + i, j)
            total += bucket.size - bucket.head
    return total


cdef int64_t keys_in(const Index* indexes, int n) noexcept nogil:
    """Keys."""
    cdef int64_t total = 0
    cdef int i
    for i in range(n):
        total += indexes[i].n_buckets
    return total


cdef int64_t key_bytes_of(const Index* indexes, int n) noexcept nogil:
    """Bytes without those of the rows."""
    cdef int64_t total = 0
    cdef int i
    for i in range(n):
        total += index_bytes(indexes + i) - indexes[i].bytes
    return total


cdef inline void _mark(uint8_t* marks, int64_t limit, int64_t code) noexcept nogil:
    if 0 <= code < limit:
        marks[code] = 1


cdef void mark_codes(const Core* core, int n_outputs, uint8_t* marks, int64_t limit) noexcept nogil:
    """Set ``marks[c]`` for every word c that a key, a register or an output of a waiting match holds."""
    cdef int64_t b, j
    cdef int i, w, r
    cdef const Index* index
    cdef Bucket* bucket
    cdef const int64_t* outputs
    for i in range(core.n_stores):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for w in range(index.words):
                _mark(marks, limit, key_of(bucket)[w])
            for w in range(1, index.columns):
                for r in range(bucket.head, bucket.size):
                    _mark(marks, limit, column_of(index, bucket, w)[r])
    for j in range(core.pending.size):
        outputs = outputs_of(core, core.pending.heap[j].row)
        for i in range(n_outputs):
            _mark(marks, limit, outputs[2 * i])
