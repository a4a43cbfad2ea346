# Event masks and event columns of a chunk. See masks.pyx.
from libc.stdint cimport int32_t, uint64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.state.core cimport Core


cdef int masks(Core* core, uint64_t* bits, int32_t* relevant, const Events* events, Py_ssize_t base, int m) noexcept nogil
