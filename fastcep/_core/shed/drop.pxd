# Load shedding inside the matcher. See drop.pyx.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport HOME, Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport falls, mixed
from fastcep._core.state.shedding_tables cimport DRAWN_BITS, Shed


cdef int admitted(Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil
cdef int tried(Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil
cdef int64_t class_of_event(const Core* core, int member, int k) noexcept nogil
cdef int screen(Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n, int k) noexcept nogil
cdef int64_t walk_cells(Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt) noexcept nogil
cdef int age(Core* core, int state, Bucket* bucket, int first, int n) noexcept nogil


cdef inline bint screens(const Core* core, const Edge* edge) noexcept nogil:
    """Whether `screen` finds the class words of an edge's children; else none is refused, and all are of class 0."""
    return core.shed.on and (
        edge.born and (core.shed.births or edge.has_features or core.shed.flows.on)
        or core.observed.on or core.shed.flows.here)


cdef inline int64_t weight_of(const Shed* shed, int kind, int sampled) noexcept nogil:
    """For how many events, in 256ths, one stands that was not dropped, if one of so many is counted."""
    cdef int64_t kept = (<int64_t>1 << 32) - shed.by_type[kind]
    return <int64_t>(256.0 * sampled * 4294967296.0 / <double>max(<int64_t>1, kept))


cdef inline int64_t spent(const Core* core) noexcept nogil:
    """What the operations so far cost, but those that every event has."""
    return (core.rows_visited * core.prices.visited + core.rows_created * core.prices.created
            + core.matches * core.prices.match + core.shed.n_refused * core.prices.refused
            + core.shed.n_fell * core.prices.purged)


cdef inline bint kept_out(Core* core, int64_t opened) noexcept nogil:
    """Whether the event is not to be matched in the window that the event at ``opened`` has opened."""
    cdef Shed* shed = &core.shed
    cdef int64_t place = core.event_position - opened, chance
    chance = shed.in_windows[core.event_type * shed.bins + min(place // shed.bin, shed.bins - 1)]
    if chance == 0 or not falls(shed.seed ^ mixed(<uint64_t>opened), <uint64_t>core.event_position, chance):
        return False
    shed.n_in_windows += 1
    return True
