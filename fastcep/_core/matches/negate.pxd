# Store the events of negated variables, and check that no event occurred. See negate.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core


cdef void store_negated(Core* core, int variable, int k, int64_t position, int64_t time) noexcept nogil
cdef int64_t oldest_needed(const Core* core, int negation, int64_t time) noexcept nogil
cdef bint are_absent(Core* core, const int32_t* checks, int n, const State* state, int64_t j, int64_t until) noexcept nogil
