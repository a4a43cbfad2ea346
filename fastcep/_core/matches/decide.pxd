# Matches that wait for the time at which they are decided. See decide.pyx.
from libc.stdint cimport int64_t

from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core


cdef void defer(Core* core, int number, int64_t j, int64_t time) noexcept nogil
cdef void decide(Core* core, int64_t time, bint everything) noexcept nogil
cdef void drop_pending(Core* core) noexcept nogil
