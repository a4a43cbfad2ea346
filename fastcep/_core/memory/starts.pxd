# The first events of live partial matches, and the chain nodes of each. See starts.pyx.
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.start_lists cimport StartLists


cdef enum:              # kinds of window
    TIME
    EVENTS
    UNBOUNDED
    EXPLICIT


cdef struct Starts:
    Budget* budget
    int kind                 # kind of the window
    int64_t span             # length of the window: ns or events
    int64_t due              # time windows: up to this time no start expires
    int64_t* time            # ring by ordinal, [first, next): time of the event,
    int64_t* position        # its position,
    int64_t* rows            # number of live rows of the start,
    int64_t* node            # latest chain node of the start, or -1,
    int64_t* window          # ordinal of the latest explicit window that was open
    bint tracks              # SELECT longest; the entries have three more words:
    int64_t* alive           # position of the last event that made a row of the start, or -1,
    int64_t* best            # the row of ``Pending`` that holds its longest match, or -1,
    int64_t* older           # and the next start in the list of ``alive``, or -1
    StartLists lists         # contiguity: the starts with a longest match by ``alive``
    bint unsettled           # after shedding and a restore: any start may have no other row than its longest match
    int64_t mask, first, next
    int64_t kept             # starts [kept, first) are dead, but their chain nodes are not freed yet
    bint keeps               # the chain nodes of dead starts are kept until ``release``
    int64_t newest           # ordinal of the latest explicit window
    int64_t live             # live rows of all starts
    int64_t* event           # per chain node: position of its event,
    int64_t* previous        # node of the previous element, or -1,
    int64_t* sibling         # next node of the same start, or next free node
    int64_t node_capacity, nodes_used, free_node, nodes_live


cdef int starts_init(Starts* starts, Budget* budget, int kind, int64_t span, bint tracks) noexcept nogil
cdef void starts_clear(Starts* starts) noexcept nogil
cdef int grow(Starts* starts) noexcept nogil
cdef int64_t new_node(Starts* starts, int64_t event, int64_t previous, int64_t start) noexcept nogil
cdef void drop_all(Starts* starts) noexcept nogil
cdef void release(Starts* starts) noexcept nogil
cdef void starts_rest(Starts* starts, bint fully) noexcept nogil
cdef int64_t starts_bytes(const Starts* starts) noexcept nogil
cdef int relist(Starts* starts) noexcept nogil


cdef inline int64_t last_time(const Starts* starts, int64_t time) noexcept nogil:
    """Return the last time in the window of a start; INT64_MAX if the window ends beyond int64."""
    return time + starts.span if time <= INT64_MAX - starts.span else INT64_MAX


cdef inline int64_t start_of(Starts* starts, int64_t time, int64_t position) noexcept nogil:
    """Return the ordinal of the start of an event, which is created if it is new; -1 without memory."""
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
    if starts.tracks:
        starts.alive[ordinal & starts.mask] = starts.best[ordinal & starts.mask] = -1
        starts.older[ordinal & starts.mask] = -1
    return ordinal


cdef inline void drop_first(Starts* starts) noexcept nogil:
    """Drop the oldest start: its rows are dead, its nodes are freed (with ``keeps``: by ``release``)."""
    cdef int64_t slot = starts.first & starts.mask
    starts.live -= starts.rows[slot]
    starts.first += 1
    if not starts.keeps:
        release_first(starts, slot)


cdef inline void drop_empty(Starts* starts) noexcept nogil:
    """Drop the oldest starts as long as they have no live rows."""
    while starts.first < starts.next and starts.rows[starts.first & starts.mask] == 0:
        drop_first(starts)


cdef inline void free_nodes(Starts* starts, int64_t slot) noexcept nogil:
    """Free the chain nodes of the start in this slot."""
    cdef int64_t node = starts.node[slot], following
    while node >= 0:
        following = starts.sibling[node]
        starts.sibling[node] = starts.free_node
        starts.free_node = node
        starts.nodes_live -= 1
        node = following


cdef inline void release_first(Starts* starts, int64_t slot) noexcept nogil:
    """Free the chain nodes of the oldest kept start, which is in this slot."""
    free_nodes(starts, slot)
    starts.kept += 1


cdef inline void count_rows(Starts* starts, const int64_t* ordinals, int64_t step, int64_t n) noexcept nogil:
    """Count one row for each of ``n`` ordinals; does not change ``live``."""
    cdef int64_t* rows = starts.rows
    cdef int64_t mask = starts.mask, j
    for j in range(n):
        rows[ordinals[j * step] & mask] += 1


cdef inline void gather_starts(int64_t* to, const Starts* starts, const int64_t* ordinals, int64_t step,
                               const int32_t* rows, int64_t n) noexcept nogil:
    """Copy the positions of first events, given their ordinals; arguments as for ``vectors.gather``."""
    cdef const int64_t* position = starts.position
    cdef int64_t mask = starts.mask, i
    for i in range(n):
        to[i] = position[ordinals[(i if rows == NULL else rows[i]) * step] & mask]


cdef inline void expire_all(Starts* starts, int64_t time) noexcept nogil:
    """Drop every start; the stream has ended at ``time``."""
    while starts.first < starts.next:
        if starts.keeps and starts.kind != TIME:
            starts.time[starts.first & starts.mask] = time
        drop_first(starts)


cdef inline void expire(Starts* starts, int64_t time, int64_t position, const int64_t* times, int64_t base) noexcept nogil:
    """Drop the starts whose window does not contain an event with this time and position.

    ``times`` are the times of the events of the batch, the first of which has position ``base``; NULL without a batch.
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
            if starts.keeps and times != NULL:  # the time of the event that ended its window
                starts.time[slot] = times[starts.position[slot] + starts.span - base]
            drop_first(starts)
