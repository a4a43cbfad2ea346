# How much there is in the indexes. See gauges.pyx.
from libc.stdint cimport int64_t, uint8_t

from fastcep._core.core cimport Core
from fastcep._core.store cimport Index


cdef int64_t rows_in(const Index* indexes, int n) noexcept nogil
cdef int64_t keys_in(const Index* indexes, int n) noexcept nogil
cdef int64_t key_bytes_of(const Index* indexes, int n) noexcept nogil
cdef void mark_codes(const Core* core, int n_outputs, uint8_t* marks, int64_t limit) noexcept nogil
