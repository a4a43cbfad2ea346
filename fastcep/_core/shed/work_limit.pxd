# Limit of the work for one event. See work_limit.pyx.
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.drop cimport spent
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Cut, Within, Yields


cdef list reached_state(const Cut* cut)
cdef object resume_reached(Cut* cut, list state)
cdef int64_t enough_credit(double largest_share) noexcept nogil
cdef void cut_event(Core* core) noexcept nogil
cdef void reserve(Core* core, uint64_t variables) noexcept nogil
cdef bint cut_begin(Core* core, int edge_number) noexcept nogil
cdef void cut_end(Core* core) noexcept nogil
cdef bint cut_off(
    Core* core, int edge_number, const Bucket* bucket, int* first, int* end, Within* within) noexcept nogil
cdef int next_rows(Core* core, int edge_number, const Bucket* bucket, int first, int end, int visited, int rows,
                   const Within* within) noexcept nogil
cdef int affordable_children(const Core* core, const Edge* edge, int visited) noexcept nogil
cdef bint stops(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil
cdef void charge_staged(Core* core, int64_t before) noexcept nogil
cdef int middle_of(const Core* core, const Bucket* bucket, int64_t fixed, int first, int end) noexcept nogil
cdef void count_yield(Core* core, int edge_number, const Bucket* bucket, int first, int n, const int32_t* rows, int made,
                      int middle, Yields* counted) noexcept nogil
cdef void add_yields(Core* core, int edge_number, const Yields* counted) noexcept nogil


cdef inline int64_t child_price(const Core* core, const Edge* edge) noexcept nogil:
    """Return the cost of a child of an edge, in picoseconds."""
    return (core.prices.created if edge.born else 0) + (
        core.prices.match if core.states[edge.target].accepting else 0)


cdef inline int64_t own_cost(const Core* core) noexcept nogil:
    """Return the cost of the current event so far, in picoseconds, without staged children."""
    return spent(core) - core.before_spent + core.emitted * core.prices.match


cdef inline int64_t left(const Core* core, int visited) noexcept nogil:
    """Return the remaining cost up to the limit, in picoseconds, after ``visited`` rows that were not yet charged.

    Staged children and matches of this event count, but not what it does beyond the limit.
    """
    return (core.shed.cut.most - core.shed.cut.reserve + core.shed.cut.beyond - own_cost(core)
            - core.shed.cut.staged - visited * core.prices.visited)
