# Elements of Kleene variables and groups, and for-all conditions over them. See elements.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket, Index
from fastcep._core.state.core cimport Core


cdef int64_t elements_of(Core* core, int variable, int64_t j) noexcept nogil
cdef int64_t rounds_of(Core* core, int slot, int64_t j) noexcept nogil
cdef bint holds(Core* core, int number, int64_t j, int64_t round, const Index* index, const Bucket* bucket,
                int64_t row) noexcept nogil


cdef inline bint guard(Core* core, int output, int64_t j) noexcept nogil:
    """Return whether guard ``output`` of staged row ``j`` is true; -1: there is no guard."""
    return output < 0 or (core.stage.out[output][j] != 0 and not core.stage.out_null[output][j])
