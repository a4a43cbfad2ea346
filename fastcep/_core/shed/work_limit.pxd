# Limit of the work for one event. See work_limit.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.state.core cimport Core


cdef void cut_event(Core* core) noexcept nogil
cdef bint cut_begin(Core* core, int edge_number) noexcept nogil
cdef int cut_off(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil
