# The work for one event, cut off. See cut.pyx.
from libc.stdint cimport int64_t

from fastcep._core.core cimport Core
from fastcep._core.store cimport Bucket


cdef void cut_event(Core* core) noexcept nogil
cdef bint cut_begin(Core* core, int e) noexcept nogil
cdef int cut_off(Core* core, int e, const Bucket* bucket, int first, int end) noexcept nogil
