# Windows come and go; what isolated ones hold. See parts.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.core cimport Core
from fastcep._core.windows cimport Opened


cdef void move_windows(Core* core, const int64_t* time, int64_t position, int64_t place, int64_t n) noexcept nogil
cdef void pass_time(Core* core, int64_t time) noexcept nogil
cdef void end_windows(Core* core) noexcept nogil
cdef int64_t first_part(Core* core, uint64_t* members, int k) noexcept nogil
cdef int64_t next_part(Core* core, int64_t number, uint64_t* members, int k) noexcept nogil
cdef bint enter(Core* core, Opened* window) noexcept nogil
cdef void leave(Core* core, Opened* window) noexcept nogil
cdef void set_able(Core* core, Opened* window) noexcept nogil
cdef void drop_part(Core* core, Opened* window) noexcept nogil
cdef int64_t part_bytes(const Core* core) noexcept nogil
cdef void end_parts(Core* core) noexcept nogil
