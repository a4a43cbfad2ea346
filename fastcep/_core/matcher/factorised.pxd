# The factorised store: events are kept, and the walk back from the last one. See factorised.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.state.core cimport Core


cdef void complete(Core* core, int k, int64_t position) noexcept nogil
cdef void keep(Core* core, uint64_t members, int k, int64_t position) noexcept nogil
