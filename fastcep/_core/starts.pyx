# cython: language_level=3
"""Starts: a ring with one entry per event that begins partial matches.

Every row knows its start's ordinal; it is dead when the ordinal is before ``first``. So expiry is one compare per row,
the number of live rows is exact at every moment, and the chain nodes (elements of Kleene variables, shared by all rows that
continue them) are freed with the start they hang under: no reference counts, no collection.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastcep._core.vectors cimport regrow

cdef enum:
    REST = 4096              # entries that an empty ring may keep


cdef int _grow(Starts* starts) noexcept nogil:
    cdef int64_t capacity = 64 if starts.time == NULL else (starts.mask + 1) * 2
    cdef int64_t* fresh[4]
    cdef int64_t i
    cdef int j
    for j in range(4):
        fresh[j] = <int64_t*>malloc(capacity * sizeof(int64_t))
        if fresh[j] == NULL:
            while j > 0:
                j -= 1
                free(fresh[j])
            return -1
    for i in range(starts.first, starts.next):
        fresh[0][i & (capacity - 1)] = starts.time[i & starts.mask]
        fresh[1][i & (capacity - 1)] = starts.position[i & starts.mask]
        fresh[2][i & (capacity - 1)] = starts.rows[i & starts.mask]
        fresh[3][i & (capacity - 1)] = starts.node[i & starts.mask]
    free(starts.time)
    free(starts.position)
    free(starts.rows)
    free(starts.node)
    starts.time, starts.position, starts.rows, starts.node = fresh[0], fresh[1], fresh[2], fresh[3]
    starts.mask = capacity - 1
    return 0


cdef int starts_init(Starts* starts) noexcept nogil:
    """Make an empty ring; -1 without memory."""
    memset(starts, 0, sizeof(Starts))
    starts.free_node = -1
    return _grow(starts)


cdef void starts_clear(Starts* starts) noexcept nogil:
    """Give all memory back."""
    free(starts.time)
    free(starts.position)
    free(starts.rows)
    free(starts.node)
    free(starts.event)
    free(starts.previous)
    free(starts.sibling)
    starts.time = starts.position = starts.rows = starts.node = NULL
    starts.event = starts.previous = starts.sibling = NULL
    starts.node_capacity = starts.nodes_used = starts.mask = 0
    starts.free_node = -1


cdef int starts_rest(Starts* starts) noexcept nogil:
    """Shrink a large ring that is empty to its first size; ordinals go on. -1 without memory."""
    if starts.first < starts.next or (starts.mask < REST and starts.node_capacity <= REST):
        return 0
    starts_clear(starts)
    return _grow(starts)


cdef int64_t start_of(Starts* starts, int64_t time, int64_t position) noexcept nogil:
    """Ordinal of the event's start, made when new; -1 without memory."""
    cdef int64_t ordinal = starts.next - 1
    if ordinal >= starts.first and starts.position[ordinal & starts.mask] == position:
        return ordinal
    if starts.next - starts.first > starts.mask and _grow(starts) < 0:
        return -1
    ordinal = starts.next
    starts.next += 1
    starts.time[ordinal & starts.mask] = time
    starts.position[ordinal & starts.mask] = position
    starts.rows[ordinal & starts.mask] = 0
    starts.node[ordinal & starts.mask] = -1
    return ordinal


cdef int64_t new_node(Starts* starts, int64_t event, int64_t previous, int64_t start) noexcept nogil:
    """Append ``event`` to the chain ``previous`` (-1 = a new chain) of a start; -1 without memory."""
    cdef int64_t node = starts.free_node, capacity
    if node >= 0:
        starts.free_node = starts.sibling[node]
    else:
        if starts.nodes_used == starts.node_capacity:
            capacity = max(64, starts.node_capacity * 2)
            if not (regrow(<void**>&starts.event, capacity, 8) and regrow(<void**>&starts.previous, capacity, 8)
                    and regrow(<void**>&starts.sibling, capacity, 8)):
                return -1
            starts.node_capacity = capacity
        node = starts.nodes_used
        starts.nodes_used += 1
    starts.nodes_live += 1
    starts.event[node] = event
    starts.previous[node] = previous
    starts.sibling[node] = starts.node[start & starts.mask]
    starts.node[start & starts.mask] = node
    return node


cdef void drop_first(Starts* starts) noexcept nogil:
    """Forget the oldest start: its rows are dead, its nodes free."""
    cdef int64_t slot = starts.first & starts.mask, node = starts.node[slot], following
    starts.live -= starts.rows[slot]
    while node >= 0:
        following = starts.sibling[node]
        starts.sibling[node] = starts.free_node
        starts.free_node = node
        starts.nodes_live -= 1
        node = following
    starts.first += 1
