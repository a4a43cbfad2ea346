# cython: language_level=3
"""Gauges: number of rows and keys and bytes of all indexes, those of windows included, and the string codes in use."""
from libc.stdint cimport INT64_MAX, int64_t, uint8_t

from fastcep._core.memory.open_windows cimport window_at
from fastcep._core.memory.pending_matches cimport Pending, outputs_of
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, column_of, index_bytes, key_of
from fastcep._core.memory.starts cimport Starts, starts_bytes
from fastcep._core.state.core cimport Core, stores_of


cdef const Index* indexes_of(const Core* core, int64_t ordinal) noexcept nogil:
    """Return the indexes of a window, NULL if it has no part; for ordinal ``first - 1``, those of the core."""
    if ordinal < core.windows.first:
        return core.indexes
    return NULL if window_at(&core.windows, ordinal).part == NULL else window_at(&core.windows, ordinal).part.indexes


cdef int64_t rows_in(const Core* core, int first, int end) noexcept nogil:
    """Return the number of rows in indexes ``first:end``, including dead rows that are not removed yet."""
    cdef int64_t total = 0, ordinal, j
    cdef const Index* indexes
    cdef Bucket* bucket
    cdef int i
    for ordinal in range(core.windows.first - 1, core.windows.next):
        indexes = indexes_of(core, ordinal)
        for i in range(first, end if indexes != NULL else first):
            for j in range(indexes[i].n_buckets):
                bucket = bucket_at(indexes + i, j)
                total += bucket.size - bucket.head
    return total


cdef int64_t keys_in(const Core* core) noexcept nogil:
    """Return the number of keys in all indexes, and of partitions."""
    cdef int64_t total = core.partitions.n_buckets, ordinal
    cdef const Index* indexes
    cdef int i
    for ordinal in range(core.windows.first - 1, core.windows.next):
        indexes = indexes_of(core, ordinal)
        for i in range(stores_of(core) if indexes != NULL else 0):
            total += indexes[i].n_buckets
    return total


cdef int64_t key_bytes(const Core* core) noexcept nogil:
    """Return the bytes of all indexes without their rows."""
    cdef int64_t total = index_bytes(&core.partitions) if core.partition != NULL else 0, ordinal
    cdef const Index* indexes
    cdef int i
    for ordinal in range(core.windows.first - 1, core.windows.next):
        indexes = indexes_of(core, ordinal)
        for i in range(stores_of(core) if indexes != NULL else 0):
            total += index_bytes(indexes + i) - indexes[i].bytes
    return total + (index_bytes(&core.hashed) - core.hashed.bytes if core.hashed.budget != NULL else 0)


cdef int64_t row_bytes(const Core* core) noexcept nogil:
    """Return the bytes allocated for the rows of partial matches, their starts and their chain nodes."""
    cdef int64_t total = starts_bytes(&core.starts), ordinal
    cdef const Index* indexes
    cdef int i
    for ordinal in range(core.windows.first - 1, core.windows.next):
        indexes = indexes_of(core, ordinal)
        if indexes == NULL:
            continue
        if ordinal >= core.windows.first:
            total += starts_bytes(&window_at(&core.windows, ordinal).part.starts)
        for i in range(core.n_indexes):
            total += indexes[i].bytes
    return total + core.hashed.bytes


cdef int64_t waiting(const Core* core) noexcept nogil:
    """Return the number of matches that wait for the time at which they are decided."""
    cdef int64_t total = core.pending.size, ordinal
    for ordinal in range(core.windows.first, core.windows.next):
        if window_at(&core.windows, ordinal).part != NULL:
            total += window_at(&core.windows, ordinal).part.pending.size
    return total


cdef int64_t open_windows(const Core* core) noexcept nogil:
    """Return the number of open explicit windows."""
    cdef int64_t total = 0, ordinal
    for ordinal in range(core.windows.first, core.windows.next):
        total += not window_at(&core.windows, ordinal).closed
    return total


cdef int64_t first_position(const Core* core) noexcept nogil:
    """Return the position of the oldest first event of a live partial match; INT64_MAX without one."""
    cdef int64_t first = _first_start(&core.starts), ordinal
    for ordinal in range(core.windows.first, core.windows.next):
        if window_at(&core.windows, ordinal).part != NULL:
            first = min(first, _first_start(&window_at(&core.windows, ordinal).part.starts))
    return first


cdef inline int64_t _first_start(const Starts* starts) noexcept nogil:
    return INT64_MAX if starts.first == starts.next else starts.position[starts.first & starts.mask]


cdef inline void _mark(uint8_t* marks, int64_t limit, int64_t code) noexcept nogil:
    if 0 <= code < limit:
        marks[code] = 1


cdef void mark_codes(const Core* core, int n_outputs, uint8_t* marks, int64_t limit) noexcept nogil:
    """Set ``marks[c]`` for every word c that a key, a register or an output of a waiting match holds."""
    cdef int64_t ordinal
    cdef const Index* indexes
    cdef int i
    _mark_index(&core.partitions, marks, limit)
    for ordinal in range(core.windows.first - 1, core.windows.next):
        indexes = indexes_of(core, ordinal)
        if indexes == NULL:
            continue
        for i in range(stores_of(core)):
            _mark_index(indexes + i, marks, limit)
        if ordinal < core.windows.first:
            _mark_waiting(&core.pending, core.n_slots, n_outputs, marks, limit)
        else:
            _mark_waiting(&window_at(&core.windows, ordinal).part.pending, core.n_slots, n_outputs, marks, limit)


cdef void _mark_index(const Index* index, uint8_t* marks, int64_t limit) noexcept nogil:
    cdef Bucket* bucket
    cdef int64_t b
    cdef int w, r
    for b in range(index.n_buckets):
        bucket = bucket_at(index, b)
        for w in range(index.words):
            _mark(marks, limit, key_of(bucket)[w])
        for w in range(1, index.columns):
            for r in range(bucket.head, bucket.size):
                _mark(marks, limit, column_of(index, bucket, w)[r])


cdef void _mark_waiting(const Pending* pending, int n_slots, int n_outputs, uint8_t* marks, int64_t limit) noexcept nogil:
    cdef const int64_t* outputs
    cdef int64_t j
    cdef int i
    for j in range(pending.size):
        outputs = outputs_of(pending, n_slots, pending.heap[j].row)
        for i in range(n_outputs):
            _mark(marks, limit, outputs[2 * i])
