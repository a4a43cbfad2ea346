# Memory of the tables of load shedding. See tables_memory.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.state.shedding_tables cimport Shed


cdef int shed_init(
    Shed* shed, int n_types, int n_states, int stride, int variables, int variable_stride, uint64_t seed) noexcept nogil
cdef int slice_births(Shed* shed, int n_states, int slices) noexcept nogil
cdef int in_windows_init(Shed* shed, int64_t bins, int64_t bin) noexcept nogil
cdef void in_windows_free(Shed* shed) noexcept nogil
cdef void shed_free(Shed* shed) noexcept nogil
