# Sizes of the indexes. See state_metrics.pyx.
from libc.stdint cimport int64_t, uint8_t

from fastcep._core.state.core cimport Core


cdef int64_t rows_in(const Core* core, int first, int end) noexcept nogil
cdef int64_t keys_in(const Core* core) noexcept nogil
cdef int64_t key_bytes(const Core* core) noexcept nogil
cdef int64_t row_bytes(const Core* core) noexcept nogil
cdef int64_t waiting(const Core* core) noexcept nogil
cdef int64_t open_windows(const Core* core) noexcept nogil
cdef int64_t first_position(const Core* core) noexcept nogil
cdef void mark_codes(const Core* core, int n_outputs, uint8_t* marks, int64_t limit) noexcept nogil
