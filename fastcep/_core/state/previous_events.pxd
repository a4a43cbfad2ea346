from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.state.core cimport Core

cdef void drop_cut_off(Core* core) noexcept nogil
cdef int find_previous(Core* core, int64_t* previous, const Events* events, Py_ssize_t base, int m) noexcept nogil
