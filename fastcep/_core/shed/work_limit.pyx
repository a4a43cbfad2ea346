# cython: language_level=3
"""Limit of the work for one event.

If the latency bound is on a percentile, only the work of the most expensive events above the bound must be saved;
saving other work costs recall for nothing. So an event is tried with partial matches until the cost, by the prices of
operations, reaches the limit. The remaining partial matches are *passed over*: they stay stored, and later events may
extend them. Variables whose binding completes a match are bound first (``loop``), if this preserves the order of
matches. Within a bucket, either the youngest partial matches come first or the oldest: those with the larger yield, the
share of visits that made a child in recent events without a limit. A child is worth the rest of its window, which is
assumed to be three times as long for the younger half. A match with a negation is also worth three times as much there,
because the longer a partial match has waited, the more likely is an event that rules the match out.

A percentile allows a share of the events to exceed the bound, so this share may *run on*, that is, exceed the limit.
Each event adds the share to a credit, up to that of `SAVED` events, and an event that runs on takes one event from it.
An event that reaches the limit runs on with a probability in proportion to the number of matches that it would lose
(sampling with probability proportional to size), times a factor that grows with the credit. For this, a partial match
counts as 1/4 match, as later events may also be limited. A small credit leads to probabilities that use half of what is
added, so it is seldom used up. The factor first rises steeply with the credit, up to `STEEP`, so that some events run on
even in a short stream. Then it rises slowly up to `Cut.enough`, from which on all events run on. In between, the credit
goes mostly to the events that would lose most. A large credit is left by a time in which few events reached the limit.

What an event does beyond the limit has the inverse of this probability as its weight, for the estimates of flows.pyx.
What it would also have done if it had stopped there has no additional weight, so the cost of both is kept apart. There
is one draw for each event. The cost of a partial match that it may begin is reserved.

Invariant: the cost of an event is at most the limit, unless it runs on. Passing over a partial match has the same
effect as refusing the birth of the child or not finding the match, so it adds no match to a query that finds each match
whatever other partial matches there are. Events of negated variables are not limited: they are stored, and matches look
them up. If some rows of a bucket are passed over, all rows are checked for being alive; this check is not part of the
cost.
"""
from libc.math cimport log2
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.drop cimport spent
from fastcep._core.shed.flows cimport log_weight, represented
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport falls
from fastcep._core.state.shedding_tables cimport COSTS, Cut, Tried, Within, Yield, Yields

cdef extern from *:
    int __builtin_popcountll(unsigned long long) noexcept nogil

cdef enum:
    RESERVED = 16            # least ratio of the limit to the cost that is reserved for what an event may begin
    UNFINISHED = 4           # number of partial matches that count as much as a match
    SPARED = 16              # credit below which half of what is added is used
    STEEP = 24               # credit up to which the factor rises steeply, so that some events run on soon
    CREDITS = 64             # least credit from which on all events run on; one eighth of the largest if that is more
    SAVED = 40000            # number of events whose shares the credit holds, less than `SmoothedLatency` has in its mean
    MEAN_OF = 64             # events of the moving average of lost children
    YIELD_OF = 4096          # visits from which on the counts of an edge are halved
    YOUNGER_LIFE = 3         # ratio of the remaining windows of both halves


cdef list reached_state(const Cut* cut):
    """Return the number of events that reached the limit so far, and an estimate of it by their cost without a limit.

    Entry 0 is of the events that do not exceed the limit after all. Entry n is of those that cost at least
    ``2**((n - 1) / 4)`` limits, and less than those of the next one.
    """
    cdef int n
    return [cut.reaching, [cut.by_cost[n] for n in range(COSTS)]]


cdef object resume_reached(Cut* cut, list state):
    """Restore the largest weight, the number of events that ran on, and `reached_state`."""
    cdef int n
    cut.largest, cut.ran_on, cut.reaching = [*state, 0, 0, 0][:3]  # older snapshots lack some
    for n in range(COSTS):
        cut.by_cost[n] = state[3][n] if len(state) > 3 else 0


cdef int64_t enough_credit(double largest_share) noexcept nogil:
    """Return the credit from which on all events run on, in 2^-32, given the largest share that may run on."""
    return <int64_t>(max(<double>CREDITS, largest_share * SAVED / 8) * 4294967296.0)


cdef void cut_event(Core* core) noexcept nogil:
    """Start the work for a relevant event; all events since the last relevant one add to the credit."""
    cdef Cut* cut = &core.shed.cut
    cdef int64_t full = max(<int64_t>CREDITS << 32, cut.share * SAVED), events
    events = max(<int64_t>0, core.event_position - cut.last)
    cut.reached = cut.runs_on = False
    cut.beyond = cut.beyond_weight = cut.weight = cut.reserve = 0
    cut.last = core.event_position
    cut.credit = full if cut.share > 0 and events > full // cut.share else min(cut.credit + cut.share * events, full)


cdef void reserve(Core* core, uint64_t variables) noexcept nogil:
    """Reserve the cost of what the event may begin, bound to these variables, if it is a small part of the limit."""
    cdef Cut* cut = &core.shed.cut
    cdef int64_t price = __builtin_popcountll(variables & cut.beginning) * cut.begin_price
    cut.reserve = price if price <= cut.most // RESERVED else 0


cdef bint cut_begin(Core* core, int edge_number) noexcept nogil:
    """Return True if the event must not begin a partial match because the limit is reached."""
    cdef Cut* cut = &core.shed.cut
    cdef int64_t price = child_price(core, core.edges + edge_number)
    cut.weight = 0
    if cut.reserve >= price:
        cut.reserve -= price
    elif left(core, 0) < price:
        if not _runs_on(core, _value(core, edge_number)):
            cut.tried[edge_number].passed_over += 1
            cut.tried[edge_number].lost += 1
            return True
        cut.weight = cut.beyond_weight
        cut.beyond += price
    cut.tried[edge_number].visited += 1
    cut.tried[edge_number].made += 1
    return False


cdef void cut_end(Core* core) noexcept nogil:
    """End the work for an event: count it if it reached the limit, and if it ran on.

    If it did not exceed the limit after all, its credit is given back.
    """
    cdef Cut* cut = &core.shed.cut
    cdef int64_t cost
    cdef int place = 0
    if not cut.reached:
        return
    cut.reaching += 1
    if not cut.runs_on:
        return
    cost = spent(core) - core.before_spent
    if cost <= cut.most:
        cut.credit += <int64_t>1 << 32
    else:
        cut.ran_on += 1
        place = 1 + min(<int>(4 * log2(cost / <double>cut.most)), COSTS - 2)
    cut.by_cost[place] += represented(cut.beyond_weight)


cdef bint _runs_on(Core* core, double lost) noexcept nogil:
    """Return whether the event runs on, which would otherwise lose ``lost`` matches; drawn the first time it is asked."""
    cdef Cut* cut = &core.shed.cut
    cdef double credit, enough, filled, factor
    cdef int64_t chance
    if cut.reached:
        return cut.runs_on
    cut.reached = True
    if cut.credit < <int64_t>1 << 32:
        return False
    credit, enough = cut.credit / 4294967296.0, cut.enough / 4294967296.0
    if credit < STEEP:
        filled = max(0.0, credit - SPARED) / (STEEP - SPARED) / 3
    else:
        filled = min(1.0, 1.0 / 3 + (credit - STEEP) / (enough - STEEP) * 2 / 3)
    factor = max(cut.share / 8589934592.0, filled * filled / max(1 - filled, 1e-9))  # half of the share at least
    cut.mean = lost if cut.mean <= 0 else cut.mean + (lost - cut.mean) / MEAN_OF
    chance = <int64_t>(4294967296.0 * min(1.0, factor * lost / max(cut.mean, 1e-9)))
    if not falls(core.shed.seed ^ 0x5851F42D4C957F2DULL, <uint64_t>core.event_position, chance):
        return False
    cut.credit -= <int64_t>1 << 32
    cut.runs_on = True
    cut.beyond_weight = log_weight((<int64_t>1 << 32) - chance)
    cut.largest = max(cut.largest, cut.beyond_weight)
    return True


cdef inline double _value(const Core* core, int edge_number) noexcept nogil:
    """Return the number of matches as which a child of an edge counts."""
    return 1.0 if core.states[core.edges[edge_number].target].accepting else 1.0 / UNFINISHED


cdef inline double _share(const Yield* recent) noexcept nogil:
    return (recent.made + 1) / (recent.visited + 1)


cdef bint cut_off(
        Core* core, int edge_number, const Bucket* bucket, int* first, int* end, Within* within) noexcept nogil:
    """Restrict the rows ``first:end`` of a bucket, in birth order, to those that are tried along an edge.

    The number of children is predicted by the yield. If the event runs on, it is tried with all rows, and ``within`` are
    those that it would have been tried with otherwise. Returns True if there may be more than fit under the limit; the
    caller must then ask `next_rows` and `affordable_children`.
    """
    cdef Cut* cut = &core.shed.cut
    cdef const Edge* edge = core.edges + edge_number
    cdef const Yields* yields = cut.yields + edge_number
    cdef int64_t remaining, live_from = core.starts.first
    cdef int64_t child = child_price(core, edge)
    cdef double older = _share(&yields.older), younger = _share(&yields.younger), lost_children
    cdef int fixed = core.states[edge.source].fixed, room, row, n, live = 0, lost = 0, last = 0
    cdef bint ages = edge.born or edge.n_absent > 0 or core.states[edge.target].n_accept_absent > 0
    cdef bint oldest_first = older > (YOUNGER_LIFE if ages else 1) * younger
    cut.weight = 0
    within.first, within.end = first[0], end[0]
    if cut.runs_on and cut.beyond_weight == 0:
        return False
    remaining = max(<int64_t>0, left(core, 0))
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
        return live * (core.prices.visited + child) > remaining  # as if there were no dead rows
    lost_children = lost * (younger if oldest_first else older)
    if oldest_first:
        within.end = first[0] + last
    else:
        within.first = end[0] - last
    if _runs_on(core, lost_children * _value(core, edge_number)):
        return cut.beyond_weight > 0
    cut.tried[edge_number].passed_over += lost
    cut.tried[edge_number].lost += lost_children
    first[0], end[0] = within.first, within.end
    return True


cdef int next_rows(Core* core, int edge_number, const Bucket* bucket, int first, int end, int visited, int rows,
                   const Within* within) noexcept nogil:
    """Return with how many of the next ``rows`` rows of ``first:end`` the event is tried, and set their weight.

    0: the event stops here. ``visited``: number of rows that were not yet charged.
    """
    cdef Cut* cut = &core.shed.cut
    cdef int fit, row, fixed = core.states[core.edges[edge_number].source].fixed
    cut.weight = 0
    if within.first <= first < within.end:
        fit = _fitting(left(core, visited), core.prices.visited, rows)
        if fit > 0:
            rows = min(rows, within.end - first)
            for row in range(first, first + rows):
                fit -= bucket.data[<int64_t>row * fixed] >= core.starts.first
                if fit < 0:
                    return row - first
            return rows
        if stops(core, edge_number, bucket, first, end):
            return 0
    cut.weight = cut.beyond_weight
    return min(rows, within.first - first) if first < within.first else rows


cdef bint stops(Core* core, int edge_number, const Bucket* bucket, int first, int end) noexcept nogil:
    """Return whether the event stops before the rows ``first:end`` of a bucket; count them as passed over if it does."""
    cdef Tried* tried = core.shed.cut.tried + edge_number
    cdef const Yields* yields = core.shed.cut.yields + edge_number
    cdef int fixed = core.states[core.edges[edge_number].source].fixed, row
    cdef double lost
    cdef int64_t live = 0
    if core.shed.cut.runs_on:
        return False
    for row in range(first, end):
        live += bucket.data[<int64_t>row * fixed] >= core.starts.first
    if live == 0:
        return True
    lost = live * (_share(&yields.older) + _share(&yields.younger)) / 2
    if _runs_on(core, lost * _value(core, edge_number)):
        return False
    tried.passed_over += live
    tried.lost += lost
    return True


cdef void charge_staged(Core* core, int64_t before) noexcept nogil:
    """Replace the predicted cost of staged children by the real one, which has risen from ``before`` (`own_cost`).

    Not all of them become partial matches or matches. Those beyond the limit are taken to cost as much as the others.
    """
    cdef Cut* cut = &core.shed.cut
    cdef double share = cut.staged_beyond / <double>cut.staged
    cut.beyond += <int64_t>((own_cost(core) - before) * share) - cut.staged_beyond
    cut.staged = cut.staged_beyond = 0


cdef int middle_of(const Core* core, const Bucket* bucket, int64_t fixed, int first, int end) noexcept nogil:
    """Return the row of ``first:end`` before which half of the live rows are.

    Rows that are not alive do not count, because a restored matcher does not have them.
    """
    cdef int middle = first, row
    cdef bint second = False
    for row in range(first, end):
        if bucket.data[row * fixed] < core.starts.first:
            continue
        if second:
            while bucket.data[middle * fixed] < core.starts.first:
                middle += 1
            middle += 1
        second = not second
    return middle


cdef void count_yield(Core* core, int edge_number, const Bucket* bucket, int first, int n, const int32_t* rows, int made,
                      int middle, Yields* counted) noexcept nogil:
    """Add the visits of ``n`` rows of a bucket to ``counted``, given those that made a child; NULL: all did.

    Rows before ``middle`` belong to the older half.
    """
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
    counted.older.visited += older
    counted.older.made += made_older
    counted.younger.visited += younger
    counted.younger.made += made - made_older


cdef void add_yields(Core* core, int edge_number, const Yields* counted) noexcept nogil:
    """Add what `count_yield` counted for an event to the recent visits along an edge."""
    cdef Yields* yields = core.shed.cut.yields + edge_number
    _add_yield(&yields.older, &counted.older)
    _add_yield(&yields.younger, &counted.younger)


cdef inline void _add_yield(Yield* recent, const Yield* counted) noexcept nogil:
    recent.visited += counted.visited
    recent.made += counted.made
    while recent.visited > YIELD_OF:
        recent.visited /= 2
        recent.made /= 2


cdef inline int _fitting(int64_t budget, int64_t price, int most) noexcept nogil:
    """Return how many operations of a price fit, at most ``most``; any number of those that cost nothing."""
    return most if price <= 0 else <int>min(<int64_t>most, max(<int64_t>0, budget) // price)


cdef int affordable_children(const Core* core, const Edge* edge, int visited) noexcept nogil:
    """Return how many children fit under the limit, after ``visited`` rows that were not yet charged."""
    return _fitting(left(core, visited), child_price(core, edge), INT32_MAX)
