# Load shedding inside the matcher. See drop.pyx.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport HOME, Edge
from fastcep._core.shed.flows cimport log_weight
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport falls, mixed
from fastcep._core.state.shedding_tables cimport DRAWN_BITS, Shed


cdef int drop_events(
    Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil
cdef int withhold_events(
    Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil
cdef int screen(Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n, int k) noexcept nogil
cdef int64_t walk_cells(Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt) noexcept nogil
cdef int drop_aged(Core* core, int state, Bucket* bucket, int first, int n) noexcept nogil


cdef inline bint screens(const Core* core, const Edge* edge) noexcept nogil:
    """Return whether `screen` must classify the children of an edge; if not, none is refused, and all have class 0."""
    return core.shed.on and (
        edge.born and (core.shed.births or edge.has_features or core.shed.flows.on)
        or core.observed.on or core.shed.weighs or core.shed.flows.sampled)


cdef inline int64_t weight_of(const Shed* shed, int64_t type_id, int interval) noexcept nogil:
    """Return the weight of an event of a type that was not dropped, in 256ths, if one event in ``interval`` is counted.

    The weight is the number of events that it represents: ``interval`` divided by the probability that it was kept.
    """
    cdef int64_t kept = (<int64_t>1 << 32) - shed.by_type[type_id]
    return <int64_t>(256.0 * interval * 4294967296.0 / <double>max(<int64_t>1, kept))


cdef inline int64_t spent(const Core* core) noexcept nogil:
    """Return the cost of all operations so far, in picoseconds, without the fixed cost of each event."""
    return (core.rows_visited * core.prices.visited + core.rows_created * core.prices.created
            + core.matches * core.prices.match + core.shed.n_refused * core.prices.refused
            + core.shed.n_aged * core.prices.purged)


cdef inline bint is_whole_dropped(Core* core, int64_t opened) noexcept nogil:
    """Return whether the window that the event at position ``opened`` has opened is dropped with all of its events.

    There is one draw per window. So a window that is open when the probability rises may be dropped as well.
    """
    if core.shed.whole == 0 or not falls(~core.shed.seed, <uint64_t>opened, core.shed.whole):
        return False
    core.shed.n_windows += 1
    return True


cdef inline bint kept_out(Core* core, int64_t opened) noexcept nogil:
    """Return whether the event is dropped from the window that the event at position ``opened`` has opened."""
    cdef Shed* shed = &core.shed
    cdef int64_t offset = core.event_position - opened, chance
    chance = shed.in_windows[core.event_type * shed.bins + min(offset // shed.bin, shed.bins - 1)]
    if chance == 0 or not falls(shed.seed ^ mixed(<uint64_t>opened), <uint64_t>core.event_position, chance):
        shed.window_weight = log_weight(chance) if shed.weighs else 0
        return False
    shed.n_in_windows += 1
    return True
