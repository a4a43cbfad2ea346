# Extend partial matches by an event along one edge. See extend.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, find
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core, read_key


cdef void begin(Core* core, int edge_number, int k, int64_t position, int64_t time) noexcept nogil
cdef void extend(Core* core, int edge_number, Bucket* bucket, int k, int64_t position) noexcept nogil


cdef inline Bucket* probe(Core* core, const Edge* edge, int k) noexcept nogil:
    """Return the bucket whose rows event ``k`` of the chunk may extend along the edge; NULL if no row is alive."""
    cdef Index* index = core.indexes + edge.index
    cdef const int64_t* data
    cdef Bucket* bucket
    cdef int64_t* key = core.key
    cdef int64_t number, fixed = index.fixed, kept_from = core.starts.kept
    cdef int head, end
    if not read_key(edge.probe, edge.n_probe, k, key):
        return NULL
    if index.n_buckets == 0:
        return NULL
    number = find(index, key)
    if number < 0:
        return NULL
    bucket = bucket_at(index, number)
    data = bucket.data
    head = bucket.head
    end = bucket.size
    while head < end and data[head * fixed] < kept_from:
        head += 1
    bucket.head = head
    return bucket if head < end else NULL
