# The factorised store: kept events, and the walk back from the last one. See factorised.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.core cimport Core


cdef void match_factorised(Core* core, uint64_t members, int k, int64_t position) noexcept nogil
