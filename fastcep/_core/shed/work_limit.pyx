# cython: language_level=3
"""Limit of the work for one event.

If the latency bound is on a percentile, only the work of the most expensive events above the bound must be saved;
saving other work costs recall for nothing. So an event is tried with partial matches until the cost, by the prices of
operations, reaches the limit. The remaining partial matches are *passed over*: they stay stored, and later events may
extend them. Variables whose binding completes a match are bound first (``loop``), if this preserves the order of
matches. Within a bucket the youngest partial matches come first, because their windows end last.

A percentile allows a share of the events to exceed the bound, so this share may *run on*, that is, exceed the limit.
Each event adds the share to a credit, up to a maximum. An event runs on, which takes one event from the credit, if it
would lose at least as many matches as the mean event that is cut off, or if the credit is at least half of the maximum.

Invariant: the cost of an event is at most the limit, unless it runs on. Passing over a partial match has the same
effect as refusing the birth of the child or not finding the match, so it adds no match to a monotonic query. If some
rows of a bucket are passed over, all rows are checked for being alive; this check is not part of the cost.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.drop cimport spent
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport CREDITS, Cut

cdef enum:
    MEAN_OF = 64             # events of the moving average of lost visits


cdef void cut_event(Core* core) noexcept nogil:
    """Start the work for a relevant event; all events since the last relevant one add to the credit."""
    cdef Cut* cut = &core.shed.cut
    cdef int64_t full = <int64_t>CREDITS << 32, events = max(<int64_t>0, core.event_position - cut.last)
    cut.runs_on = False
    cut.last = core.event_position
    cut.credit = full if cut.share > 0 and events > full // cut.share else min(cut.credit + cut.share * events, full)


cdef bint cut_begin(Core* core, int edge_number) noexcept nogil:
    """Return True if the event must not begin a partial match because the limit is reached."""
    cdef Cut* cut = &core.shed.cut
    if not cut.runs_on and _remaining(core) < core.prices.created and not _run_on(cut, <int64_t>CREDITS << 31):
        cut.tried[edge_number].passed_over += 1
        return True
    cut.tried[edge_number].visited += 1
    cut.tried[edge_number].made += 1
    return False


cdef inline int64_t _remaining(const Core* core) noexcept nogil:
    """Return the remaining cost up to the limit, in picoseconds; staged children count as created."""
    return core.shed.cut.most - (spent(core) - core.before_spent) - core.stage.size * core.prices.created


cdef inline bint _run_on(Cut* cut, int64_t least) noexcept nogil:
    """Let the event run on if the credit is at least ``least``; returns whether it runs on."""
    if cut.credit < least:
        return False
    cut.credit -= <int64_t>1 << 32
    cut.runs_on = True
    return True


cdef int cut_off(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil:
    """Return the first of the rows ``first:end`` of a bucket, in birth order, that is tried along an edge."""
    cdef Cut* cut = &core.shed.cut
    cdef const Edge* edge = core.edges + edge_number
    cdef int64_t price = core.prices.visited, room, lost = 0, least = <int64_t>CREDITS << 31
    cdef int64_t live_from = core.starts.first
    cdef int fixed = core.states[edge.source].fixed, row = end, begin = first
    price += core.prices.created if edge.born else core.prices.match
    room = max(<int64_t>0, _remaining(core)) // max(<int64_t>1, price)
    if end - first <= room or cut.runs_on:
        return first
    while row > first:  # dead rows do not count
        row -= 1
        if bucket.data[<int64_t>row * fixed] >= live_from:
            if room == 0:
                begin = max(begin, row + 1)
                lost += 1
            else:
                room -= 1
    if lost == 0:
        return first
    if not edge.born:
        if lost >= cut.mean:
            least = <int64_t>1 << 32
        cut.mean += (lost - cut.mean) / MEAN_OF
    if _run_on(cut, least):
        return first
    cut.tried[edge_number].passed_over += lost
    return begin
