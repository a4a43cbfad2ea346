# Remove partial matches before their window ends. See remove_rows.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef void note_advance(Core* core, int index, int64_t bucket, int64_t birth) noexcept nogil
cdef void replace_advanced(Core* core) noexcept nogil
cdef void drop_holders(Core* core) noexcept nogil
cdef void drop_before(Core* core, int64_t position) noexcept nogil
cdef void drop_partition(Core* core) noexcept nogil
cdef void drop_starts(Core* core) noexcept nogil
cdef void drop_rowless(Core* core) noexcept nogil
