# Turn staged children into rows and matches. See commit.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef void commit(Core* core, int64_t j, int64_t position) noexcept nogil
