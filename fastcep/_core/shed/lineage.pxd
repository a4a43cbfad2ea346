# Record of the lineage of partial matches. See lineage.pyx.
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport mixed
from fastcep._core.state.lineage_tables cimport RECORD_AT, LineageTables


cdef void observe_init(LineageTables* observed) noexcept nogil
cdef void observe_free(LineageTables* observed) noexcept nogil
cdef void note_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                        int64_t event_class) noexcept nogil
cdef void note_values(Core* core, const Edge* edge, int n) noexcept nogil
cdef void note_tried(Core* core, int variable, int k, int64_t position) noexcept nogil
cdef void note_place(Core* core, int64_t word, int index, const int64_t* key, int words) noexcept nogil
cdef void note_places(Core* core, int index, int words, int n) noexcept nogil
cdef void note_probe(Core* core, const Edge* edge, Bucket* bucket, int visited, int64_t event_class) noexcept nogil
cdef void note_matches(Core* core, const int64_t* words, int64_t n) noexcept nogil


cdef inline int64_t extend_name(int64_t name, int64_t word) noexcept nogil:
    """Return the hash of a bucket's name and one more word of its key."""
    return <int64_t>(mixed(<uint64_t>name) * 31 + mixed(<uint64_t>word + 0x9E3779B97F4A7C15ULL))


cdef inline int64_t bucket_name(const Core* core, int index) noexcept nogil:
    """Return the name of the buckets of an index, of the current window if windows are isolated, without a key."""
    return extend_name(index, core.window_id if core.is_isolated else 0)
