# The factorised store: store the events of a chunk, and enumerate their matches. See chunk.pyx.
from libc.stdint cimport int32_t, uint64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.state.core cimport Core


cdef int match_chunk(Core* core, const uint64_t* bits, const int32_t* relevant, int n, const Events* events,
                     Py_ssize_t base) noexcept nogil
