# cython: language_level=3
"""The work for one event, cut off at a limit.

Where a bound is on a percentile of the latency, only what the dearest events cost above it is to be saved: all that is saved
elsewhere is lost for nothing. So an event is tried with partial matches until what that costs, by the prices of operations,
comes to the limit, and the others are *passed over*: they stay as they are, and later events find them. First come the
variables whose binding completes a match (``loop``), as far as that leaves matches in their order, and of a bucket the
youngest partial matches, which have the longest time before them.

What a percentile allows to be above the bound is not wasted either: a share of the events is *let run on*. Each event adds
the share to a credit, up to some events. One event is taken from it, and the event is matched as a whole, if it would lose
at least as many matches as those that were cut off do on the mean, or if half of what there can be is left.

Invariant: what an event costs is at most the limit, unless it is let run on. A partial match that is passed over is as a
child whose birth was refused, or a match that was not found: where a query is monotonic nothing appears that would not have
been there. Which rows of a bucket are alive is read of all of them where some are passed over; no price is set on that.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.drop cimport spent
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport CREDITS, Cut

cdef enum:
    MEAN_OF = 64             # events that were cut off: of what they lose


cdef void cut_event(Core* core) noexcept nogil:
    """An event comes that some variable may bind; all since the last such one add to the credit."""
    cdef Cut* cut = &core.shed.cut
    cdef int64_t full = <int64_t>CREDITS << 32, events = max(<int64_t>0, core.event_position - cut.last)
    cut.runs_on = False
    cut.last = core.event_position
    cut.credit = full if cut.share > 0 and events > full // cut.share else min(cut.credit + cut.share * events, full)


cdef bint cut_begin(Core* core, int e) noexcept nogil:
    """Whether no partial match begins with the event, as there is nothing left for it."""
    cdef Cut* cut = &core.shed.cut
    if not cut.runs_on and left_of(core) < core.prices.created and not on_credit(cut, <int64_t>CREDITS << 31):
        cut.tried[e].passed_over += 1
        return True
    cut.tried[e].looks += 1
    cut.tried[e].made += 1
    return False


cdef inline int64_t left_of(const Core* core) noexcept nogil:
    """What is left of the limit; children that are only staged have been paid for."""
    return core.shed.cut.most - (spent(core) - core.before_spent) - core.stage.size * core.prices.created


cdef inline bint on_credit(Cut* cut, int64_t least) noexcept nogil:
    """Let the event run on if there is at least so much credit."""
    if cut.credit < least:
        return False
    cut.credit -= <int64_t>1 << 32
    cut.runs_on = True
    return True


cdef int cut_off(Core* core, int e, const Bucket* bucket, int first, int end) noexcept nogil:
    """From which of the rows ``first:end`` of a bucket on, in birth order, an edge is tried for the event."""
    cdef Cut* cut = &core.shed.cut
    cdef const Edge* edge = core.edges + e
    cdef int64_t price = core.prices.visited, room, lost = 0, least = <int64_t>CREDITS << 31
    cdef int64_t live_from = core.starts.first
    cdef int fixed = core.states[edge.source].fixed, row = end, begin = first
    price += core.prices.created if edge.born else core.prices.match
    room = max(<int64_t>0, left_of(core)) // max(<int64_t>1, price)
    if end - first <= room or cut.runs_on:
        return first
    while row > first:  # those that are dead count for nothing
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
    if on_credit(cut, least):
        return first
    cut.tried[e].passed_over += lost
    return begin
