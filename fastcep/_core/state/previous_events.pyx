# cython: language_level=3
"""The last event of every partition, for contiguity: find the previous event of an event, and rows that cannot
continue.

The last events are in an index with one row per key, whose only word is the position. Contiguity compares the previous
event with events that live partial matches bind, so a row is dead when its position is before the oldest live start.
Sweeps, which run between chunks of events, then remove it; the next event of that partition has no previous event.
"""
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t

from fastcep._core.input.batch cimport Events
from fastcep._core.memory.row_store cimport Bucket, Index, append, bucket_at, find, find_or_add, key_of
from fastcep._core.program.plan_tables cimport IndexInfo
from fastcep._core.state.core cimport Core
from fastcep._core.state.key_partition cimport is_in_part


cdef int find_previous(Core* core, int64_t* previous, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Write, for each event, the position of the previous event in its partition (-1: none). Returns -1 without memory.

    The ``m`` events begin at row ``base`` of the batch. An event with a null or NaN is in no partition.
    """
    cdef Index* index = &core.partitions
    cdef const int64_t** data = events.data
    cdef const uint8_t** null = events.null
    cdef Bucket* bucket
    cdef const int32_t* columns
    cdef int64_t number
    cdef double value
    cdef int k, w, words = index.words
    for k in range(m):
        previous[k] = -1
        if core.parts > 1 and not is_in_part(core, events, base + k):
            continue
        columns = core.partition + events.types[base + k] * words
        for w in range(words):
            if columns[w] < 0 or (null[columns[w]] != NULL and null[columns[w]][base + k]):
                break
            core.key[w] = data[columns[w]][base + k]
            if core.partition_floats[w]:
                value = (<const double*>data[columns[w]])[base + k]
                if value != value:
                    break
                (<double*>core.key)[w] = value + 0.0  # -0.0 equals 0.0
        else:
            number = find_or_add(index, core.key)
            if number < 0:
                return -1
            bucket = bucket_at(index, number)
            if bucket.size > 0:
                previous[k] = bucket.data[0]
            elif append(index, number, INT64_MIN) < 0:
                return -1
            bucket.data[0] = events.position + base + k
    return 0


cdef void drop_cut_off(Core* core) noexcept nogil:
    """Empty the buckets whose rows need an event right after an event that is no longer the last one.

    The next sweep frees them. Afterwards, the oldest starts may have no rows.
    """
    cdef Bucket* bucket
    cdef int64_t* rows = core.starts.rows
    cdef int64_t b, r, start
    cdef int i
    for i in range(core.n_indexes):
        for b in range(core.indexes[i].n_buckets if core.infos[i].latest >= 0 else 0):
            bucket = bucket_at(core.indexes + i, b)
            if key_of(bucket)[core.infos[i].latest] == _last_event(core, core.infos + i, bucket):
                continue
            for r in range(bucket.head, bucket.size):
                start = bucket.data[r * core.indexes[i].fixed]
                if start >= core.starts.first:
                    rows[start & core.starts.mask] -= 1
                    core.starts.live -= 1
            bucket.head = bucket.size = 0


cdef inline int64_t _last_event(Core* core, const IndexInfo* info, Bucket* bucket) noexcept nogil:
    """Return the position of the last event in the stream, or in the partition of the rows of a bucket."""
    cdef int64_t number
    cdef int w
    if core.partition == NULL:
        return core.last
    for w in range(core.partitions.words):
        core.key[w] = key_of(bucket)[info.partition[w]]
    number = find(&core.partitions, core.key)
    return -1 if number < 0 else bucket_at(&core.partitions, number).data[0]
