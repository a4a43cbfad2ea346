# Rows of matches that wait. See waiting.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef int64_t end_of_window(const Core* core, int64_t start) noexcept nogil
cdef int64_t new_waiting(Core* core, int64_t due) noexcept nogil
cdef void write_waiting(Core* core, int64_t row, int number, int64_t third, int64_t j) noexcept nogil
cdef void load_waiting(Core* core, const int64_t* row) noexcept nogil
