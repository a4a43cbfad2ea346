# How many children come of partial matches, by classes. See flows.pyx.
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Flows, Shed

cdef enum:                   # where in a key, from its lowest bits on
    CHILD_CLASS_AT = 0       # class of the child,
    CHILD_AT = 8             # its state,
    EVENT_CLASS_AT = 22      # class of the event,
    MEMBER_AT = 30           # the variable that it is bound to,
    SLICE_AT = 36            # the slice of the window,
    PARENT_CLASS_AT = 42     # class of the partial match,
    PARENT_AT = 50           # and its state + 1; 0: there was none;
    SET_AT = 63              # a bit that is set in every key


cdef int flows_init(Flows* flows, int64_t capacity, int64_t cells) noexcept nogil
cdef void flows_free(Flows* flows) noexcept nogil
cdef void flows_clear(Flows* flows, int64_t cells) noexcept nogil
cdef void flows_add(Flows* flows, uint64_t key, double count, double square) noexcept nogil
cdef void flows_event(Shed* shed, int64_t position) noexcept nogil
cdef void weigh_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n, int64_t own) noexcept nogil
cdef int64_t stands_for(int64_t chance) noexcept nogil
