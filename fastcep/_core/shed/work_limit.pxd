# Limit of the work for one event. See work_limit.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core


cdef void cut_event(Core* core) noexcept nogil
cdef bint cut_begin(Core* core, int edge_number) noexcept nogil
cdef void cut_end(Core* core) noexcept nogil
cdef bint cut_off(Core* core, int edge_number, const Bucket* bucket, int* first, int* end) noexcept nogil
cdef void count_yield(Core* core, int edge_number, const Bucket* bucket, int first, int n, const int32_t* rows, int made,
                      int middle) noexcept nogil
cdef int affordable(const Core* core, int visited, int rows) noexcept nogil
cdef int affordable_children(const Core* core, const Edge* edge, int visited) noexcept nogil
cdef void pass_over(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil
