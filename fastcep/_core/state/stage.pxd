# The children of one event and variable before they become rows or matches. See stage.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastcep._core.memory.allocator cimport Budget


cdef struct Stage:
    Budget* budget
    int32_t slots            # bindings of a child
    int32_t outputs          # outputs of a child
    int64_t size             # number of children
    int64_t capacity
    int64_t* start           # per child: ordinal of its start,
    int64_t* birth           # birth of its parent, -1 for none,
    int64_t* parent          # bucket of its parent, if partial matches may be removed,
    int64_t* class_          # class word of the partial match, -1 if its birth is refused,
    int32_t* edge            # number of its edge
    int64_t* order           # children in the order of their parents' births; see stage_merge
    int64_t* nulls           # scratch: null bits of the registers
    int64_t** bind           # per binding and child: its word
    int64_t** out            # per output and child: its value,
    uint8_t** out_null       # and its null flag


cdef int stage_init(Stage* stage, Budget* budget, int slots, int outputs) noexcept nogil
cdef void stage_clear(Stage* stage) noexcept nogil
cdef void stage_rest(Stage* stage, bint fully) noexcept nogil
cdef int64_t child_bytes(const Stage* stage) noexcept nogil
cdef int stage_grow(Stage* stage, int64_t needed) noexcept nogil
cdef int stage_merge(Stage* stage) noexcept nogil
