# The loop over the events of a batch. See loop.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.core cimport Core


cdef Py_ssize_t take_events(Core* core, const int64_t* time, const uint16_t* types, const int64_t* seq,
                            const int64_t** data, const uint8_t** null, Py_ssize_t n, int64_t position) noexcept nogil
cdef void sweep_all(Core* core) noexcept nogil
cdef void give_up(Core* core) noexcept nogil
cdef void drop_all_rows(Core* core) noexcept nogil
cdef void rest(Core* core, bint wholly) noexcept nogil
cdef int64_t held_bytes(Core* core) noexcept nogil
