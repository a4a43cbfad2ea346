# The state of isolated windows. See isolated_windows.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.open_windows cimport Opened, Part
from fastcep._core.memory.row_store cimport Index
from fastcep._core.state.core cimport Core


cdef bint enter(Core* core, Opened* window) noexcept nogil
cdef void leave(Core* core, Opened* window) noexcept nogil
cdef void set_relevant(Core* core, Opened* window) noexcept nogil
cdef void end_window(Core* core, Opened* window) noexcept nogil
cdef void drop_part(Core* core, Opened* window) noexcept nogil
cdef int64_t part_bytes(const Core* core) noexcept nogil
cdef Index* counts_of(const Core* core, const Part* part) noexcept nogil
cdef void end_parts(Core* core) noexcept nogil
