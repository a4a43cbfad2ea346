# Children of one (event, member) before they become rows or matches. See stage.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastcep._core.memory.allocator cimport Budget


cdef struct Stage:
    Budget* budget
    int32_t members          # number of bindings and of outputs of a child
    int32_t outputs
    int64_t size
    int64_t capacity
    int64_t* start
    int64_t* birth           # of the parent; -1 for none
    int64_t* parent          # its bucket, where partial matches may be removed
    int64_t* class_          # of partial matches, -1 for one whose birth is refused
    int32_t* edge
    int64_t* order           # of the merge
    int64_t* nulls           # scratch: null bits of the registers
    int64_t** bind
    int64_t** out
    uint8_t** out_null


cdef int stage_init(Stage* stage, Budget* budget, int members, int outputs) noexcept nogil
cdef void stage_clear(Stage* stage) noexcept nogil
cdef void stage_rest(Stage* stage, bint wholly) noexcept nogil
cdef int64_t child_bytes(const Stage* stage) noexcept nogil
cdef int stage_grow(Stage* stage, int64_t needed) noexcept nogil
cdef int stage_merge(Stage* stage) noexcept nogil
