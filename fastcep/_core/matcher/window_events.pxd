# What opens and closes windows. See window_events.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.state.core cimport Core


cdef void move_windows(Core* core, const int64_t* time, int64_t position, int64_t place, int64_t n) noexcept nogil
cdef void pass_time(Core* core, int64_t time) noexcept nogil
cdef void end_windows(Core* core) noexcept nogil
cdef int64_t first_part(Core* core, uint64_t* members, int k) noexcept nogil
cdef int64_t next_part(Core* core, int64_t number, uint64_t* members, int k) noexcept nogil
