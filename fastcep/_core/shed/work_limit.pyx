# cython: language_level=3
"""Limit of the work for one event.

If the latency bound is on a percentile, only the work of the most expensive events above the bound must be saved;
saving other work costs recall for nothing. So an event is tried with partial matches until the cost, by the prices of
operations, reaches the limit. The remaining partial matches are *passed over*: they stay stored, and later events may
extend them. Variables whose binding completes a match are bound first (``loop``), if this preserves the order of
matches. Within a bucket, either the youngest partial matches come first or the oldest: those with the larger yield, the
share of visits that made a child in recent events without a limit. A child is worth the rest of its window, which is
assumed to be three times as long for the younger half.

A percentile allows a share of the events to exceed the bound, so this share may *run on*, that is, exceed the limit.
Each event adds the share to a credit, up to a maximum. An event runs on, which takes one event from the credit, if it
would lose at least as many matches as the mean event that is cut off, or if the credit is at least `RESERVE`.

Invariant: the cost of an event is at most the limit, unless it runs on. Passing over a partial match has the same
effect as refusing the birth of the child or not finding the match, so it adds no match to a monotonic query. If some
rows of a bucket are passed over, all rows are checked for being alive; this check is not part of the cost.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.drop cimport spent
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport CREDITS, Cut, Tried, Yield, Yields

cdef enum:
    RESERVE = 32             # credit above which any event runs on
    MEAN_OF = 64             # events of the moving average of lost visits
    YIELD_OF = 4096          # visits from which on the counts of an edge are halved
    YOUNGER_LIFE = 3         # ratio of the remaining windows of both halves


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
    if not cut.runs_on and _remaining(core) < core.prices.created and not _run_on(cut, <int64_t>RESERVE << 32):
        cut.tried[edge_number].passed_over += 1
        cut.tried[edge_number].lost += 1
        return True
    cut.tried[edge_number].visited += 1
    cut.tried[edge_number].made += 1
    cut.weight = 1
    return False


cdef void cut_end(Core* core) noexcept nogil:
    """End the work for an event, and give its credit back if it could run on but did not exceed the limit."""
    cdef Cut* cut = &core.shed.cut
    if cut.runs_on and spent(core) - core.before_spent <= cut.most:
        cut.credit += <int64_t>1 << 32


cdef inline int64_t _remaining(const Core* core) noexcept nogil:
    """Return the remaining cost up to the limit, in picoseconds; staged children and matches of this event count."""
    return (core.shed.cut.most - (spent(core) - core.before_spent) - core.stage.size * core.prices.created
            - core.emitted * core.prices.match)


cdef inline bint _run_on(Cut* cut, int64_t least) noexcept nogil:
    """Let the event run on if the credit is at least ``least``; returns whether it runs on."""
    if cut.credit < least:
        return False
    cut.credit -= <int64_t>1 << 32
    cut.runs_on = True
    return True


cdef inline int64_t _child_price(const Core* core, const Edge* edge) noexcept nogil:
    return (core.prices.created if edge.born else 0) + (
        core.prices.match if core.states[edge.target].accepting else 0)


cdef inline double _share(const Yield* recent) noexcept nogil:
    return (recent.made + 1) / (recent.visited + 1)


cdef bint cut_off(Core* core, int edge_number, const Bucket* bucket, int* first, int* end) noexcept nogil:
    """Restrict the rows ``first:end`` of a bucket, in birth order, to those that are tried along an edge.

    The number of children is predicted by the yield. Returns True if there may be more than fit under the limit; the
    caller must then ask `affordable` and `affordable_children`.
    """
    cdef Cut* cut = &core.shed.cut
    cdef const Edge* edge = core.edges + edge_number
    cdef const Yields* yields = cut.yields + edge_number
    cdef int64_t remaining, live_from = core.starts.first, least = <int64_t>RESERVE << 32
    cdef int64_t child = _child_price(core, edge)
    cdef double older = _share(&yields.older), younger = _share(&yields.younger)
    cdef int fixed = core.states[edge.source].fixed, room, row, n, live = 0, lost = 0, last = 0
    cdef bint oldest_first = older > (YOUNGER_LIFE if edge.born else 1) * younger
    cut.weight = 1
    if cut.runs_on:
        return False
    remaining = max(<int64_t>0, _remaining(core))
    n = end[0] - first[0]
    if n * (core.prices.visited + child) <= remaining:
        return False
    room = <int>min(<double>n, remaining / max(1.0, core.prices.visited + child * (older if oldest_first else younger)))
    for row in range(n):
        if bucket.data[<int64_t>(first[0] + row if oldest_first else end[0] - 1 - row) * fixed] < live_from:
            continue
        if live == room:
            lost += 1
        else:
            live += 1
            last = row + 1
    if lost == 0:
        return True
    if not edge.born:
        if lost >= cut.mean:
            least = <int64_t>1 << 32
        cut.mean += (lost - cut.mean) / MEAN_OF
    if _run_on(cut, least):
        return False
    cut.tried[edge_number].passed_over += lost
    cut.tried[edge_number].lost += lost * (younger if oldest_first else older)
    cut.weight = 1 + <double>lost / max(live, 1)
    if oldest_first:
        end[0] = first[0] + last
    else:
        first[0] = end[0] - last
    return True


cdef void count_yield(Core* core, int edge_number, const Bucket* bucket, int first, int n, const int32_t* rows, int made,
                      int middle) noexcept nogil:
    """Count the visits of ``n`` rows of a bucket, given those that made a child; NULL: all did.

    Rows before ``middle`` belong to the older half.
    """
    cdef Yields* yields = core.shed.cut.yields + edge_number
    cdef int fixed = core.states[core.edges[edge_number].source].fixed
    cdef int half = min(max(0, middle - first), n), i, older = 0, younger = 0, made_older = half
    for i in range(half):
        older += bucket.data[<int64_t>(first + i) * fixed] >= core.starts.first
    for i in range(half, n):
        younger += bucket.data[<int64_t>(first + i) * fixed] >= core.starts.first
    if rows != NULL:
        made_older = 0
        for i in range(made):
            made_older += rows[i] < half
    _add_yield(&yields.older, older, made_older)
    _add_yield(&yields.younger, younger, made - made_older)


cdef inline void _add_yield(Yield* recent, int visited, int made) noexcept nogil:
    recent.visited += visited
    recent.made += made
    if recent.visited > YIELD_OF:
        recent.visited /= 2
        recent.made /= 2


cdef inline int _fitting(int64_t left, int64_t price, int most) noexcept nogil:
    """Return how many operations of a price fit, at most ``most``; any number of those that cost nothing."""
    return most if price <= 0 else <int>min(<int64_t>most, max(<int64_t>0, left) // price)


cdef int affordable(const Core* core, int visited, int rows) noexcept nogil:
    """Return how many of the next rows fit under the limit, after ``visited`` rows that were not yet charged."""
    return _fitting(_remaining(core) - visited * core.prices.visited, core.prices.visited, rows)


cdef int affordable_children(const Core* core, const Edge* edge, int visited) noexcept nogil:
    """Return how many children fit under the limit, after ``visited`` rows that were not yet charged."""
    return _fitting(_remaining(core) - visited * core.prices.visited, _child_price(core, edge), INT32_MAX)


cdef void pass_over(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil:
    """Count the live rows ``first:end`` of a bucket as passed over."""
    cdef Tried* tried = core.shed.cut.tried + edge_number
    cdef const Yields* yields = core.shed.cut.yields + edge_number
    cdef int fixed = core.states[core.edges[edge_number].source].fixed, row
    cdef int64_t live = 0
    for row in range(first, end):
        live += bucket.data[<int64_t>row * fixed] >= core.starts.first
    tried.passed_over += live
    tried.lost += live * (_share(&yields.older) + _share(&yields.younger)) / 2
