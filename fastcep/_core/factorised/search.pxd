# The enumeration of matches in the factorised store. See search.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.state.core cimport Core


cdef void enumerate_matches(Core* core, Bucket* candidates, int end, int k, int64_t position) noexcept nogil
