# Selection and consumption policies. See policy.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.memory.row_store cimport Index
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core


cdef enum:              # selection policies, as in fastcep.query.ast
    EACH
    FIRST
    LAST
    CUMULATIVE

cdef enum:              # skip policies after a match, as in fastcep.query.ast
    NO_SKIP
    TO_NEXT
    PAST_LAST
    TO_FIRST
    TO_LAST


cdef void apply_policies(Core* core) noexcept nogil
cdef bint limit_is_reached(const Core* core, const Index* counts) noexcept nogil
cdef bint partition_of(Core* core, uint64_t variables, int k) noexcept nogil
cdef void policy_clear(Core* core) noexcept nogil
cdef int64_t* count_of_waiting(Core* core, const State* state) noexcept nogil
