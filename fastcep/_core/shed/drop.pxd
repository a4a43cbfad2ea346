# Load shedding inside the matcher. See drop.pyx.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from fastcep._core.memory.open_windows cimport Opened
from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport HOME, Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport falls
from fastcep._core.state.shedding_tables cimport BY_BIN, DRAWN_BITS, NEVER, Shed


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


cdef inline void screen_event(Core* core) noexcept nogil:
    """Look up what `kept_out` needs to know about the current event, once for all windows."""
    cdef Shed* shed = &core.shed
    shed.window_weight = 0
    shed.event_row = NEVER if shed.in_windows == NULL else shed.in_windows_rows[core.event_type]
    if shed.event_row != NEVER:
        shed.event_cell = core.event_type * shed.bins
        shed.event_chance = shed.in_windows[shed.event_cell]
        if shed.weighs:
            shed.window_weight = shed.in_windows_weights[shed.event_cell]


cdef inline bint kept_out(Core* core, const Opened* window) noexcept nogil:
    """Return whether the current event is dropped from a window; `screen_event` has looked it up."""
    cdef Shed* shed = &core.shed
    cdef int64_t chance = shed.event_chance, cell
    if shed.event_row == NEVER:
        return False
    if shed.event_row == BY_BIN:
        cell = shed.event_cell + min((core.event_position - window.position) // shed.bin, shed.bins - 1)
        if not shed.in_windows_above[cell]:
            shed.window_weight = 0
            return False
        chance = shed.in_windows[cell]
        if shed.weighs:
            shed.window_weight = shed.in_windows_weights[cell]
    if not falls(shed.seed ^ window.draw, <uint64_t>core.event_position, chance):
        return False
    shed.n_in_windows += 1
    return True
