# Open and close explicit windows. See window_events.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.state.core cimport Core


cdef void advance_windows(Core* core, const int64_t* time, int64_t position, int64_t batch_index, int64_t n) noexcept nogil
cdef void close_passed_time(Core* core, int64_t time) noexcept nogil
cdef void end_windows(Core* core) noexcept nogil
cdef int64_t enter_first_window(Core* core, uint64_t* variables, int k) noexcept nogil
cdef int64_t enter_next_window(Core* core, int64_t number, uint64_t* variables, int k) noexcept nogil
