# Join the events of the first two variables in the factorised store. See join.pyx.
from libc.stdint cimport int32_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Step
from fastcep._core.state.core cimport Core


cdef void join(Core* core, const Step* step, const Bucket* bucket, int first, const int32_t* rows, int n,
               int k) noexcept nogil
