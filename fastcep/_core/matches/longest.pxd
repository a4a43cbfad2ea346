# SELECT longest. See longest.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef void keep_longest(Core* core, int number, int64_t j) noexcept nogil
cdef void note_extended(Core* core, int64_t start, int64_t position) noexcept nogil
cdef void settle(Core* core, int k, int64_t position) noexcept nogil
cdef void decide_longest(Core* core, int64_t time, bint everything) noexcept nogil
