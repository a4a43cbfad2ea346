# The factorised store: store events, and enumerate matches from the last event back. See factorised.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.state.core cimport Core


cdef void complete_matches(Core* core, int k, int64_t position) noexcept nogil
cdef void store_event(Core* core, uint64_t variables, int k, int64_t position) noexcept nogil
