# First events of live partial matches, and the chain nodes made under them. See starts.pyx.
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from fastcep._core.memory.allocator cimport Budget


cdef enum:              # kinds of window
    TIME
    EVENTS
    UNBOUNDED
    EXPLICIT


cdef struct Starts:
    Budget* budget
    int kind                 # of the window
    int64_t span             # its length: ns, events
    int64_t due              # of windows of time: no start dies up to then
    int64_t* time            # ring of ordinals [first, next)
    int64_t* position
    int64_t* rows            # live rows under it
    int64_t* node            # latest chain node under it, or -1
    int64_t* window          # the latest explicit window that was open
    int64_t mask, first, next
    int64_t kept             # [kept, first) are dead, but what hangs under them is not taken away yet; else ``first``
    bint keeps               # they wait for ``release``
    int64_t newest           # the latest explicit window of all
    int64_t live             # rows under all starts
    int64_t* event           # chain nodes: event position,
    int64_t* previous        # the element before, or -1,
    int64_t* sibling         # the next node of the same start, or the next free node
    int64_t node_capacity, nodes_used, free_node, nodes_live


cdef int starts_init(Starts* starts, Budget* budget, int kind, int64_t span) noexcept nogil
cdef void starts_clear(Starts* starts) noexcept nogil
cdef int grow(Starts* starts) noexcept nogil
cdef int64_t new_node(Starts* starts, int64_t event, int64_t previous, int64_t start) noexcept nogil
cdef void drop_all(Starts* starts) noexcept nogil
cdef void release(Starts* starts) noexcept nogil
cdef void starts_rest(Starts* starts, bint wholly) noexcept nogil
cdef int64_t starts_bytes(const Starts* starts) noexcept nogil


cdef inline int64_t last_time(const Starts* starts, int64_t time) noexcept nogil:
    """The last time that is in the time window of a start; one that reaches above int64 keeps everything."""
    return time + starts.span if time <= INT64_MAX - starts.span else INT64_MAX


cdef inline int64_t start_of(Starts* starts, int64_t time, int64_t position) noexcept nogil:
    """Ordinal of the event's start, made when new; -1 without memory."""
    cdef int64_t ordinal = starts.next - 1
    if ordinal >= starts.first and starts.position[ordinal & starts.mask] == position:
        return ordinal
    if starts.next - starts.kept > starts.mask and grow(starts) < 0:
        return -1
    ordinal = starts.next
    if ordinal == starts.first and starts.kind == TIME:
        starts.due = last_time(starts, time)
    starts.next += 1
    starts.time[ordinal & starts.mask] = time
    starts.position[ordinal & starts.mask] = position
    starts.rows[ordinal & starts.mask] = 0
    starts.node[ordinal & starts.mask] = -1
    starts.window[ordinal & starts.mask] = starts.newest
    return ordinal


cdef inline void drop_first(Starts* starts) noexcept nogil:
    """Forget the oldest start: its rows are dead, its nodes free (unless it waits for ``release``)."""
    cdef int64_t slot = starts.first & starts.mask
    starts.live -= starts.rows[slot]
    starts.first += 1
    if not starts.keeps:
        release_first(starts, slot)


cdef inline void drop_empty(Starts* starts) noexcept nogil:
    """Forget the oldest starts that have no rows any more."""
    while starts.first < starts.next and starts.rows[starts.first & starts.mask] == 0:
        drop_first(starts)


cdef inline void free_nodes(Starts* starts, int64_t slot) noexcept nogil:
    """Free the nodes of the start that stands in this slot."""
    cdef int64_t node = starts.node[slot], following
    while node >= 0:
        following = starts.sibling[node]
        starts.sibling[node] = starts.free_node
        starts.free_node = node
        starts.nodes_live -= 1
        node = following


cdef inline void release_first(Starts* starts, int64_t slot) noexcept nogil:
    """Free the nodes of the oldest start that is kept, which stands in this slot."""
    free_nodes(starts, slot)
    starts.kept += 1


cdef inline void count_rows(Starts* starts, const int64_t* ordinals, int64_t step, int64_t n) noexcept nogil:
    """Count a row under each of ``n`` ordinals (apart from ``live``)."""
    cdef int64_t* rows = starts.rows
    cdef int64_t mask = starts.mask, j
    for j in range(n):
        rows[ordinals[j * step] & mask] += 1


cdef inline void gather_starts(int64_t* to, const Starts* starts, const int64_t* ordinals, int64_t step,
                               const int32_t* rows, int64_t n) noexcept nogil:
    """Copy the positions of the first events, by ordinals as in ``vectors.gather``."""
    cdef const int64_t* position = starts.position
    cdef int64_t mask = starts.mask, i
    for i in range(n):
        to[i] = position[ordinals[(i if rows == NULL else rows[i]) * step] & mask]


cdef inline void expire_all(Starts* starts, int64_t time) noexcept nogil:
    """Drop every start, because the stream has ended at ``time``."""
    while starts.first < starts.next:
        if starts.keeps and starts.kind != TIME:
            starts.time[starts.first & starts.mask] = time
        drop_first(starts)


cdef inline void expire(Starts* starts, int64_t time, int64_t position, const int64_t* times, int64_t base) noexcept nogil:
    """Drop the starts that an event of this time and position can no longer join.

    ``times`` are those of the batch's events, of which the first has position ``base``; NULL without one.
    """
    cdef int64_t slot
    if starts.due < time:
        while starts.first < starts.next and last_time(starts, starts.time[starts.first & starts.mask]) < time:
            drop_first(starts)
        starts.due = INT64_MAX
        if starts.first < starts.next:
            starts.due = last_time(starts, starts.time[starts.first & starts.mask])
    elif starts.kind == EVENTS:
        while starts.first < starts.next and position - starts.position[starts.first & starts.mask] >= starts.span:
            slot = starts.first & starts.mask
            if starts.keeps and times != NULL:  # the time of the event which pushed it out
                starts.time[slot] = times[starts.position[slot] + starts.span - base]
            drop_first(starts)
