from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.core cimport Core

cdef void drop_cut_off(Core* core) noexcept nogil
cdef int find_previous(Core* core, int64_t* previous, const uint16_t* types, const int64_t** data, const uint8_t** null,
                       Py_ssize_t base, int m, int64_t position) noexcept nogil
