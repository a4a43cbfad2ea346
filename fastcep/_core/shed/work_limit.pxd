# The work for one event, cut off. See work_limit.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.state.core cimport Core


cdef void cut_event(Core* core) noexcept nogil
cdef bint cut_begin(Core* core, int e) noexcept nogil
cdef int cut_off(Core* core, int e, const Bucket* bucket, int first, int end) noexcept nogil
