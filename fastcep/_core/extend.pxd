# Bind an event along one edge. See extend.pyx.
from libc.stdint cimport int64_t

from fastcep._core.core cimport Core


cdef void begin(Core* core, int e, int k, int64_t position, int64_t time) noexcept nogil
cdef void probe(Core* core, int e, int k, int64_t position) noexcept nogil
