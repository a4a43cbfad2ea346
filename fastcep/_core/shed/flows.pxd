# Counts of children of partial matches, by class. See flows.pyx.
from libc.math cimport exp2
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Flows, Shed

cdef enum:                   # lowest bit of each field of a key
    CHILD_CLASS_AT = 0       # class of the child
    CHILD_AT = 8             # state of the child
    EVENT_CLASS_AT = 22      # class of the event
    VARIABLE_AT = 30         # variable that the event is bound to
    SLICE_AT = 36            # age slice of the parent
    PARENT_CLASS_AT = 42     # class of the parent
    PARENT_AT = 50           # state of the parent + 1; 0: the event begins a partial match
    SET_AT = 63              # a bit that is set in every key


cdef int flows_init(Flows* flows, int64_t capacity, int64_t cells) noexcept nogil
cdef void flows_free(Flows* flows) noexcept nogil
cdef void flows_clear(Flows* flows, int64_t cells) noexcept nogil
cdef void flows_add(Flows* flows, uint64_t key, double count, double square) noexcept nogil
cdef void flows_event(Shed* shed, int64_t position) noexcept nogil
cdef void weigh_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                         int64_t event_class) noexcept nogil
cdef void weigh_staged(Core* core, int64_t start, int64_t word) noexcept nogil
cdef int64_t log_weight(int64_t chance) noexcept nogil


cdef inline double represented(int64_t weight) noexcept nogil:
    """Return how many events or partial matches one with this weight stands for; see `log_weight`."""
    return exp2(weight / 256.0) if weight > 0 else 1.0
