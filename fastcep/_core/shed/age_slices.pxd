# Into which slice of its window's time a partial match has come. See age_slices.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef int slice_at(Core* core, int64_t start) noexcept nogil
cdef int64_t first_of(Core* core, int slice, int slices, int64_t window, int64_t last) noexcept nogil
