# Which matches of an event are reported, and what follows from them. See policy.pyx.
from fastcep._core.core cimport Core


cdef enum:              # selections, as in fastcep.query.ast
    EACH
    FIRST
    LAST
    CUMULATIVE

cdef enum:              # what is skipped after a match, likewise
    NO_SKIP
    TO_NEXT
    PAST_LAST


cdef void apply_policies(Core* core) noexcept nogil
cdef void policy_clear(Core* core) noexcept nogil
