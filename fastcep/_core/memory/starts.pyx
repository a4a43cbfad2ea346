# cython: language_level=3
"""Starts: a ring with one entry per event that begins partial matches.

Every row knows its start's ordinal; it is dead when the ordinal is before ``first``. So expiry is one compare per row,
the number of live rows is exact at every moment, and the chain nodes (elements of Kleene variables, shared by all rows that
continue them) are freed with the start they hang under: no reference counts, no collection.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, cut, give_back, obtain, regrow

cdef enum:
    FIRST = 64               # entries of a new ring
    REST = 4096              # entries that an empty ring may keep
    ENTRY = 40               # bytes of one


cdef int grow(Starts* starts) noexcept nogil:
    """Double the ring; -1 without memory."""
    cdef int64_t old = 0 if starts.time == NULL else starts.mask + 1
    cdef int64_t capacity = old * 2 if old else FIRST, i
    cdef int64_t* fresh = <int64_t*>obtain(starts.budget, capacity * ENTRY)
    cdef int64_t* kept = starts.time
    if fresh == NULL:
        return -1
    for i in range(starts.kept, starts.next):
        fresh[i & (capacity - 1)] = starts.time[i & starts.mask]
        fresh[capacity + (i & (capacity - 1))] = starts.position[i & starts.mask]
        fresh[2 * capacity + (i & (capacity - 1))] = starts.rows[i & starts.mask]
        fresh[3 * capacity + (i & (capacity - 1))] = starts.node[i & starts.mask]
        fresh[4 * capacity + (i & (capacity - 1))] = starts.window[i & starts.mask]
    _place(starts, fresh, capacity)
    give_back(starts.budget, kept, old * ENTRY)
    return 0


cdef int starts_init(Starts* starts, Budget* budget, int kind, int64_t span) noexcept nogil:
    """Make an empty ring for windows of a kind and length; -1 without memory."""
    memset(starts, 0, sizeof(Starts))
    starts.budget = budget
    starts.kind = kind
    starts.span = span
    starts.due = INT64_MAX
    starts.free_node = -1
    return grow(starts)


cdef void starts_clear(Starts* starts) noexcept nogil:
    """Give all memory back."""
    if starts.budget != NULL:
        give_back(starts.budget, starts.time, (starts.mask + 1) * ENTRY)
        _clear_nodes(starts)
        starts.time = NULL


cdef void _clear_nodes(Starts* starts) noexcept nogil:
    give_back(starts.budget, starts.event, starts.node_capacity * 8)
    give_back(starts.budget, starts.previous, starts.node_capacity * 8)
    give_back(starts.budget, starts.sibling, starts.node_capacity * 8)
    starts.event = starts.previous = starts.sibling = NULL
    starts.node_capacity = starts.nodes_used = 0
    starts.free_node = -1


cdef int64_t starts_bytes(const Starts* starts) noexcept nogil:
    """All bytes held."""
    return (starts.mask + 1) * ENTRY + starts.node_capacity * 24


cdef void starts_rest(Starts* starts, bint wholly) noexcept nogil:
    """Shrink a ring that is empty, if it is large or ``wholly``; ordinals go on."""
    if wholly or starts.node_capacity > REST:
        _clear_nodes(starts)
    if starts.mask >= (FIRST if wholly else REST):
        _place(starts, <int64_t*>cut(starts.budget, starts.time, (starts.mask + 1) * ENTRY, FIRST * ENTRY), FIRST)


cdef void _place(Starts* starts, int64_t* block, int64_t capacity) noexcept nogil:
    starts.time = block
    starts.position = block + capacity
    starts.rows = block + 2 * capacity
    starts.node = block + 3 * capacity
    starts.window = block + 4 * capacity
    starts.mask = capacity - 1


cdef int _more_nodes(Starts* starts) noexcept nogil:
    cdef int64_t old = starts.node_capacity, capacity = max(64, old * 2)
    cdef void** arrays[3]
    cdef int j
    arrays[0] = <void**>&starts.event
    arrays[1] = <void**>&starts.previous
    arrays[2] = <void**>&starts.sibling
    for j in range(3):
        if not regrow(starts.budget, arrays[j], old, capacity, 8):
            starts.budget.used -= j * (capacity - old) * 8  # those that grew stay longer than they are used
            return -1
    starts.node_capacity = capacity
    return 0


cdef int64_t new_node(Starts* starts, int64_t event, int64_t previous, int64_t start) noexcept nogil:
    """Append ``event`` to the chain ``previous`` (-1 = a new chain) of a start; -1 without memory."""
    cdef int64_t node = starts.free_node
    if node >= 0:
        starts.free_node = starts.sibling[node]
    else:
        if starts.nodes_used == starts.node_capacity and _more_nodes(starts) < 0:
            return -1
        node = starts.nodes_used
        starts.nodes_used += 1
    starts.nodes_live += 1
    starts.event[node] = event
    starts.previous[node] = previous
    starts.sibling[node] = starts.node[start & starts.mask]
    starts.node[start & starts.mask] = node
    return node


cdef void drop_all(Starts* starts) noexcept nogil:
    """Forget every start."""
    while starts.first < starts.next:
        drop_first(starts)
    release(starts)
    starts.live = 0


cdef void release(Starts* starts) noexcept nogil:
    """Free what hangs under the starts that are dead."""
    while starts.kept < starts.first:
        release_first(starts, starts.kept & starts.mask)
