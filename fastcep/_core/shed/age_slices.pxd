# Age slice of a partial match. See age_slices.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef int slice_at(Core* core, int64_t start) noexcept nogil
cdef int64_t first_start_in(Core* core, int age_slice, int slices, int64_t window, int64_t last) noexcept nogil
