# Partial matches whose window has ended. See timeout.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef void collect(Core* core, int64_t first, int64_t end) noexcept nogil
